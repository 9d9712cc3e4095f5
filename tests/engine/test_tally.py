"""Buckets: where a value falls, what several tokens of one round count as, and what a front sees of its requests."""

from __future__ import annotations

import pytest

from engine.mock_front import MockFront
from engine.tally import Observed, Tally
from engine.types import Request, SamplingParams, StepOutput, StepToken


def test_a_bound_belongs_to_its_bucket() -> None:
    """As Prometheus' `le` says: at most."""
    tally = Tally((1, 2.5))
    for value in (0.5, 1, 1.01, 2.5, 9):
        tally.add(value)

    assert (tally.counts, tally.cumulative, tally.total) == ([2, 2, 1], [2, 4, 5], pytest.approx(14.01))


def test_tallies_merge_by_adding() -> None:
    """The counts and the sums of both."""
    one, other = Tally((1,)), Tally((1,))
    one.add(0.5, 3)
    other.add(7)
    one.merge(other)

    assert (one.counts, one.total) == ([3, 1], 8.5)


@pytest.mark.parametrize(
    ("choices", "counts", "total_s"),
    [
        ([0], 1, 0.6),  # a token of one choice
        ([], 1, 0.6),  # a round of a beam search
        ([0, 1, 2], 3, 1.8),  # three choices: each has waited the whole time
        ([0, 0, 0], 3, 0.6),  # three tokens of one choice share it
    ],
)
def test_a_round_counts_once_for_each_token(choices: list[int], counts: int, total_s: float) -> None:
    """Gaps are those between two tokens of one choice."""
    observed = Observed()
    observed.round(0.6, StepOutput("a", 1, 0, 0, [StepToken(choice, 5) for choice in choices]))

    assert (observed.gaps_s.cumulative[-1], observed.gaps_s.total) == (counts, pytest.approx(total_s))


async def test_a_front_counts_first_tokens_gaps_and_lengths() -> None:
    """Two choices of four tokens after a prompt of three: six gaps, one prompt, one answer of eight tokens."""
    front = MockFront()
    await front.start()
    sampling = SamplingParams(max_tokens=4, temperature=1.0, n=2, ignore_eos=True)
    generation = front.submit(Request("a", (1, 2, 3), sampling))
    async for _ in generation:
        pass
    await front.stop()

    seen = front.observed
    assert (seen.gaps_s.cumulative[-1], seen.prompt_tokens.total, seen.generated_tokens.total) == (6, 3, 8)
    assert (generation.generated, generation.reasons) == (8, ["length", "length"])
    assert generation.first_s is not None


async def test_an_answer_that_is_given_up_has_its_length_counted() -> None:
    """However a request ends, it is in the histogram once; one that never began is not."""
    front = MockFront(step_delay_s=0.001)
    await front.start()
    begun = front.submit(Request("a", (1,), SamplingParams(max_tokens=10**6, ignore_eos=True)))
    await anext(begun)
    never = front.submit(Request("b", (1,), SamplingParams(max_tokens=5)))
    never.cancel()
    begun.cancel()
    await front.stop()

    seen = front.observed
    assert (seen.prompt_tokens.cumulative[-1], seen.generated_tokens.cumulative[-1]) == (1, 1)
    assert seen.generated_tokens.total == begun.generated > 0


def test_what_several_fronts_have_seen_adds_up() -> None:
    """Each histogram is the sum."""
    parts = [Observed(), Observed()]
    for part in parts:
        part.gaps_s.add(0.02)
        part.prompt_tokens.add(30)
        part.generated_tokens.add(7)
    whole = Observed.joined(parts)

    assert (whole.gaps_s.total, whole.prompt_tokens.total, whole.generated_tokens.total) == (0.04, 60, 14)
