"""The packed executor by example: prefix reuse, preemption, order, removal, failures, what it reports and refuses."""

from __future__ import annotations

import logging

import pytest
from packed_play import Arrival, answer_of, finish, greedy, ids, make, play, request, steps

from engine.batching import BatchLimits

KINDS = pytest.mark.parametrize("contiguous", [False, True])
TWELVE = tuple(range(1, 13))


@KINDS
def test_a_second_request_uses_the_firsts_pages(contiguous):
    """Of 12 prompt tokens in pages of 4 the first 8 come from the cache: at least one token is always run."""
    executor, fake = make(contiguous=contiguous)
    finish(executor, greedy("first", TWELVE, 1))
    before = fake.tokens_run
    played = play(executor, [Arrival(greedy("second", TWELVE, 1))])
    assert (played.cached_tokens["second"], fake.tokens_run - before) == (8, 4)
    assert played.answers["second"] == answer_of(greedy("second", TWELVE, 1))
    stats = executor.stats.memory
    assert (stats.prefix_queries, stats.prefix_hits, stats.prefix_hit_tokens) == (2, 1, 8)


@KINDS
def test_the_next_turn_of_a_chat_begins_with_the_last_answer(contiguous):
    """After 6 prompt and 11 output tokens (the last one was never run) 16 of a longer prompt are there."""
    executor, fake = make(contiguous=contiguous, num_pages=16)
    turn = greedy("turn", TWELVE[:6], 11)
    tokens = ids(finish(executor, turn)["turn"][0])
    longer = greedy("next", (*TWELVE[:6], *tokens, 5, 5, 5), 3)
    copied = fake.copied
    played = play(executor, [Arrival(longer)])
    assert played.cached_tokens["next"] == 16
    assert played.answers["next"] == answer_of(longer)
    assert fake.copied == copied  # it goes on where the pages lie, in an extent as well


@KINDS
def test_equal_prompts_that_arrive_together_are_prefilled_once(contiguous):
    """Five of 12 tokens: 12 for the first one, then 4 each, which is the page that must give logits."""
    executor, fake = make(contiguous=contiguous)
    requests = [greedy(f"{number}", TWELVE, 1) for number in range(5)]
    finish(executor, *requests)
    assert fake.tokens_run == 12 + 4 * 4


@KINDS
def test_who_waits_for_a_beginning_does_not_hold_up_others(contiguous):
    """While the first prompt runs in chunks of 4, its double waits and a stranger that came later runs."""
    executor, _ = make(contiguous=contiguous, limits=BatchLimits(prefill_chunk_size=4))
    played = play(
        executor,
        [
            Arrival(greedy("first", TWELVE, 4)),
            Arrival(greedy("double", TWELVE, 4)),
            Arrival(greedy("stranger", (9, 9), 4)),
        ],
    )
    assert [played.first_part[name] for name in ("first", "stranger", "double")] == [0, 0, 2]
    assert played.cached_tokens["double"] == 8


@KINDS
def test_who_waits_goes_on_when_the_other_one_is_cancelled(contiguous):
    """Nobody computes the beginning any more, so the double does it itself, from what is there."""
    executor, _ = make(contiguous=contiguous, limits=BatchLimits(prefill_chunk_size=4))
    double = greedy("double", TWELVE, 4)
    played = play(executor, [Arrival(greedy("first", TWELVE, 4), cancel_step=1), Arrival(double)])
    assert played.first_part["double"] == 1
    assert played.cached_tokens["double"] == 4
    assert played.answers["double"] == answer_of(double)


def test_preempted_answers_are_whole_and_the_oldest_never_waits():
    """Four answers that need 5 pages each share 8: the first one gets a token in every step, all are right."""
    executor, _ = make(num_pages=8)
    requests = [greedy(f"{number}", (number, 1, 2), 16) for number in range(4)]
    for asked in requests:
        executor.add(asked)
    tokens = {asked.request_id: [] for asked in requests}
    for step in range(200):
        rounds = {round_.request_id: round_.tokens for round_ in executor.step()}
        executor.check()
        assert step >= 16 or len(rounds["0"]) == 1
        for name, new in rounds.items():
            tokens[name] += new
    assert executor.live_sequences == 0
    assert executor.stats.preemptions > 0
    assert {name: {0: found} for name, found in tokens.items()} == {a.request_id: answer_of(a) for a in requests}


def test_the_youngest_is_preempted_and_comes_back_before_newcomers():
    """Two fill the pool; when it is short the second one goes, and a third one waits for it."""
    executor, _ = make(num_pages=4)
    play_order = [Arrival(greedy("old", (1, 2, 3), 10)), Arrival(greedy("young", (2, 2, 3), 10))]
    late = Arrival(greedy("late", (3, 2, 3), 4), step=6)
    played = play(executor, [*play_order, late])
    assert executor.stats.preemptions == 1
    assert played.first_part["late"] > 10
    assert played.cached_tokens == {"old": 0, "young": 0, "late": 0}


@KINDS
def test_choices_beyond_the_batch_limit_run_later(contiguous):
    """Seven choices, three at a time: all seven are those of the request without a limit."""
    executor, fake = make(contiguous=contiguous, limits=BatchLimits(max_batch_size=3))
    asked = request("wide", TWELVE, max_tokens=5, n=7, seed=3)
    assert finish(executor, asked)["wide"] == answer_of(asked)
    assert max(len(counts) for _, counts, _ in fake.plans) == 3


@KINDS
@pytest.mark.parametrize("steps_before", [0, 1, 2, 3, 5])
def test_a_removed_request_frees_its_pages_at_once(contiguous, steps_before):
    """In the queue, in the middle of its prompt, or later: with beams, choices, or one."""
    for sampling in ({}, {"n": 3}, {"n": 3, "use_beam_search": True}):
        executor, _ = make(contiguous=contiguous, limits=BatchLimits(prefill_chunk_size=5))
        executor.add(request("gone", TWELVE, max_tokens=30, ignore_eos=True, **sampling))
        steps(executor, steps_before)
        executor.remove("gone")
        executor.remove("gone")
        executor.check()
        assert executor.stats.memory.pages_used == 0
        assert executor.step() == []


def test_removing_a_choice_frees_its_pages_and_tells_whether_any_is_left():
    """Of two choices one goes, then the other; strangers are fine."""
    executor, _ = make()
    executor.add(request("two", TWELVE[:9], max_tokens=30, n=2, ignore_eos=True))
    steps(executor, 2)
    used = executor.stats.memory.pages_used
    assert executor.remove_choice("two", 0)
    assert executor.remove_choice("two", 9)
    assert executor.stats.memory.pages_used == used - 1
    assert not executor.remove_choice("two", 1)
    assert not executor.remove_choice("stranger", 1)
    executor.check()
    assert (executor.stats.memory.pages_used, executor.live_sequences) == (0, 0)


def test_beams_are_not_ended_one_by_one():
    """They are no choices until the search is over."""
    executor, _ = make()
    executor.add(request("beams", TWELVE, max_tokens=3, n=2, use_beam_search=True))
    assert executor.remove_choice("beams", 0)
    assert executor.live_sequences == 2


@KINDS
def test_decoding_goes_on_while_a_long_prompt_is_run(contiguous):
    """A prompt of 40 tokens beside a running answer takes steps of 8 tokens, each with a token of the answer."""
    limits = BatchLimits(mixed_prefill_tokens=8)
    executor, fake = make(contiguous=contiguous, limits=limits)
    executor.add(greedy("stream", (1, 2), 30, ignore_eos=True))
    steps(executor, 2)
    executor.add(greedy("long", tuple(range(8)) * 5, 2))
    found = [executor.step() for _ in range(5)]
    assert [[len(round_.tokens) for round_ in rounds] for rounds in found] == [[1, 0]] * 4 + [[1, 1]]
    assert [[round_.prefilling for round_ in rounds] for rounds in found] == [[False, True]] * 4 + [[False, False]]
    assert [counts for _, counts, _ in fake.plans[-5:]] == [[1, 8]] * 5
    assert executor.sequences_run == 2


def test_without_decode_rows_a_prompt_takes_the_whole_budget():
    """40 tokens at once where only the budget of 64 bounds them."""
    executor, fake = make(limits=BatchLimits(max_prefill_tokens=64, mixed_prefill_tokens=8))
    executor.add(greedy("long", tuple(range(8)) * 5, 2))
    executor.step()
    assert fake.plans[0][1] == [40]


def test_sequences_of_a_step_are_counted():
    """A prompt that becomes three choices counts three; then three rows do."""
    executor, _ = make()
    executor.add(request("three", TWELVE, max_tokens=9, n=3, ignore_eos=True))
    counted = []
    for _ in range(2):
        executor.step()
        counted.append(executor.sequences_run)
    assert counted == [3, 3]


@KINDS
def test_logits_that_are_no_numbers_fail_their_request_alone(contiguous):
    """The sick one gets a sentence and no token, nothing of it stays in the cache, and its neighbour goes on."""
    executor, fake = make(contiguous=contiguous)
    fake.poisoned = frozenset({15})
    well = greedy("well", (1, 2, 3), 3)
    executor.add(request("sick", (*TWELVE, 15), max_tokens=3, n=2))
    executor.add(well)
    sick, other = executor.step()
    executor.check()
    assert (sick.done, sick.tokens) == (True, [])
    assert "not finite" in sick.failure
    assert len(other.tokens) == 1
    assert executor.stats.memory.pages_cached == 0
    assert [round_.request_id for round_ in executor.step()] == ["well"]


@KINDS
def test_a_failed_copy_gives_its_pages_back(contiguous):
    """An exception in the middle of a fork: nothing is left, and the next request runs."""
    executor, fake = make(contiguous=contiguous)
    fake.fail_copies = True
    executor.add(request("two", TWELVE[:9], max_tokens=5, n=2))
    with pytest.raises(RuntimeError, match="no copy"):
        executor.step()
    executor.check()
    assert (executor.live_sequences, executor.stats.memory.pages_used) == (0, 0)
    fake.fail_copies = False
    asked = request("two", TWELVE[:9], max_tokens=5, n=2)
    assert finish(executor, asked)["two"] == answer_of(asked)


def test_a_failed_admission_leaves_no_trace():
    """Copying a cached beginning fails: the newcomer is refused, the running one goes on, no page is lost."""
    executor, fake = make(contiguous=True, growth_tokens=0)
    running = greedy("running", TWELVE, 8)
    executor.add(running)
    steps(executor, 1)
    fake.fail_copies = True
    with pytest.raises(RuntimeError, match="no copy"):
        executor.add(greedy("newcomer", TWELVE, 3))
    executor.check()
    fake.fail_copies = False
    assert executor.live_sequences == 1
    steps(executor, 7)
    assert executor.live_sequences == 0


def test_a_request_that_can_never_fit_is_refused_with_a_sentence():
    """11 prompt tokens and 7 of output need 17 places, 5 pages of 4; there are 4 pages."""
    executor, _ = make(num_pages=4)
    assert executor.refuse(greedy("fits", TWELVE[:11], 6)) is None
    sentence = executor.refuse(greedy("large", TWELVE[:11], 7))
    assert sentence == (
        "A prompt of 11 tokens with up to 7 tokens of output needs memory for 20 tokens; "
        "this deployment has memory for 16."
    )
    with pytest.raises(ValueError, match="needs memory for 20 tokens"):
        executor.add(greedy("large", TWELVE[:11], 7))
    assert "in 3 beams" in executor.refuse(request("beams", TWELVE[:3], max_tokens=4, n=3, use_beam_search=True))


def test_a_request_as_large_as_the_pool_runs(caplog):
    """And a model with a longer context is capped, with a warning."""
    with caplog.at_level(logging.WARNING):
        executor, _ = make(num_pages=4, max_positions=1000)
    assert executor.info.max_position_embeddings == 16
    assert "16 tokens, fewer than the model's 1000" in caplog.text
    asked = greedy("fits", TWELVE[:11], 6)
    assert finish(executor, asked)["fits"] == answer_of(asked)


def test_a_second_request_of_the_same_id_is_refused():
    """Ids are unique among the admitted."""
    executor, _ = make()
    executor.add(greedy("twice", (1,), 2))
    with pytest.raises(ValueError, match="admitted already"):
        executor.add(greedy("twice", (1,), 2))


def test_newcomers_are_not_admitted_while_one_waits_for_memory():
    """The second one does not fit beside the first; a third, small one has to wait as well."""
    executor, _ = make(num_pages=5)
    executor.add(greedy("first", TWELVE, 4, ignore_eos=True))
    assert executor.can_admit(greedy("second", TWELVE[::-1], 4))
    executor.add(greedy("second", TWELVE[::-1], 4))
    small = greedy("small", (1,), 1)
    assert not executor.can_admit(small)
    assert executor.stats.waiting == 1
    executor.remove("second")
    assert executor.can_admit(small)


@pytest.mark.parametrize("wrong", [{"max_batch_size": 0}, {"prefill_chunk_size": 0}, {"mixed_prefill_tokens": -1}])
def test_limits_are_at_least_one(wrong):
    """Nothing could ever run otherwise."""
    with pytest.raises(ValueError, match="at least 1"):
        BatchLimits(**wrong)
