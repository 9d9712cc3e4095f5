"""A thought that has had its tokens is closed by the engine, whatever the model would rather say."""

from __future__ import annotations

import pytest
from packed_play import make, request
from tiny_models import build, executor

from engine.sampling.thinking import ThinkingLimit
from engine.types import Request, SamplingParams, ThinkingBudget

OPENING, CLOSING = 90, 91


def budget(tokens: int, begun: bool = True) -> ThinkingBudget:
    """A bound with marks of its own."""
    return ThinkingBudget(tokens, OPENING, CLOSING, begun)


@pytest.mark.parametrize(
    ("taken", "forced"),
    [
        ([5], None),
        ([5, 6], 7),
        ([5, 6, 7], 8),
        ([5, 6, 7, 8], CLOSING),
        ([5, 6, 7, 8, CLOSING], None),
        ([5, CLOSING, 9, 9, 9], None),
    ],
)
def test_the_deployments_words_come_before_the_closing_mark(taken: list[int], forced: int | None) -> None:
    """After the second token: 7, 8 and the mark, one after the other."""
    limit = ThinkingLimit(ThinkingBudget(2, OPENING, CLOSING, begun=True, ending_ids=(7, 8, CLOSING)))
    for token_id in taken:
        limit.take(token_id)
    assert limit.forced == forced


@pytest.mark.parametrize(
    ("taken", "begun", "forced"),
    [
        ([], True, None),
        ([5, 6], True, None),
        ([5, 6, 7], True, CLOSING),
        ([5, 6, 7, CLOSING], True, None),
        ([5, CLOSING, 6, 7, 8], True, None),
        ([OPENING, 5, 6], False, None),
        ([OPENING, 5, 6, 7], False, CLOSING),
        ([5, 6, 7, 8], False, None),
        ([5, OPENING, 6, 7, 8], False, None),
    ],
)
def test_a_thought_of_three_tokens_is_closed_after_the_third(taken: list[int], begun: bool, forced: int | None) -> None:
    """The closing mark is forced once, only inside a thought, and a thought stands only at the start."""
    limit = ThinkingLimit(budget(3, begun))
    for token_id in taken:
        limit.take(token_id)
    assert limit.forced == forced


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"temperature": 1.0, "seed": 7}, {"logprobs": 2, "n": 3}])
def test_every_choice_closes_its_thought_in_time(sampling: dict[str, object]) -> None:
    """On random weights, which never think of it: token 4 of each choice is the mark, and the answer goes on."""
    alone = executor(build("llama", 0), eos=())
    params = SamplingParams(max_tokens=8, ignore_eos=True, **sampling)  # type: ignore[arg-type]  # a table of options
    alone.add(Request("r", (1, 2, 3), params, thinking_budget=budget(4)))
    tokens: dict[int, list[int]] = {choice: [] for choice in range(params.n)}
    while alone.live_sequences:
        for round_ in alone.step():
            for token in round_.tokens:
                tokens[token.choice].append(token.token_id)
    assert [(len(ids), ids[4]) for ids in tokens.values()] == [(8, CLOSING)] * params.n


def test_a_bound_changes_nothing_before_it_is_reached() -> None:
    """The packed executor gives the same first five tokens with a bound of five as without one, and then the mark."""

    def ids(bound: ThinkingBudget | None) -> list[int]:
        packed, _ = make()
        asked = request("r", (1, 2, 3), max_tokens=7, seed=3)
        packed.add(Request("r", asked.prompt_ids, asked.sampling, thinking_budget=bound))
        found = []
        while packed.live_sequences:
            found += [token.token_id for round_ in packed.step() for token in round_.tokens]
        return found

    free, bounded = ids(None), ids(ThinkingBudget(5, 8, 9, begun=True))
    assert 9 not in free[:5]
    assert bounded[:6] == [*free[:5], 9]
    assert len(bounded) == 7
