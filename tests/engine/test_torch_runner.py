"""The packed runner gives what transformers' own dense forward and generate give, for each model family."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
import torch

from engine.plan import Plan, Span
from engine.torch_runner import TorchRunner, build, page_bytes
from tests.engine import families

PAGE = 8
TOKENS = 6
PROMPTS = [[5 + 3 * index % 50 for index in range(29)], [60 - 2 * index % 55 for index in range(18)]]
EXTENT = 6
"""Pages that each sequence owns here."""


@cache
def _clear(family: str) -> tuple[Any, list[list[int]]]:
    return families.build_clear(family, PROMPTS, TOKENS)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "replaced"])
def fuse(request: pytest.FixtureRequest) -> bool:
    """Whether modules are replaced."""
    return bool(request.param)


@pytest.fixture(scope="module", params=list(families.FAMILIES))
def case(request: pytest.FixtureRequest, fuse: bool) -> tuple[TorchRunner, Any, list[list[int]]]:
    """A runner, the untouched model beside it, and what generate answers to PROMPTS."""
    model, answers = _clear(request.param)
    return _runner(copy.deepcopy(model), fuse=fuse), model, answers


def _runner(model: Any, **options: Any) -> TorchRunner:
    return build(families.loaded(model), **{"page_size": PAGE, "max_tokens": 8 * EXTENT * PAGE, **options})


def _span(place: int, start: int, token_ids: list[int], wanted: bool = True) -> Span:
    return Span(range(place * EXTENT, (place + 1) * EXTENT), start, token_ids, wanted)


def _decode(runner: TorchRunner, place: int, prompt: list[int], first: torch.Tensor) -> list[int]:
    """The greedy answer of a sequence whose prompt has run and ended in the logits ``first``."""
    answer = [int(first.argmax())]
    while len(answer) < TOKENS:
        start = len(prompt) + len(answer) - 1
        logits = runner.run(Plan([_span(place, start, answer[-1:])], 1))
        answer.append(int(logits[0].argmax()))
    return answer


def test_a_prompt_at_once_then_token_by_token_equals_generate(case: Any) -> None:
    """Prefill in one chunk and lonely decode rows."""
    runner, _, answers = case
    logits = runner.run(Plan([_span(0, 0, PROMPTS[0])], 0))
    assert _decode(runner, 0, PROMPTS[0], logits[0]) == answers[0]


def test_logits_of_a_prompt_equal_the_dense_ones(case: Any) -> None:
    """Not only the same winner: the same numbers within float32 rounding."""
    runner, model, _ = case
    (packed,) = runner.run(Plan([_span(0, 0, PROMPTS[0])], 0))
    dense = model(input_ids=torch.tensor([PROMPTS[0]]), use_cache=False).logits[0, -1]
    assert packed.dtype == torch.float32
    torch.testing.assert_close(packed, dense, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("size", [1, 5, 11])
def test_chunk_sizes_do_not_matter(case: Any, size: int) -> None:
    """A prompt in pieces, also of one token and across pages, answers as at once."""
    runner, _, answers = case
    prompt = PROMPTS[0]
    for start in range(0, len(prompt), size):
        piece = prompt[start : start + size]
        logits = runner.run(Plan([_span(1, start, piece, start + len(piece) == len(prompt))], 0))
    assert _decode(runner, 1, prompt, logits[0]) == answers[0]


def test_company_in_a_step_does_not_matter(case: Any) -> None:
    """Two sequences decode while a third one's chunks run in the same steps, wanted or not."""
    runner, _, answers = case
    first = runner.run(Plan([_span(4, 0, PROMPTS[1]), _span(2, 0, PROMPTS[0])], 0))
    given = [[int(first[0].argmax())], [int(first[1].argmax())]]
    third = PROMPTS[0]
    for step in range(TOKENS - 1):
        rows = [
            _span(4, len(PROMPTS[1]) + step, given[0][-1:]),
            _span(2, len(PROMPTS[0]) + step, given[1][-1:]),
        ]
        piece = third[step * 6 : step * 6 + 6]
        logits = runner.run(Plan([*rows, _span(5, step * 6, piece, step == TOKENS - 2)], 2))
        for answer, row in zip(given, logits, strict=False):
            answer.append(int(row.argmax()))
    assert given == [answers[1], answers[0]]
    assert int(logits[2].argmax()) == answers[0][0]


def test_a_copied_prefix_equals_a_computed_one(case: Any) -> None:
    """Whole pages of one sequence are copied and only the rest of the prompt runs."""
    runner, _, answers = case
    prompt, whole = PROMPTS[0], len(PROMPTS[0]) // PAGE
    runner.run(Plan([_span(0, 0, prompt, False)], 0))
    runner.copy_pages(range(whole), range(3 * EXTENT, 3 * EXTENT + whole))
    logits = runner.run(Plan([_span(3, whole * PAGE, prompt[whole * PAGE :])], 0))
    assert _decode(runner, 3, prompt, logits[0]) == answers[0]


def test_a_copied_part_of_a_page_equals_a_computed_one(case: Any) -> None:
    """Five tokens of a page come from a sequence that went on differently; the rest of the prompt runs behind them."""
    runner, _, answers = case
    prompt, shared = PROMPTS[0], 5
    runner.run(Plan([_span(0, 0, [*prompt[:shared], 9, 9, 9], False)], 0))
    runner.copy_beginning(_span(0, 0, [0]).pages[0], _span(3, 0, [0]).pages[0], shared)
    logits = runner.run(Plan([_span(3, shared, prompt[shared:])], 0))
    assert _decode(runner, 3, prompt, logits[0]) == answers[0]


def test_a_recomputed_sequence_goes_on_as_before(case: Any) -> None:
    """Prompt and answer so far run again elsewhere, as after a preemption."""
    runner, _, answers = case
    so_far = PROMPTS[0] + answers[0][:3]
    logits = runner.run(Plan([_span(6, 0, so_far)], 0))
    assert int(logits[0].argmax()) == answers[0][3]
    logits = runner.run(Plan([_span(6, len(so_far), answers[0][3:4])], 1))
    assert int(logits[0].argmax()) == answers[0][4]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", families.FAMILIES)
def test_half_precision_passes_its_own_check_and_runs(family: str, dtype: torch.dtype) -> None:
    """The load-time comparison passes, and a mixed step of many rows gives numbers."""
    runner = _runner(families.build(family).to(dtype))
    chunks = [_span(place, 0, [3 + place] * (3 + place)) for place in range(6)]
    runner.run(Plan(chunks, 0))
    rows = [_span(place, 3 + place, [7]) for place in range(6)]
    logits = runner.run(Plan([*rows, _span(6, 0, [9] * 5)], 6))
    assert logits.shape == (7, families.VOCAB)
    assert logits.isfinite().all()


def test_rows_that_attend_over_copied_pages_err_no_more_than_transformers() -> None:
    """In bfloat16 several rows share products over copies; what they miss of the float32 model is rounding, as there.

    Not compared with rows alone, nor by the largest number: how far two roundings lie apart depends on the processor,
    and now and then a row turns on one of them. So the row in the middle is judged, of 60.
    """
    model = families.build("mistral").to(torch.bfloat16)
    dense, exact = copy.deepcopy(model), copy.deepcopy(model).float()
    runner = _runner(model)
    places = (3, 0, 5, 1, 4, 2)
    missed, missed_there = [], []
    for first in range(3, 13):
        prompts = [[first + (place + 5 * index) % 50 for index in range(9 + 4 * place)] for place in range(6)]
        for place, prompt in enumerate(prompts):
            runner.run(Plan([_span(place, 0, prompt)], 0))
        together = runner.run(Plan([_span(place, len(prompts[place]), [7]) for place in places], 6))
        for row, place in enumerate(places):
            ids = torch.tensor([[*prompts[place], 7]])
            wanted = exact(input_ids=ids, use_cache=False).logits[0, -1]
            missed.append((together[row] - wanted).square().mean())
            missed_there.append((dense(input_ids=ids, use_cache=False).logits[0, -1] - wanted).square().mean())
    assert torch.stack(missed).median() < 1.5 * torch.stack(missed_there).median()


def test_a_step_may_want_nothing() -> None:
    """A chunk in the middle of a prompt has no logits."""
    runner = _runner(families.build("llama"))
    assert runner.run(Plan([_span(0, 0, [5, 6, 7], False)], 0)).shape == (0, families.VOCAB)


def test_numbers_that_are_not_finite_stay_with_their_sequence() -> None:
    """A row that shares an attention call with a broken sequence gets what it gets alone."""
    runner = _runner(families.build("llama"))
    runner.run(Plan([_span(0, 0, [5] * 9), _span(1, 0, [6] * 12)], 0))
    rows = [_span(0, 9, [7]), _span(1, 12, [8])]
    wanted = runner.run(Plan(rows, 2))
    broken = slice(EXTENT * PAGE, EXTENT * PAGE + 12)
    runner.pool.values[0][:, broken] = torch.inf
    runner.pool.values[0][:, 10:12] = torch.nan  # left behind in the first one's extent by an earlier owner
    found = runner.run(Plan(rows, 2))
    torch.testing.assert_close(found[0], wanted[0], atol=1e-4, rtol=1e-4)
    assert not found[1].isfinite().all()


def test_rows_that_read_whole_pages_for_themselves_read_nothing_of_earlier_owners() -> None:
    """In bfloat16 four single rows copy their pages, also where their lengths let no two of them share a call."""
    runner = _runner(families.build("llama").to(torch.bfloat16), max_tokens=1024)
    begins, lengths = (0, 2, 12, 36), (1, 70, 170, 310)  # pages, tokens
    rows = []
    for begin, length in zip(begins, lengths, strict=True):
        pages = range(begin, begin + length // PAGE + 1)
        runner.run(Plan([Span(pages, 0, [5] * length, 0)], 0))
        rows.append(Span(pages, length, [7], 1))
    wanted = runner.run(Plan(rows, 4))
    for pool in (runner.pool.keys[0], runner.pool.values[0]):
        pool[:, 12 * PAGE + 171 : 12 * PAGE + 176] = torch.nan
    found = runner.run(Plan(rows, 4))
    assert (found - wanted).abs().max() < 0.02 * wanted.abs().max()


def test_a_row_without_logits_reads_nothing_of_earlier_owners() -> None:
    """One token in the middle of a prompt, beside a longer row: what it leaves in its page is a number."""
    runner = _runner(families.build("llama"))
    runner.run(Plan([_span(0, 0, [5] * 9), _span(1, 0, [6] * 12)], 0))
    runner.pool.values[0][:, 10:13] = torch.nan
    runner.run(Plan([_span(1, 12, [8]), _span(0, 9, [7], False)], 1))
    assert runner.pool.values[1][:, 9].isfinite().all()


def test_pages_are_copied_wherever_they_lie() -> None:
    """Runs of pages and single ones, in one call."""
    runner = _runner(families.build("llama"))
    keys = runner.pool.keys[1]
    keys.copy_(torch.randn_like(keys))
    before = keys.clone().unflatten(1, (-1, PAGE))
    runner.copy_pages([0, 1, 2, 9], [20, 21, 23, 24])
    after = keys.unflatten(1, (-1, PAGE))
    for source, target in zip([0, 1, 2, 9], [20, 21, 23, 24], strict=True):
        assert torch.equal(after[:, target], before[:, source])
    assert torch.equal(after[:, 22], before[:, 22])


def test_a_page_counts_each_layer_with_its_own_widths() -> None:
    """DeepSeek's keys are 16 wide and its values 12, on 4 heads and 2 layers."""
    runner = _runner(families.build("deepseek_v3"), memory_bytes=100_000, max_tokens=None)
    assert runner.bytes_per_page == 2 * 4 * (16 + 12) * 4 * PAGE
    assert runner.num_pages == 100_000 // (2 * 4 * (16 + 12) * 4 * PAGE)


def test_page_bytes_follow_the_dtype() -> None:
    """Half precision takes half."""
    runner = _runner(families.build("llama"))
    assert runner.bytes_per_page == 2 * page_bytes(runner.shapes, PAGE, torch.bfloat16)
