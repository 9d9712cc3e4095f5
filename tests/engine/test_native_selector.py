"""The native selector finds what torch's finds: the same tokens, and logprobs within 1e-5, on one thread and on two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from native_models import need_native, why_not

from engine.draws import StepDraws
from engine.loader import cpu_flags
from engine.native import selector as native
from engine.native.build import with_library
from engine.native.library import Library, ThreadPool
from engine.native.selector import NativeSelector
from engine.native.variants import VARIANTS, choose
from engine.sampling.params import DrawSettings
from engine.sampling.penalties import TokenCounts
from engine.sampling.sampler import Row, pick
from engine.sampling.selector import TorchSelector
from engine.sampling.thinking import ThinkingLimit
from engine.types import SamplingParams, ThinkingBudget

CPU = torch.device("cpu")
TORCH = TorchSelector()
LAW = settings(max_examples=200, deadline=None)
THREADS = (1, 2)

VOCABS = st.sampled_from([1, 2, 7, 16, 31, 33, 100, 1000, 1025, 4099, 20_011])
SHAPES = st.sampled_from(["normal", "flat", "peaked", "few values", "bfloat16", "far below", "huge"])
FIELDS: dict[str, Any] = {
    "temperature": st.floats(0.01, 2.0) | st.sampled_from([0.0, 1e-5, 0.7, 1.0, 50.0, 1e30, 3.4e38]),
    "top_k": st.integers(1, 80) | st.sampled_from([1, 64, 65, 500, 1000, 2147483647]),
    "top_p": st.floats(0.01, 1.0) | st.sampled_from([1e-6, 0.25, 0.5, 0.75, 0.9, 0.999]),
    "repetition_penalty": st.sampled_from([5e-324, 0.5, 1.1, 1.7, 1e30]),
    "frequency_penalty": st.sampled_from([-2.0, -0.3, 0.7, 2.0]),
    "presence_penalty": st.sampled_from([-1.5, 0.4, 2.0]),
    "logprobs": st.integers(0, 20) | st.just(1100),
}


def _selectors(library_cache: Path, variant: str | None = None) -> list[NativeSelector]:
    library = with_library(choose(cpu_flags(), variant), Library, cache=library_cache)
    return [NativeSelector(library, ThreadPool(library, threads), lambda: True) for threads in THREADS]


@pytest.fixture(scope="module", params=[variant.name for variant in VARIANTS])
def selectors(request: pytest.FixtureRequest, library_cache: Path) -> list[NativeSelector]:
    """Of each variant that this machine has, on one thread and on two."""
    need_native(request.param)
    return _selectors(library_cache, request.param)


@pytest.fixture(scope="module")
def selector(library_cache: Path) -> NativeSelector:
    """Of the best variant, on two threads."""
    need_native()
    return _selectors(library_cache)[1]


@pytest.fixture
def torch_picks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each row that the native selector leaves to torch."""
    left: list[int] = []

    def counted(logits: torch.Tensor, row: Row) -> torch.Tensor:
        left.append(row.position)
        return pick(logits, row)

    monkeypatch.setattr(native, "pick", counted)
    return left


def _logits(shape: str, seed: int, rows: int, vocab: int, holes: bool) -> torch.Tensor:
    """Float32 ``[rows, vocab]`` whose largest values are finite."""
    generator = np.random.Generator(np.random.Philox(seed))
    values = generator.standard_normal((rows, vocab))
    if shape == "flat":
        values *= 1e-3
    elif shape == "peaked":
        values[:, generator.integers(vocab)] += 15.0
    elif shape == "few values":
        values = generator.integers(-2, 3, (rows, vocab)).astype(np.float64)
    elif shape == "far below":
        values = values * 30 - 200
    elif shape == "huge":
        values *= 1e37
    else:
        values *= 4
    logits = torch.from_numpy(values.astype(np.float32))
    if shape == "bfloat16":
        logits = logits.bfloat16().float()
    if holes:
        gone = torch.from_numpy(generator.random((rows, vocab)) < 0.5)
        gone[:, int(generator.integers(vocab))] = False
        logits[gone] = float("-inf")
    return logits


def _row(seed: int = 0, position: int = 0, counted: Any = (), **fields: Any) -> Row:
    chosen = DrawSettings.of(SamplingParams(max_tokens=1, seed=seed, **fields), 0)
    counts = TokenCounts.start(chosen, counted[::2], CPU)
    for token_id in counted if counts is not None else ():
        counts.add(token_id)
    return Row(chosen, position, counts)


@st.composite
def steps(draw: Any) -> tuple[torch.Tensor, list[tuple[int, Row]]]:
    """Logits of a step and the choices that draw from its rows, several from one row among them."""
    vocab, rows = draw(VOCABS), draw(st.integers(1, 3))
    logits = _logits(draw(SHAPES), draw(st.integers(0, 10**6)), rows, vocab, draw(st.booleans()))
    asked = []
    for position in range(draw(st.integers(1, 6))):
        names = draw(st.sets(st.sampled_from(sorted(FIELDS)), max_size=4))
        fields = {name: draw(FIELDS[name]) for name in sorted(names)}
        counted = draw(st.lists(st.integers(0, vocab - 1), max_size=30))
        asked.append(
            (draw(st.integers(0, rows - 1)), _row(draw(st.integers(0, 2**64 - 1)), position, counted, **fields))
        )
    return logits, asked


@LAW
@given(step=steps())
def test_every_draw_is_torchs(
    selectors: list[NativeSelector], step: tuple[torch.Tensor, list[tuple[int, Row]]]
) -> None:
    """Tokens exactly, logprobs within 1e-5 and the same bits on any number of threads, for any settings and logits."""
    logits, rows = step
    wanted = StepDraws(logits, TORCH).draw(rows)
    one, two = (StepDraws(logits, selector).draw(rows) for selector in selectors)
    assert one == two
    for draw, (index, row), reference in zip(one, rows, wanted, strict=True):
        assert draw.token_id == reference.token_id
        assert (draw.logprob is None) == (reference.logprob is None)
        if draw.logprob is not None:
            scale = max(1.0, float(logits[index].amax().abs()) * 1e-1)
            assert draw.logprob == pytest.approx(reference.logprob, abs=1e-5 * scale)
        assert (draw.top is None) == (row.settings.top_logprobs is None)
        if draw.top is not None:
            _same_list(draw.top, reference.top, logits[index])


def _same_list(found: Any, wanted: Any, logits: torch.Tensor) -> None:
    """Lists of (id, logprob): as long, near, descending with equals by id, and of the largest logits."""
    assert len(found) == len(wanted) == len({token_id for token_id, _ in found})
    assert found == tuple(sorted(found, key=lambda pair: (-pair[1], pair[0])))
    ids = [token_id for token_id, _ in found]
    values = torch.tensor([value for _, value in found])
    torch.testing.assert_close(values, torch.tensor([value for _, value in wanted]), atol=1e-5, rtol=1e-6)
    largest = logits.topk(len(ids)).values
    torch.testing.assert_close(logits[ids].sort(descending=True).values, largest, atol=1e-5, rtol=1e-6)


@LAW
@given(
    vocab=VOCABS,
    seed=st.integers(0, 10**6),
    shape=SHAPES,
    strange=st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 20_010), st.sampled_from([float("nan"), float("inf"), float("-inf")])
        )
    ),
)
def test_the_likeliest_and_its_health_are_torchs(
    selectors: list[NativeSelector], vocab: int, seed: int, shape: str, strange: list[tuple[int, int, float]]
) -> None:
    """Of equals the smallest id; a NaN counts as the largest, and it and infinities are not finite."""
    logits = _logits(shape, seed, 4, vocab, holes=False)
    for row, token_id, value in strange:
        logits[row, token_id % vocab] = value
    for selector in selectors:
        assert selector.likeliest(logits) == TORCH.likeliest(logits)


def test_a_row_of_nothing_has_no_likeliest_token(selector: NativeSelector) -> None:
    """All minus infinity: the first id, not finite, as torch says."""
    assert selector.likeliest(torch.full((2, 50), float("-inf"))) == ([0, 0], [0, 0])


@pytest.mark.parametrize("fields", [{}, {"top_p": 0.9}, {"top_k": 40}, {"top_k": 1000, "top_p": 0.95}], ids=str)
def test_hundreds_of_draws_from_a_real_vocabulary_stay_native(
    selector: NativeSelector, torch_picks: list[int], fields: dict[str, Any]
) -> None:
    """Of 300 positions over 49,152 tokens all are torch's, and hardly any was left to torch."""
    logits = _logits("normal", 3, 4, 49_152, holes=False)
    rows = [(position % 4, _row(7, position, temperature=0.8, **fields)) for position in range(300)]
    assert selector.tokens(logits, rows) == TORCH.tokens(logits, rows)
    assert len(torch_picks) <= 3


def test_penalties_of_a_long_prompt_stay_native(selector: NativeSelector, torch_picks: list[int]) -> None:
    """2,000 counted tokens of 20,011, all three penalties and both filters."""
    logits = _logits("normal", 5, 1, 20_011, holes=False)
    counted = [(17 * index) % 20_011 for index in range(2000)]
    penalties = {"repetition_penalty": 1.2, "frequency_penalty": 0.4, "presence_penalty": 0.3}
    rows = [(0, _row(seed, 2, counted, top_k=200, top_p=0.9, **penalties)) for seed in range(60)]
    assert selector.tokens(logits, rows) == TORCH.tokens(logits, rows)
    assert len(torch_picks) <= 2


def test_a_draw_among_equals_at_the_border_is_by_id(selector: NativeSelector) -> None:
    """Of 5,000 equal logits top-k keeps the smallest ids."""
    logits = torch.zeros(1, 5000)
    for top_k in (3, 70):
        rows = [(0, _row(seed, top_k=top_k)) for seed in range(200)]
        tokens = selector.tokens(logits, rows)
        assert tokens == TORCH.tokens(logits, rows)
        assert max(tokens) < top_k


def test_a_nucleus_of_equals_is_by_id(selector: NativeSelector, torch_picks: list[int]) -> None:
    """Of 5,000 equal logits top-p 0.3 keeps the 1,500 smallest ids, also where top-k keeps 4,000 of them."""
    logits = torch.zeros(1, 5000)
    for fields, last in (({"top_p": 0.3}, 1500), ({"top_p": 0.3, "top_k": 4000}, 1200)):
        rows = [(0, _row(seed, **fields)) for seed in range(100)]
        tokens = selector.tokens(logits, rows)
        assert tokens == TORCH.tokens(logits, rows)
        assert last * 0.9 < max(tokens) <= last
    assert len(torch_picks) <= 2


def test_scores_too_close_to_call_are_left_to_torch(selector: NativeSelector, torch_picks: list[int]) -> None:
    """Equal logits of 3e38 at a low temperature: the noise is lost in rounding, and torch's order decides."""
    logits = torch.full((1, 40), 3e38)
    rows = [(0, _row(seed, temperature=1e-5)) for seed in range(5)]
    assert selector.tokens(logits, rows) == [0] * 5
    assert len(torch_picks) == 5


def test_a_rows_draw_and_logprobs_do_not_depend_on_its_company(selectors: list[NativeSelector]) -> None:
    """Alone, or as one of nine rows: the same token and the same bits."""
    logits = _logits("normal", 11, 9, 4099, holes=False)
    rows = [(index, _row(index, 1, top_p=0.9, logprobs=5)) for index in range(9)]
    together = StepDraws(logits, selectors[1]).draw(rows)
    for index, row in rows:
        assert StepDraws(logits[index : index + 1], selectors[0]).draw([(0, row)]) == [together[index]]


def test_a_thought_that_must_end_ends(selector: NativeSelector) -> None:
    """The closing token is taken, whatever the logits say, and its logprob is reported."""
    row = _row(temperature=1.0, logprobs=1)
    row.thinking = ThinkingLimit(ThinkingBudget(tokens=0, opening_id=3, closing_id=4, begun=True))
    logits = torch.arange(10.0)[None]
    (draw,) = StepDraws(logits, selector).draw([(0, row)])
    assert draw.token_id == 4
    assert draw.logprob == pytest.approx(torch.log_softmax(logits, dim=-1)[0, 4].item(), abs=1e-5)


GOOD = torch.zeros(2, 10)


@pytest.mark.parametrize(
    ("logits", "said"),
    [
        (torch.zeros(2, 10, dtype=torch.float64), "contiguous float32"),
        (torch.zeros(10), r"contiguous float32 \[rows, vocab\]"),
        (torch.zeros(10, 2).T, r"not torch.float32 \[2, 10\] with strides \[1, 2\]"),
        (torch.zeros(2, 0), "a vocabulary has 1 to 2147483647 tokens, not 0"),
    ],
)
def test_logits_of_another_form_are_refused(selector: NativeSelector, logits: torch.Tensor, said: str) -> None:
    """Nothing but what the library can read gets into it, whichever way it is asked."""
    for ask in (
        lambda: selector.likeliest(logits),
        lambda: selector.tokens(logits, [(0, _row())]),
        lambda: selector.logprobs(logits, [(0, 0, None)]),
    ):
        with pytest.raises(ValueError, match=said):
            ask()


@pytest.mark.parametrize("index", [-1, 2, 2**40])
def test_a_row_outside_of_the_logits_is_refused(selector: NativeSelector, index: int) -> None:
    """The message has the value and the bounds."""
    with pytest.raises(ValueError, match=rf"a row is {index}, outside of 0\.\.1"):
        selector.tokens(GOOD, [(0, _row()), (index, _row())])
    with pytest.raises(ValueError, match=rf"a row is {index}, outside of 0\.\.1"):
        selector.logprobs(GOOD, [(index, 0, None)])


@pytest.mark.parametrize("token_id", [-1, 10, 2**40])
def test_a_token_outside_of_the_vocabulary_is_refused(selector: NativeSelector, token_id: int) -> None:
    """Chosen ones and counted ones."""
    with pytest.raises(ValueError, match=rf"a token id is {token_id}, outside of 0\.\.9"):
        selector.logprobs(GOOD, [(0, token_id, 3)])
    with pytest.raises(ValueError, match=rf"a counted token is {token_id}, outside of 0\.\.9"):
        selector.tokens(GOOD, [(0, _row(counted=[3, token_id], presence_penalty=1.0))])


def test_a_list_of_a_negative_length_is_refused(selector: NativeSelector) -> None:
    """And one that is longer than the vocabulary is the vocabulary."""
    with pytest.raises(ValueError, match=r"a length of a list is -1, outside"):
        selector.logprobs(GOOD, [(0, 1, -1)])
    ((_, top),) = selector.logprobs(GOOD, [(0, 1, 99)])
    assert top is not None
    assert [token_id for token_id, _ in top] == list(range(10))


def test_nothing_asked_is_nothing_found(selector: NativeSelector) -> None:
    """Steps in which no row draws or reports."""
    assert selector.tokens(GOOD, []) == []
    assert selector.logprobs(GOOD, []) == []


@pytest.mark.skipif(why_not("avx2") is not None, reason="this machine cannot run two variants")
def test_rows_that_are_no_numbers_break_nothing(selectors: list[NativeSelector]) -> None:
    """Nobody draws from them, but where somebody did, ids would still be of the vocabulary."""
    logits = torch.full((1, 77), float("nan"))
    for selector in selectors:
        ((logprob, top),) = selector.logprobs(logits, [(0, 5, 3)])
        assert logprob != logprob
        assert top is not None
        assert all(0 <= token_id < 77 for token_id, _ in top)
