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
