"""The selector that draws on the device finds what the sampler finds, and says all of it in one copy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.draws import StepDraws
from engine.sampling.noise import choice_key, exponential_noise, log_exponential_noise
from engine.sampling.one_copy import OneCopySelector, keep_by_sorting
from engine.sampling.params import DrawSettings
from engine.sampling.penalties import TokenCounts
from engine.sampling.sampler import Row
from engine.sampling.selector import TorchSelector
from engine.types import SamplingParams

CPU = torch.device("cpu")


SELECTOR = OneCopySelector(keep_by_sorting, most_top_k=16)


class Allowed:
    """Holds a row to some tokens."""

    failure = None

    def __init__(self, ids: list[int]) -> None:
        self.allowed = torch.tensor(ids)


def row(
    position: int = 0, choice: int = 0, prompt: tuple[int, ...] = (1, 2), allowed: Any = None, **fields: Any
) -> Row:
    """What draws with these sampling fields."""
    settings_of = DrawSettings.of(SamplingParams(max_tokens=99, **fields), choice)
    return Row(settings_of, position, TokenCounts.start(settings_of, prompt, CPU), allowed)


def logits_of(rows: int, vocab: int, seed: int) -> torch.Tensor:
    """Logits without equals."""
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * 3


FIELDS = st.fixed_dictionaries(
    {"seed": st.integers(0, 2**64 - 1)},
    optional={
        "temperature": st.sampled_from([0.0, 0.3, 1.0, 2.0]),
        "top_k": st.sampled_from([-1, 1, 3, 16, 17, 100, 1000]),
        "top_p": st.sampled_from([0.05, 0.5, 0.9, 1.0]),
        "repetition_penalty": st.sampled_from([0.5, 1.0, 1.3]),
        "frequency_penalty": st.sampled_from([-1.0, 0.0, 0.7]),
        "presence_penalty": st.sampled_from([0.0, 1.5]),
        "logprobs": st.sampled_from([0, 1, 5]),
    },
)


@settings(deadline=None, max_examples=150)
@given(
    st.integers(2, 700),
    st.integers(0, 10_000),
    st.lists(st.tuples(FIELDS, st.integers(0, 50), st.sampled_from([None, [0, 1], [1]])), min_size=1, max_size=6),
)
def test_it_draws_what_the_sampler_draws(vocab: int, seed: int, asked: list[tuple[dict[str, Any], int, Any]]) -> None:
    """Tokens, logprobs and lists of the likeliest, for any fields in one step."""
    logits = logits_of(len(asked), vocab, seed)
    rows = [
        (index, row(position, index, (0, 1), None if ids is None else Allowed(ids), **fields))
        for index, (fields, position, ids) in enumerate(asked)
    ]
    wanted = StepDraws(logits, TorchSelector()).draw(rows)
    found = StepDraws(logits, SELECTOR, rows).draw(rows)
    for one, other in zip(found, wanted, strict=True):
        assert one.token_id == other.token_id
        assert one.logprob == pytest.approx(other.logprob, abs=1e-5)
        assert [name for name, _ in one.top or ()] == [name for name, _ in other.top or ()]
        assert [value for _, value in one.top or ()] == pytest.approx([value for _, value in other.top or ()], abs=1e-5)


def test_a_thousand_draws_of_one_row_are_the_samplers() -> None:
    """Over a whole vocabulary the noise in float32 chooses as the one in float64 does."""
    logits = logits_of(1, 5000, 7)
    rows = [(0, row(position, seed=11)) for position in range(1000)]
    wanted = [draw.token_id for draw in StepDraws(logits, TorchSelector()).draw(rows)]
    assert [draw.token_id for draw in SELECTOR.look(logits, rows).draws] == wanted
    assert len(set(wanted)) > 100


def test_the_noise_in_float32_is_the_noise() -> None:
    """Its logarithm is within 2^-21 of the float64 one, near 0 and near 1 too."""
    ids = torch.arange(200_000)
    exact = torch.log(exponential_noise(choice_key(5, 1), 9, ids))
    found = log_exponential_noise([(choice_key(5, 1), 9)], ids)[0]
    assert found.dtype == torch.float32
    assert exact.min() < -11
    assert exact.max() > 2
    assert (found.double() - exact).abs().max() < 2.0**-20


def test_a_row_that_is_no_number_is_told_with_the_others() -> None:
    """Health comes in the same copy."""
    logits = logits_of(3, 300, 1)
    logits[1, 4] = float("nan")
    looked = SELECTOR.look(logits, [(0, row(seed=1)), (1, row(seed=1)), (2, row(temperature=0.0))])
    assert looked.finite == [1, 0, 1]
    assert looked.draws[2].token_id == looked.likeliest[2] == int(logits[2].argmax())


def test_a_token_that_must_come_comes() -> None:
    """What ends a thought is taken whatever the logits are."""
    forced = row(seed=3)
    forced.thinking = type("Forced", (), {"forced": 42})()
    assert SELECTOR.look(logits_of(1, 100, 1), [(0, forced)]).draws[0].token_id == 42


def test_one_tensor_goes_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is asked for, there is one copy, and nothing else looks at the device's numbers."""
    copies = []
    original = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: copies.append(tensor.shape) or original(tensor))
    rows = [(0, row(seed=1, logprobs=5)), (1, row(seed=2, top_p=0.5)), (1, row(temperature=0.0, logprobs=2))]
    SELECTOR.look(logits_of(2, 300, 3), rows)
    assert copies == [(2 + 2 + 3 + 2 + 2 * 2 * 5,)]
