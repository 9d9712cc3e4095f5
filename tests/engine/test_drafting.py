"""Drafts in the packed executor by example: who gets any, where they end, what they leave, and what they save."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packed_play import Arrival, answer_of, finish, greedy, ids, make, play, request

from engine.batching import BatchLimits

DRAFTS = BatchLimits(draft_tokens=3)
RHYTHM = 12.0
PROMPT = (9, 8, 7)


def rows_of_decodes(fake):
    """Per step the tokens of its decode spans."""
    return [counts[:decode_count] for _, counts, decode_count in fake.plans if decode_count]


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"temperature": 1.0, "seed": 3}])
def test_a_text_that_repeats_takes_fewer_steps(sampling):
    """Of 60 tokens the first 7 are new; then each step gives four."""
    asked = request("r", PROMPT, max_tokens=60, logprobs=2, **sampling)
    executor, fake = make(limits=DRAFTS, rhythm=RHYTHM, page_size=128)
    played = play(executor, [Arrival(asked)])
    assert played.answers["r"] == answer_of(asked, rhythm=RHYTHM)
    assert len(fake.plans) == 7 + 14
    assert (executor.stats.drafted_tokens, executor.stats.accepted_tokens) == (39, 39)


def test_a_round_reports_several_tokens_of_a_choice_in_their_order():
    """They are those of the answer, with the number of sequences that ran as batch size."""
    executor, _ = make(limits=DRAFTS, rhythm=RHYTHM, page_size=128)
    executor.add(greedy("r", PROMPT, 30))
    rounds = []
    while executor.live_sequences:
        rounds += executor.step()
        assert executor.sequences_run == 1
        executor.check()
    assert max(len(round_.tokens) for round_ in rounds) == 4
    assert [token for round_ in rounds for token in round_.tokens] == answer_of(greedy("r", PROMPT, 30), rhythm=RHYTHM)[
        0
    ]


@pytest.mark.parametrize(("running", "widest"), [(1, 4), (2, 8), (3, 6), (4, 8), (5, 5), (6, 6)])
def test_drafts_share_eight_rows_and_are_off_above_four_answers(running, widest):
    """Each of up to four answers has drafts in the largest step; of five and more none has any."""
    asked = [greedy(number, (*PROMPT, 10 + number), 40) for number in range(running)]
    executor, fake = make(limits=DRAFTS, rhythm=RHYTHM, page_size=128)
    answers = finish(executor, *asked)
    assert all(answers[a.request_id] == answer_of(a, rhythm=RHYTHM) for a in asked)
    assert max(sum(counts) for counts in rows_of_decodes(fake) if len(counts) == running) == widest
    assert (executor.stats.accepted_tokens > 0) == (running <= 4)


def test_no_row_is_run_that_the_answer_cannot_need():
    """The last of ``max_tokens`` is drawn and never run, with drafts or without."""
    for most in range(1, 25):
        executor, fake = make(limits=DRAFTS, rhythm=RHYTHM, page_size=128)
        assert len(finish(executor, greedy("r", PROMPT, most))["r"][0]) == most
        last = max(
            start + count for starts, counts, _ in fake.plans for start, count in zip(starts, counts, strict=True)
        )
        assert last == len(PROMPT) + most - 1


@pytest.mark.parametrize(("field", "reason"), [("stop_token_ids", "stop"), ("eos", "stop")])
def test_a_token_that_ends_the_answer_ends_it_within_a_draft(field, reason):
    """The prompt holds what would follow; nothing after the first 4 is given, and its pages come free."""
    eos = (4,) if field == "eos" else ()
    prompt = (0, 1, 2, 3, 4, 0, 1)
    asked = greedy("r", prompt, 30, **({} if eos else {"stop_token_ids": (4,)}))
    executor, fake = make(limits=DRAFTS, rhythm=RHYTHM, page_size=128, eos=eos)
    (tokens,) = finish(executor, asked)["r"].values()
    assert (ids(tokens), tokens[-1].finish_reason) == ([2, 3, 4], reason)
    assert len(fake.plans) == 2
    assert executor.stats.memory.pages_used == 0


@pytest.mark.parametrize("contiguous", [False, True])
def test_drafts_take_no_page_and_preempt_nobody(contiguous):
    """In a pool that two answers fill to the last page, as many are preempted, and as many pages used, as without."""
    seen = []
    for limits in (DRAFTS, BatchLimits()):
        asked = [greedy(number, (*PROMPT, 10 + number), 60, logprobs=1) for number in range(2)]
        executor, _ = make(
            limits=limits, rhythm=RHYTHM, page_size=8, num_pages=16, growth_tokens=0, contiguous=contiguous
        )
        answers = finish(executor, *asked)
        assert all(answers[a.request_id] == answer_of(a, rhythm=RHYTHM) for a in asked)
        stats = executor.stats
        assert (stats.accepted_tokens > 0) == (limits is DRAFTS)
        seen.append((stats.preemptions, stats.memory.pages_cached))
    assert seen[0] == seen[1]


def test_rejected_drafts_are_never_looked_up():
    """The second request finds only what the first one's answer was computed from, and goes on with that."""
    prompt = (1, 2, 3, 5, 6, 1, 2, 3, 5, 6, 1, 2)
    asked = greedy("r", prompt, 20)
    executor, _ = make(limits=DRAFTS, rhythm=RHYTHM, page_size=4)
    answer = finish(executor, asked)["r"]
    assert 0 < executor.stats.accepted_tokens < executor.stats.drafted_tokens
    longer = greedy("next", (*prompt, *ids(answer[0]), 5), 5)
    played = play(executor, [Arrival(longer)])
    assert played.cached_tokens["next"] == 28
    assert played.answers["next"] == answer_of(longer, rhythm=RHYTHM)


def test_a_draft_whose_logits_are_no_numbers_harms_nobody():
    """What the prompt would follow is never drawn: the answer is the one without drafts, and so are no failures."""
    prompt = (1, 2, 3, 15, 6, 1, 2, 3, 15, 6, 1, 2)
    asked = greedy("r", prompt, 20)
    executor, fake = make(limits=DRAFTS, rhythm=RHYTHM, page_size=8)
    fake.poisoned = frozenset({15})
    played = play(executor, [Arrival(asked)])
    assert played.failures == []
    assert played.answers["r"] == answer_of(asked, rhythm=RHYTHM)
    assert executor.stats.drafted_tokens > 0


def test_logits_that_are_no_numbers_without_drafts_fail_with_them():
    """The answer gets as far, and no further."""
    ends = []
    for limits in (DRAFTS, BatchLimits()):
        executor, fake = make(limits=limits, rhythm=RHYTHM, page_size=128)
        fake.poisoned = frozenset({4})
        played = play(executor, [Arrival(greedy("r", (1, 2, 3, 9, 9, 1, 2, 3), 20))])
        ends.append((ids(played.answers["r"][0]), [failure.message for failure in played.failures]))
    assert ends[0] == ends[1]
    assert ends[0][1]


def test_choices_have_drafts_once_they_have_parted():
    """Before that they share rows; what each of them draws is its own."""
    asked = request("r", (0, 1, 2, 3, 4) * 3, max_tokens=30, n=3, temperature=2.0, seed=5)
    executor, fake = make(limits=DRAFTS, rhythm=8.0, page_size=128)
    played = play(executor, [Arrival(asked)])
    assert played.answers["r"] == answer_of(asked, rhythm=8.0)
    assert executor.stats.accepted_tokens > 0
    assert fake.plans[0] == ([0], [15], 0)
    again = play(executor, [Arrival(replace(asked, request_id="again"))])
    assert again.answers["again"] == played.answers["r"]


def test_beams_have_no_drafts():
    """Though they say the same again and again."""
    executor, _ = make(limits=DRAFTS, rhythm=RHYTHM, page_size=128)
    finish(executor, request("r", (0, 1, 2, 3, 4) * 3, max_tokens=20, n=2, use_beam_search=True))
    assert executor.stats.drafted_tokens == 0


def test_a_runner_whose_numbers_depend_on_company_gets_no_drafts():
    """It could answer something else with them."""
    executor, fake = make(limits=DRAFTS, rhythm=RHYTHM, page_size=128)
    assert executor._drafting._most == 3
    fake.same_bits = False
    unlike = type(executor)(fake, DRAFTS)
    finish(unlike, greedy("r", PROMPT, 40))
    assert unlike.stats.drafted_tokens == 0


def test_a_negative_number_of_drafts_is_refused():
    """It would be taken for some."""
    with pytest.raises(ValueError, match="draft tokens are at least 0"):
        BatchLimits(draft_tokens=-1)
