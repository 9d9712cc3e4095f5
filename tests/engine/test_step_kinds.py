"""What a step holds: prompts apart from answers, and how many prompts go on in later steps."""

from __future__ import annotations

import pytest
from packed_play import Arrival, answer_of, make, play, request

from engine.batching import BatchLimits

LONG = tuple(range(8)) * 5
"""40 tokens."""


def greedy(request_id: str, prompt: tuple[int, ...], max_tokens: int) -> object:
    """A request that does not end by itself."""
    return request(request_id, prompt, temperature=0, max_tokens=max_tokens, ignore_eos=True)


@pytest.mark.parametrize("contiguous", [True, False])
def test_prompts_and_answers_take_turns_where_they_run_apart(contiguous: bool) -> None:
    """Beside an answer a prompt of 40 tokens runs in steps of 8, each followed by one token of the answer."""
    executor, fake = make(contiguous=contiguous, limits=BatchLimits(mixed_prefill_tokens=8, apart=True))
    executor.add(greedy("answer", (1, 2), 30))
    executor.step()
    executor.add(greedy("prompt", LONG, 2))
    for _ in range(9):
        executor.step()
    assert [counts for _, counts, _ in fake.plans] == [[2], [1], [8], [1], [8], [1], [8], [1], [8], [1]]


def test_together_both_are_in_every_step() -> None:
    """The same without ``apart``."""
    executor, fake = make(limits=BatchLimits(mixed_prefill_tokens=8))
    executor.add(greedy("answer", (1, 2), 30))
    executor.step()
    executor.add(greedy("prompt", LONG, 2))
    for _ in range(3):
        executor.step()
    assert [counts for _, counts, _ in fake.plans] == [[2], [1, 8], [1, 8], [1, 8]]


def test_answers_of_requests_that_run_apart_are_those_that_they_get_alone() -> None:
    """Turns change when a token comes, not which."""
    answers = []
    for apart in (False, True):
        executor, _ = make(limits=BatchLimits(mixed_prefill_tokens=8, apart=apart))
        executor.add(greedy("a", (1, 2), 12))
        executor.add(greedy("b", LONG, 5))
        tokens: dict[str, list[int]] = {"a": [], "b": []}
        for _ in range(40):
            for round_ in executor.step():
                tokens[round_.request_id] += [token.token_id for token in round_.tokens]
        answers.append(tokens)
    assert answers[0] == answers[1]
    assert [len(answers[0][name]) for name in "ab"] == [12, 5]


@pytest.mark.parametrize(
    ("limits", "first"),
    [
        ({}, [8, 8]),
        ({"max_partial_prefills": 1}, [8, 3]),
        ({"max_long_partial_prefills": 1, "long_prefill_tokens": 39}, [8, 3]),
        ({"max_long_partial_prefills": 1, "long_prefill_tokens": 40}, [8, 8]),
        ({"max_partial_prefills": 2}, [8, 8]),
    ],
)
def test_long_prompts_let_a_short_one_pass(limits: dict[str, int], first: list[int]) -> None:
    """Two prompts of 40 tokens in chunks of 8 fill a step of 16, unless only one of them may be on its way."""
    executor, fake = make(limits=BatchLimits(max_prefill_tokens=16, prefill_chunk_size=8, **limits))
    executor.add(greedy("one", LONG, 2))
    executor.add(greedy("two", tuple(reversed(LONG)), 2))
    executor.add(greedy("short", (1, 2, 3), 2))
    executor.step()
    assert fake.plans[0][1] == first


def test_short_prompts_do_not_wait_for_the_end_of_long_ones() -> None:
    """Behind two prompts of 40 tokens, a step of 16 has 8 for the long one that came first and 8 for the short ones;
    when these are through, the long one has it all.
    """
    executor, fake = make(limits=BatchLimits(max_prefill_tokens=16, mixed_prefill_tokens=16, long_prefill_tokens=20))
    for number, prompt in enumerate((LONG, LONG[::-1], (1, 2, 3), (4, 5, 6, 7), (5, 6, 7))):
        executor.add(greedy(str(number), prompt, 1))
    found = [executor.step() for _ in range(3)]

    assert [plan[1] for plan in fake.plans] == [[8, 3, 4, 1], [14, 2], [16]]
    assert [sorted(r.request_id for r in rounds if r.done) for rounds in found] == [["2", "3"], ["4"], []]


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("prefix_cache", [True, False])
def test_the_prefix_cache_can_be_off(contiguous: bool, prefix_cache: bool) -> None:
    """The same prompt again has its whole pages from the cache, or nothing."""
    executor, _ = make(contiguous=contiguous, page_size=4, prefix_cache=prefix_cache)
    cached = []
    for name in ("first", "second"):
        executor.add(greedy(name, (1, 2, 3, 4, 5, 6), 3))
        rounds = [round_ for _ in range(4) for round_ in executor.step()]
        cached.append(rounds[0].cached_tokens)
        executor.check()
    assert cached == [0, 4 if prefix_cache else 0]


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize(("pages", "wide"), [(8, {"n": 2, "use_beam_search": True}), (6, {"n": 6})])
def test_nothing_is_cached_of_what_had_to_wait_where_the_cache_is_off(
    contiguous: bool, pages: int, wide: dict[str, int]
) -> None:
    """Choices that find no memory when they part, and beams that gave way, are run again from their first token."""
    executor, _ = make(page_size=2, num_pages=pages, contiguous=contiguous, growth_tokens=0, prefix_cache=False)
    asked = [
        greedy("old", (5, 6, 7), 10),
        request("wide", (1, 2, 3), max_tokens=5, ignore_eos=True, **wide),
    ]
    played = play(executor, [Arrival(each) for each in asked])
    memory = executor.stats.memory

    assert played.done == {"old", "wide"}
    assert memory is not None
    assert memory.prefix_queries > 2
    assert (memory.prefix_hits, memory.pages_cached) == (0, 0)


@pytest.mark.parametrize(("contiguous", "pages"), [(True, 9), (False, 7)])
def test_beams_that_gave_way_come_back_before_younger_requests_start(contiguous: bool, pages: int) -> None:
    """Three beams need all pages, and a step has one part of a prompt. The request behind them takes none while their
    prompt is run again, else they would find too few each time, and it would never have its turn.
    """
    executor, _ = make(
        page_size=2,
        num_pages=pages,
        contiguous=contiguous,
        growth_tokens=0,
        limits=BatchLimits(max_prefill_batch_size=1),
    )
    beams = request("beams", (1, 2), n=3, max_tokens=4, use_beam_search=True, ignore_eos=True)
    arrivals = [Arrival(greedy("old", (4,), 6)), Arrival(beams, 1), Arrival(greedy("late", (3,), 2), 3)]
    played = play(executor, arrivals)
    assert played.answers == {asked.request.request_id: answer_of(asked.request) for asked in arrivals}


@pytest.mark.parametrize("wrong", ["max_partial_prefills", "max_long_partial_prefills", "long_prefill_tokens"])
def test_no_limit_of_a_step_is_0(wrong: str) -> None:
    """Such a step would never end."""
    with pytest.raises(ValueError, match="at least 1"):
        BatchLimits(**{wrong: 0})
