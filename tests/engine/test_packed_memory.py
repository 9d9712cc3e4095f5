"""Which pages sequences of the packed executor have: shared ones, extents that grow, beams', cached ones that move."""

from __future__ import annotations

import pytest
from packed_play import Arrival, answer_of, finish, greedy, make, play, request, steps

from engine.sampling.params import FinishRule
from engine.sequences import Group, RequestState

KINDS = pytest.mark.parametrize("contiguous", [False, True])
TWELVE = tuple(range(1, 13))


def test_an_extent_that_cannot_grow_is_given_up_once():
    """Between a free page and an older extent there is no room for a fourth page, without its own three.

    It is computed anew, when there are all five pages that it can need: not with four of them, only to be too short
    again before the older one has ended.
    """
    executor, _ = make(contiguous=True, growth_tokens=0, num_pages=6)
    pool = executor._memory.pool
    first, three = pool.take_run(1), pool.take_run(3)
    executor.add(greedy("old", (1,), 8))
    pool.release(three)
    grows = greedy("grows", TWELVE[:10], 11)
    executor.add(grows)
    pool.release(first)
    tokens = []
    while executor.live_sequences:
        tokens += [t for round_ in executor.step() if round_.request_id == "grows" for t in round_.tokens]
        executor.check()
    assert executor.stats.preemptions == 1
    assert {0: tokens} == answer_of(grows)


def test_choices_share_the_full_pages_of_the_prompt():
    """Ten tokens in pages of 4 and three choices: two shared pages, and a third one each."""
    executor, fake = make()
    executor.add(request("three", TWELVE[:10], max_tokens=2, n=3, seed=1))
    steps(executor, 1)
    assert executor.stats.memory.pages_used == 2 + 3
    assert fake.copied == 2


def test_choices_have_extents_of_their_own_in_contiguous_memory():
    """Ten tokens and room for growth of 4 make 4 pages for each of three choices, two of them copied."""
    executor, fake = make(contiguous=True)
    executor.add(request("three", TWELVE[:10], max_tokens=9, n=3, seed=1))
    steps(executor, 1)
    assert executor.stats.memory.pages_used == 3 * 4
    assert fake.copied == 2 * 3


def test_a_beam_that_dies_gives_its_extent_to_a_new_one():
    """Three beams never have more than three extents, and the full pages of the prompt are copied once each."""
    executor, fake = make(contiguous=True, growth_tokens=100)
    asked = request("beams", TWELVE[:8], max_tokens=12, n=3, use_beam_search=True)
    executor.add(asked)
    steps(executor, 1)
    assert fake.copied == 2 * 2
    while executor.live_sequences:
        assert executor.stats.memory.pages_used == 3 * 5
        steps(executor, 1)
    assert fake.copied > 4


def test_an_extent_grows_by_doubling_and_takes_its_cache_along():
    """A full extent of 2 pages with an owned page behind it moves once, to 4 pages; its keys are found there."""
    executor, fake = make(contiguous=True, growth_tokens=2, num_pages=12)
    executor.add(greedy("grows", TWELVE[:6], 11))
    executor.add(greedy("stands", (9, 9, 9), 9))
    steps(executor, 4)
    assert fake.copied == 2
    (group,) = [g for g in executor._admission.running if g.state.request.request_id == "grows"]
    assert len(group.sequences[0].pages) == 4
    assert executor._memory.lookup(group.sequences[0]) == list(group.sequences[0].pages[:2])


def test_a_cached_page_moves_into_the_extent_it_is_copied_to():
    """A cached beginning in the way of its own extent is copied elsewhere, and is not kept twice."""
    executor, fake = make(contiguous=True, growth_tokens=0, num_pages=12)
    executor.add(greedy("first", TWELVE[:8], 1))
    executor.add(greedy("wall", (9,), 12))
    steps(executor, 1)
    assert (executor.stats.memory.pages_cached, fake.copied) == (2, 0)
    executor.add(greedy("again", TWELVE, 2))
    steps(executor, 1)
    assert (executor.stats.memory.pages_cached, fake.copied) == (0, 2)


@KINDS
def test_an_evicted_beginning_is_computed_again(contiguous):
    """A pool of 4 pages that other prompts have gone through holds nothing of the first one any more."""
    executor, _ = make(contiguous=contiguous, num_pages=4)
    asked = greedy("first", TWELVE, 1)
    finish(executor, asked)
    for number in range(3):
        finish(executor, greedy(f"{number}", (number, *TWELVE), 1))
    played = play(executor, [Arrival(greedy("first", TWELVE, 1))])
    assert played.cached_tokens["first"] == 0
    assert played.answers["first"] == answer_of(asked)


def test_beams_that_are_no_more_give_their_pages_back():
    """Two of three beams have no child: what only they owned is free."""
    executor, _ = make()
    asked = request("beams", TWELVE[:5], max_tokens=9, n=3, use_beam_search=True)
    memory, admission = executor._memory, executor._admission
    state = RequestState(asked, 0, FinishRule.of(asked.sampling, ()), {}, None)
    parent = state.prompt_sequence()
    assert memory.start(parent, 0, False)
    parent.computed = 5
    group = Group(state, (0, 0), [parent, memory.fork(parent, [*parent.tokens, 1])], [])
    admission.join(group)
    executor._forks.part_beams(group, [1], [7])
    assert [sequence.tokens[-2:] for sequence in group.sequences] == [[1, 7]]
    assert memory.pool.used == 2


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda executor, group: executor._memory.pool.share(group.sequences[0].pages), "owners and counts"),
        (lambda executor, group: executor._memory.index.forget(group.sequences[0].pages[0]), "the allocator keeps"),
        (lambda executor, group: executor._memory.index._pages.clear(), "do not agree"),
        (lambda executor, group: setattr(group.sequences[0], "computed", 99), "more tokens than its pages hold"),
        (lambda executor, group: executor._admission.running.clear(), "not those that run or wait"),
        (lambda executor, group: executor._admission.waiting.append(executor._admission.running.pop()), "has pages"),
    ],
)
def test_the_check_finds_what_is_wrong(spoil, found):
    """The checker itself: owners, pages, keys, tokens without a page, groups in no list or the wrong one."""
    executor, _ = make()
    executor.add(greedy("one", TWELVE, 9))
    steps(executor, 1)
    spoil(executor, executor._admission.running[0])
    with pytest.raises(ValueError, match=found):
        executor.check()


@pytest.mark.parametrize("contiguous", [False, True])
def test_prompts_that_are_over_do_not_make_the_process_larger(contiguous):
    """Fifty prompts of 3 pages in turn, all of them kept: of 200 pages no more than the soft limit of 8 are written."""
    executor, fake = make(num_pages=200, page_size=4, contiguous=contiguous, cache_pages=8)
    before = fake.pages.copy()
    for number in range(50):
        finish(executor, greedy(number, [number, *range(1, 10)], 2))
    assert executor.stats.memory.pages_cached >= 6
    written = (fake.pages != before).any(axis=1).nonzero()[0]
    assert 3 <= len(written) <= max(written) + 1 <= 8


def test_beams_that_came_back_wait_until_all_of_them_have_a_run():
    """Two beams of two pages each: four pages are free, but only two of them lie side by side.

    They began there, could not part, gave way and began there again, before everybody else and for ever.
    """
    executor, _ = make(contiguous=True, growth_tokens=0, num_pages=6)
    memory = executor._memory
    left, owned = memory.pool.take_run(1), memory.pool.take_run(1)
    middle, right = memory.pool.take_run(2), memory.pool.take_run(1)
    for run in (left, middle):
        memory.pool.release(run)
    state = RequestState(request("beams", TWELVE[:4], max_tokens=5, n=2, use_beam_search=True), 1, None, {}, None)
    sequence = state.prompt_sequence()
    assert not memory.start(sequence, 2, True)
    assert memory.pool.available == 4
    memory.pool.release(owned)
    assert memory.start(sequence, 2, True)
    assert list(sequence.pages) == [0, 1]
    memory.release(sequence)
    memory.pool.release(right)
