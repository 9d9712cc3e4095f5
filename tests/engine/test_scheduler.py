"""Admission, rounds, stamps, removal and failures of the scheduler."""

from __future__ import annotations

import pytest
from fake_executor import FakeExecutor

from engine.scheduler import ROUND_FAILED, EngineBroken, Scheduler
from engine.types import Request, RequestFailure, SamplingParams
from engine.wire import Cancel, RemoveChoice, Submit

MICROSECOND = 1000


class Clock:
    """A clock that a test sets, in microseconds."""

    def __init__(self):
        self.now_us = 0

    def __call__(self):
        return self.now_us * MICROSECOND


@pytest.fixture
def executor():
    return FakeExecutor()


@pytest.fixture
def scheduler(executor):
    return Scheduler(executor, max_batch_size=4)


def submit(scheduler, request_id, n=1, at_us=0):
    scheduler.apply(Submit(Request(request_id, (1,), SamplingParams(max_tokens=9, n=n)), at_us * MICROSECOND))


def ran(outputs):
    """Which requests a round reported."""
    return [output.request_id for output in outputs]


def test_requests_run_together_up_to_the_batch_limit_in_order_of_arrival(scheduler):
    """Four sequences run; the fifth waits, and so does a later one that would fit: nobody overtakes."""
    for request_id, n in [("a", 2), ("b", 1), ("c", 2), ("d", 1)]:
        submit(scheduler, request_id, n)
    assert ran(scheduler.run_round()) == ["a", "b"]
    assert scheduler.queued == 2
    scheduler.apply(Cancel("a"))
    assert ran(scheduler.run_round()) == ["b", "c", "d"]
    assert scheduler.queued == 0


def test_a_request_wider_than_the_limit_runs_alone(scheduler):
    """Ten choices are admitted when nothing else runs, and nothing joins them."""
    submit(scheduler, "small")
    submit(scheduler, "wide", n=10)
    submit(scheduler, "later")
    assert ran(scheduler.run_round()) == ["small"]
    scheduler.apply(Cancel("small"))
    (output,) = scheduler.run_round()
    assert (output.request_id, output.batch_size, len(output.tokens)) == ("wide", 10, 10)
    scheduler.apply(Cancel("wide"))
    assert ran(scheduler.run_round()) == ["later"]


def test_stamps_of_the_first_and_of_later_rounds(executor):
    """The first wait runs from submission, later ones from the end of the previous round; batch_size counts all."""
    clock = Clock()
    scheduler = Scheduler(executor, max_batch_size=4, clock_ns=clock)
    step = executor.step
    executor.step = lambda: (setattr(clock, "now_us", clock.now_us + 500), step())[1]
    submit(scheduler, "a", n=2, at_us=100)
    clock.now_us = 1000
    (first,) = scheduler.run_round()
    assert (first.queue_wait_us, first.step_us, first.batch_size) == (900, 500, 2)
    submit(scheduler, "b", at_us=1400)
    clock.now_us = 1530
    second, joined = scheduler.run_round()
    assert (second.queue_wait_us, second.step_us, second.batch_size) == (30, 500, 3)
    assert (joined.queue_wait_us, joined.step_us, joined.batch_size) == (130, 500, 3)


@pytest.mark.parametrize("rounds_before", [0, 1])
def test_cancelling_frees_the_request_before_the_next_round(scheduler, executor, rounds_before):
    """Queued or running, a cancelled request takes part in no further round."""
    submit(scheduler, "a")
    for _ in range(rounds_before):
        scheduler.run_round()
    scheduler.apply(Cancel("a"))
    assert scheduler.run_round() == []
    assert executor.live_sequences == 0
    assert not scheduler.has_work


def test_removing_choices_one_by_one_ends_the_request(scheduler, executor):
    """When the last choice is gone there is no work left, and no round reports the request."""
    submit(scheduler, "a", n=2)
    scheduler.run_round()
    scheduler.apply(RemoveChoice("a", 0))
    (output,) = scheduler.run_round()
    assert [token.choice for token in output.tokens] == [1]
    scheduler.apply(RemoveChoice("a", 1))
    assert scheduler.run_round() == []
    assert not scheduler.has_work


def test_a_failed_round_fails_its_requests_and_the_next_ones_run(scheduler, executor):
    """Everything in the batch fails as internal, in words that tell nothing of the code; the queue goes on."""
    for request_id in "abcde":
        submit(scheduler, request_id)
    executor.fail = 1
    outputs = scheduler.run_round()
    assert outputs == [RequestFailure(request_id, "internal", ROUND_FAILED) for request_id in "abcd"]
    assert executor.live_sequences == 0
    assert ran(scheduler.run_round()) == ["e"]


def test_an_executor_that_does_not_let_go_is_broken(scheduler, executor):
    """Its requests are reported as failed, and the process has to end."""
    submit(scheduler, "a")
    executor.fail, executor.stuck = 1, True
    with pytest.raises(EngineBroken) as caught:
        scheduler.run_round()
    assert ran(caught.value.outputs) == ["a"]


def test_three_failed_rounds_in_a_row_mean_a_broken_executor(scheduler, executor):
    """A round that works in between starts the count anew."""
    executor.fail = 2
    for request_id in "ab":
        submit(scheduler, request_id)
        assert ran(scheduler.run_round()) == [request_id]
    submit(scheduler, "c")
    scheduler.run_round()
    executor.fail = 3
    for _ in range(2):
        submit(scheduler, "d")
        scheduler.run_round()
    submit(scheduler, "e")
    with pytest.raises(EngineBroken):
        scheduler.run_round()


def test_one_request_may_fail_alone(scheduler, executor):
    """A round's own failure of one request reaches it in its words; the others go on."""
    submit(scheduler, "a")
    submit(scheduler, "b")
    executor.failures["a"] = "Its numbers are not finite."
    failed, fine = scheduler.run_round()
    assert failed == RequestFailure("a", "internal", "Its numbers are not finite.")
    assert fine.request_id == "b"
    assert ran(scheduler.run_round()) == ["b"]


def test_a_request_that_cannot_be_admitted_fails_alone(scheduler):
    """The executor refuses a second request of one id; the first one runs on."""
    submit(scheduler, "a")
    scheduler.run_round()
    submit(scheduler, "a")
    refused, going_on = scheduler.run_round()
    assert isinstance(refused, RequestFailure)
    assert going_on.request_id == "a"


def test_a_request_that_loses_its_last_choice_leaves_the_others(scheduler):
    """Nothing waits for a report on it."""
    submit(scheduler, "a")
    submit(scheduler, "b")
    scheduler.run_round()
    scheduler.apply(RemoveChoice("a", 0))
    assert ran(scheduler.run_round()) == ["b"]
    scheduler.apply(Cancel("b"))
    assert not scheduler.has_work


def test_the_first_token_is_stamped_with_all_of_its_prompt(executor):
    """Two rounds of 500 us for parts of the prompt, one for others' sake, and one for the token.

    Submitted at 100, the token is there at 3000: 1500 us in its own rounds, and 1400 us of waiting before, between and
    beside them.
    """
    clock = Clock()
    scheduler = Scheduler(executor, max_batch_size=4, clock_ns=clock)
    step = executor.step
    executor.step = lambda: (setattr(clock, "now_us", clock.now_us + 500), step())[1]
    executor.prompt_rounds["a"] = 2
    submit(scheduler, "a", at_us=100)
    clock.now_us = 1000
    assert scheduler.run_round() == []
    executor.idle.add("a")
    assert scheduler.run_round() == []
    executor.idle.clear()
    assert scheduler.run_round() == []
    (token,) = scheduler.run_round()
    assert clock.now_us == 3000
    assert (token.queue_wait_us, token.step_us) == (1400, 1500)
    (later,) = scheduler.run_round()
    assert (later.queue_wait_us, later.step_us) == (0, 500)


def test_the_batch_size_is_that_of_the_round_that_made_the_token(scheduler, executor):
    """Not of the sequences that are admitted: one of the three has no part in this round."""
    for request_id in "abc":
        submit(scheduler, request_id)
    step = executor.step
    executor.step = lambda: (step(), setattr(executor, "sequences_run", 2))[0]
    executor.idle.add("b")
    assert [(output.request_id, output.batch_size) for output in scheduler.run_round()] == [("a", 2), ("c", 2)]


def test_an_executor_without_room_gets_no_more_requests(scheduler, executor):
    """They wait in the queue, in order, until it has."""
    submit(scheduler, "a")
    scheduler.run_round()
    executor.full = True
    submit(scheduler, "b")
    assert ran(scheduler.run_round()) == ["a"]
    assert scheduler.queued == 1
    executor.full = False
    assert ran(scheduler.run_round()) == ["a", "b"]


def test_a_request_that_can_never_run_is_refused_in_the_executors_words(scheduler, executor):
    """At once, although others wait before it, and without a round of its own."""
    executor.refusals["large"] = "It needs too much memory."
    executor.full = True
    submit(scheduler, "first")
    submit(scheduler, "large")
    assert scheduler.has_work
    assert scheduler.run_round() == [RequestFailure("large", "too_long", "It needs too much memory.")]
    assert scheduler.queued == 1
    assert executor.steps == 0
