"""Reuse of a part of a page, by example: who finds it, when, who waits for it, and what becomes of the page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packed_play import Arrival, answer_of, finish, greedy, ids, make, play, request, steps

from engine.batching import BatchLimits

KINDS = pytest.mark.parametrize("contiguous", [False, True])
PAGE = 64
COMMON = tuple(index * 7 % 16 for index in range(40))


def longer(*own):
    """The common 40 tokens and some of one's own."""
    return (*COMMON, *own)


def machine(**options):
    """Pages of 64 tokens, of which 8 are worth a copy and 32 are worth waiting for."""
    return make(page_size=PAGE, num_pages=options.pop("num_pages", 12), **options)


@KINDS
def test_a_part_of_a_page_is_copied(contiguous):
    """Of 43 tokens the second prompt shares 40 with the first, which is over: 3 are run, and the answer is its own."""
    executor, fake = machine(contiguous=contiguous)
    finish(executor, greedy("first", longer(1, 2), 1))
    before, second = fake.tokens_run, greedy("second", longer(3, 3, 3), 1)
    played = play(executor, [Arrival(second)])
    assert (played.cached_tokens["second"], fake.tokens_run - before, fake.parts_copied) == (40, 3, 1)
    assert played.answers["second"] == answer_of(second)
    stats = executor.stats.memory
    assert (stats.prefix_queries, stats.prefix_hits, stats.prefix_hit_tokens) == (2, 1, 40)


@KINDS
def test_a_part_follows_whole_pages(contiguous):
    """Two full pages are shared and 8 tokens of the third are copied, of a page that is full itself."""
    executor, _ = machine(contiguous=contiguous)
    beginning = COMMON * 3  # 120 tokens
    long, short = greedy("long", (*beginning, *range(16), *range(16), *COMMON), 1), greedy("short", beginning[:72], 1)
    finish(executor, long)
    played = play(executor, [Arrival(replace(short, prompt_ids=(*beginning, *range(16), 9, 9)))])
    assert played.cached_tokens["short"] == 136


@KINDS
def test_fewer_tokens_than_a_copy_is_worth_are_run(contiguous):
    """Seven common tokens are computed again, eight are not."""
    executor, _ = machine(contiguous=contiguous)
    finish(executor, greedy("first", longer(1), 1))
    seven, eight = greedy("seven", (*COMMON[:7], 0, 0), 1), greedy("eight", (*COMMON[:8], 1, 1), 1)
    assert play(executor, [Arrival(seven)]).cached_tokens == {"seven": 0}
    assert play(executor, [Arrival(eight)]).cached_tokens == {"eight": 8}


@KINDS
def test_the_last_token_is_always_run(contiguous):
    """Of an equal prompt of 40 tokens 39 come from the cache."""
    executor, _ = machine(contiguous=contiguous)
    twice = [greedy("first", COMMON, 4), greedy("second", COMMON, 4)]
    finish(executor, twice[0])
    played = play(executor, [Arrival(twice[1])])
    assert played.cached_tokens["second"] == 39
    assert played.answers["second"] == answer_of(twice[0])


@KINDS
def test_what_a_running_sequence_has_computed_is_used_while_it_goes_on(contiguous):
    """Both write behind the common tokens, each in its own page."""
    executor, _ = machine(contiguous=contiguous)
    first, second = greedy("first", longer(1), 12), greedy("second", longer(2), 12)
    played = play(executor, [Arrival(first), Arrival(second, step=3)])
    assert played.cached_tokens["second"] == 40
    assert played.answers == {"first": answer_of(first), "second": answer_of(second)}


@KINDS
def test_the_next_turn_of_a_short_chat_begins_with_the_last_answer(contiguous):
    """40 prompt tokens and 5 of the 6 of the answer: the page that the first turn left is not kept beside the new."""
    executor, _ = machine(contiguous=contiguous)
    turn = greedy("turn", COMMON, 6)
    tokens = ids(finish(executor, turn)["turn"][0])
    assert executor.stats.memory.pages_cached == 1
    played = play(executor, [Arrival(greedy("next", longer(*tokens, 9, 9, 9), 2))])
    assert played.cached_tokens["next"] == 45
    assert executor.stats.memory.pages_cached == 1


@KINDS
def test_equal_prompts_leave_one_page(contiguous):
    """What another page holds already is not kept twice."""
    executor, _ = machine(contiguous=contiguous)
    finish(executor, *(greedy(f"{number}", COMMON, 1) for number in range(5)))
    assert executor.stats.memory.pages_cached == 1


@KINDS
def test_who_waits_for_a_long_part_computes_only_its_own(contiguous):
    """Four prompts of 43 tokens that share 40 and come together: 43 are run, then 3 for each of the others."""
    executor, fake = machine(contiguous=contiguous)
    asked = [greedy(f"{number}", longer(number, 1, 2), 1) for number in range(4)]
    played = play(executor, [Arrival(one) for one in asked])
    assert played.first_part == {"0": 0, "1": 1, "2": 1, "3": 1}
    assert fake.tokens_run == 43 + 3 * 3


@KINDS
def test_nobody_waits_for_a_short_part(contiguous):
    """31 common tokens are run by all four at once."""
    executor, _ = machine(contiguous=contiguous)
    asked = [greedy(f"{number}", (*COMMON[:31], number, 1, 2), 1) for number in range(4)]
    assert set(play(executor, [Arrival(one) for one in asked]).first_part.values()) == {0}


@KINDS
def test_who_waits_starts_as_soon_as_too_little_is_missing_to_wait_for(contiguous):
    """In chunks of 10: of the 40 common tokens 30 are missing after a step, which the double runs itself."""
    executor, _ = machine(contiguous=contiguous, limits=BatchLimits(prefill_chunk_size=10))
    arrivals = [Arrival(greedy("first", longer(*range(15)), 1)), Arrival(greedy("double", longer(7), 1))]
    played = play(executor, arrivals)
    assert (played.first_part["double"], played.cached_tokens["double"]) == (1, 10)


@KINDS
def test_who_waits_for_a_part_goes_on_when_the_other_one_is_cancelled(contiguous):
    """Nobody computes it any more."""
    executor, _ = machine(contiguous=contiguous, limits=BatchLimits(prefill_chunk_size=4))
    double = greedy("double", longer(7), 1)
    played = play(executor, [Arrival(greedy("first", longer(1), 1), cancel_step=1), Arrival(double)])
    assert played.first_part["double"] == 1
    assert played.answers["double"] == answer_of(double)


@KINDS
def test_adapters_share_no_part_and_wait_for_none(contiguous):
    """The same 40 tokens under two loads of an adapter and under none: only the second of a kind finds them."""
    executor, _ = machine(contiguous=contiguous)
    executor.load_adapter(4, "a", 1)
    executor.load_adapter(5, "b", 2)
    asked = [replace(greedy(f"{place}", longer(place), 1), adapter_number=n) for place, n in enumerate([0, 4, 5, 4])]
    played = play(executor, [Arrival(one) for one in asked])
    assert played.first_part == {"0": 0, "1": 0, "2": 0, "3": 1}
    assert played.cached_tokens == {"0": 0, "1": 0, "2": 0, "3": 40}


@KINDS
def test_an_evicted_part_is_not_found(contiguous):
    """Three other prompts have gone through a pool of three pages."""
    executor, _ = machine(contiguous=contiguous, num_pages=3, growth_tokens=0)
    finish(executor, greedy("first", COMMON, 1))
    for number in range(3):
        finish(executor, greedy(f"{number}", (number, *COMMON), 1))
    assert play(executor, [Arrival(greedy("again", COMMON, 1))]).cached_tokens == {"again": 0}


@KINDS
def test_a_part_is_taken_even_from_a_page_that_is_given_away_for_it(contiguous):
    """In a pool of one page the cached page becomes the new sequence's own, and its beginning stays."""
    executor, _ = machine(contiguous=contiguous, num_pages=1, growth_tokens=0)
    finish(executor, greedy("first", longer(1), 1))
    second = greedy("second", longer(2), 5)
    played = play(executor, [Arrival(second)])
    assert played.cached_tokens["second"] == 40
    assert played.answers["second"] == answer_of(second)


def test_a_part_is_taken_even_from_the_page_that_the_beginning_is_copied_to():
    """Extents 3 and 4 are all there is: the page in 3 has the part, and the first page, owned by another, goes there.

    The part has to be read before the page is written.
    """
    beginning = (1, 2, 3, 4)
    executor, fake = make(page_size=4, num_pages=5, contiguous=True, shortest_run=1, growth_tokens=0)
    owner, blocker = greedy("owner", (*beginning, 5), 4), greedy("blocker", (6,), 4)
    leaves, third = greedy("leaves", (*beginning, 9, 9), 1), greedy("third", (*beginning, 9, 9, 8), 2)
    arrivals = [Arrival(owner), Arrival(leaves, 1), Arrival(blocker, 2), Arrival(third, 3)]
    played = play(executor, arrivals)
    assert (played.cached_tokens["third"], fake.parts_copied) == (6, 1)
    assert played.answers["third"] == answer_of(third)


@KINDS
def test_beams_leave_their_prompt_alone(contiguous):
    """What beams wrote behind it is not looked up: of the likeliest answer's 12 tokens none is found."""
    executor, _ = machine(contiguous=contiguous)
    beams = request("beams", COMMON, max_tokens=12, n=3, use_beam_search=True)
    best = finish(executor, beams)["beams"][0]
    played = play(executor, [Arrival(greedy("next", longer(*ids(best.tokens), 1), 1))])
    assert played.cached_tokens["next"] == 40


@KINDS
def test_nothing_is_left_of_a_part_that_may_be_wrong(contiguous):
    """A sequence that copied a part and then gets no numbers: its page and the one it copied from are forgotten."""
    executor, fake = machine(contiguous=contiguous)
    finish(executor, greedy("first", longer(1), 1))
    fake.poisoned = frozenset({15})
    played = play(executor, [Arrival(greedy("sick", longer(*range(9), 15), 3))])
    assert "not finite" in played.failures[0].message
    assert executor.stats.memory.pages_cached == 0


@KINDS
def test_a_failed_copy_of_a_part_leaves_no_trace(contiguous):
    """The newcomer is refused, the running one goes on, no page is lost."""
    executor, fake = machine(contiguous=contiguous)
    executor.add(greedy("running", longer(1), 8))
    steps(executor, 1)
    fake.fail_copies = True
    with pytest.raises(RuntimeError, match="no copy"):
        executor.add(greedy("newcomer", longer(2), 3))
    executor.check()
    assert (executor.live_sequences, executor.stats.memory.pages_used) == (1, 1)


def test_the_check_finds_tokens_that_were_never_computed():
    """The checker itself: a page that is known for more than its owner has run."""
    executor, _ = machine()
    executor.add(greedy("one", COMMON, 9))
    steps(executor, 1)
    (group,) = executor._admission.running
    sequence = group.sequences[0]
    executor._memory.index.insert(sequence.pages[0], executor._memory.index.root(b""), [*COMMON, 1])
    with pytest.raises(ValueError, match="tokens that its owner has not computed"):
        executor.check()
