"""How many requests may wait: judged at once by the front from what it knows, and exactly by the engine."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest
from fake_executor import FakeExecutor
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_play import greedy, make

from engine.front_base import FrontBase
from engine.scheduler import Limits, Scheduler
from engine.text.byte_tokenizer import mock_tokenizer
from engine.types import EngineError, Request, RequestFailure, SamplingParams, StepToken

LONG = SamplingParams(max_tokens=10**9, ignore_eos=True)


class RoomExecutor(FakeExecutor):
    """Has memory for so many requests; the first one beyond is admitted without room, and starts when there is some.

    What is in ``ending`` ends with the next round.
    """

    def __init__(self, room):
        super().__init__()
        self.room = room
        self.ending = set()

    def add(self, request):
        super().add(request)
        if len(self.choices) - len(self.homeless) > self.room:
            self.homeless.add(request.request_id)

    def remove(self, request_id):
        super().remove(request_id)
        self.homeless.discard(request_id)

    def can_admit(self, request):
        self.settle()
        return super().can_admit(request)

    def settle(self):
        if len(self.choices) <= self.room:
            self.homeless.clear()

    def step(self):
        self.settle()
        rounds = super().step()
        for round_ in rounds:
            if round_.request_id in self.ending:
                round_.tokens = [StepToken(token.choice, 65, finish_reason="length") for token in round_.tokens]
                round_.done = True
                self.remove(round_.request_id)
        return rounds


class PipedFront(FrontBase):
    """A front and an engine with a pipe in between, through which things go when a test says so."""

    def __init__(self, room, **limits):
        super().__init__(mock_tokenizer(), Limits(**limits))
        self.state = "ready"
        self.executor = RoomExecutor(room)
        self.engine = Scheduler(self.executor, self.limits.max_batch_size, max_queue=self.limits.max_queue)
        self.commands = deque()
        self.reports = deque()

    def _send(self, command):
        self.commands.append(command)

    def ask(self):
        """One more endless request."""
        return self.submit(Request("r", (1,), LONG))

    def try_to_ask(self):
        """The same; None when it is refused as queue_full."""
        try:
            return self.ask()
        except EngineError as error:
            if error.code != "queue_full":
                raise
            return None

    def turn(self):
        """The engine takes what it was sent and runs a round."""
        while self.commands:
            self.engine.apply(self.commands.popleft())
        outputs = self.engine.run_round() if self.engine.has_work else []
        self.reports.append((outputs, self.engine.stats))
        return [output for output in outputs if isinstance(output, RequestFailure)]

    def begin(self, requests):
        """So many requests are sent, and both sides know of them."""
        answers = [self.ask() for _ in range(requests)]
        self.turn()
        self.hear()
        return answers

    def hear(self):
        """The front takes the reports."""
        while self.reports:
            self._receive(*self.reports.popleft())


async def test_the_queue_is_bounded_where_memory_is_what_is_short():
    """Memory for two, a place for a hundred, a queue of three: of seven requests two run, three wait, two are told."""
    front = PipedFront(room=2, max_batch_size=100, max_queue=3)
    answers = [front.ask() for _ in range(7)]
    assert front.waiting == 0  # the front cannot know better
    failures = front.turn()
    front.hear()
    assert [failure.code for failure in failures] == ["queue_full"] * 2
    assert front.waiting == front.engine_stats.waiting == 3
    for answer in answers[5:]:
        with pytest.raises(EngineError, match="3 requests wait already") as caught:
            await anext(answer)
        assert caught.value.code == "queue_full"
    assert front.try_to_ask() is None  # at once: now it knows
    assert [failure.code for failure in front.turn()] == []
    for answer in answers:
        answer.cancel()


async def test_what_is_on_its_way_counts_when_the_engine_is_full():
    """Two wait as the engine said, one more has been sent: the queue of three is full before the engine sees it."""
    front = PipedFront(room=1, max_batch_size=100, max_queue=3)
    answers = front.begin(3)
    assert front.waiting == 2
    answers.append(front.ask())
    assert front.waiting == 3
    assert front.try_to_ask() is None
    answers[1].cancel()
    assert front.waiting == 2
    answers.append(front.ask())
    for answer in answers:
        answer.cancel()


async def test_a_place_that_came_free_is_not_refused():
    """The running request has ended, so of the one that waits nothing will be left: the next may wait in its place."""
    front = PipedFront(room=1, max_batch_size=100, max_queue=1)
    answers = front.begin(2)
    assert front.try_to_ask() is None
    front.executor.ending.add("1:r")
    front.turn()
    front.hear()
    answers.append(front.ask())
    assert front.turn() == []
    assert front.engine.stats.waiting == 1
    for answer in answers:
        answer.cancel()


async def test_without_a_queue_a_request_runs_at_once_or_is_refused():
    """max_queue 0 with memory for one: the second request is refused by the engine, which keeps nothing of it."""
    front = PipedFront(room=1, max_batch_size=100, max_queue=0)
    answers = [front.ask() for _ in range(2)]
    assert [failure.request_id for failure in front.turn()] == ["2:r"]
    assert list(front.executor.choices) == ["1:r"]
    assert (front.engine.stats.waiting, front.engine.stats.executor.unstarted) == (0, 0)
    for answer in answers:
        answer.cancel()


STEPS = st.lists(st.sampled_from(["ask", "ask", "ask", "cancel", "end", "turn", "hear"]), max_size=60)


@settings(deadline=None)
@given(steps=STEPS, room=st.integers(1, 4), batch=st.integers(1, 4), queue=st.integers(0, 3))
def test_laws_of_the_queue(steps, room, batch, queue):
    """Whatever comes when: after a round no more than ``max_queue`` wait; an engine with nothing to do refuses nobody;
    and the front never believes that more wait than do, once everything has arrived.
    """
    asyncio.run(play(PipedFront(room, max_batch_size=batch, max_queue=queue), steps))


async def play(front, steps):
    """Do these steps and hold the laws after each."""
    answers = []
    for step in steps:
        free = not (front.running or front.commands or front.reports) and front.engine.stats.idle
        if step == "ask":
            answer = front.try_to_ask()
            answers += [answer] if answer else []
            if free:
                assert answer
                assert front.turn() == []
        elif step == "cancel" and answers:
            answers.pop(len(answers) // 2).cancel()
        elif step == "end":
            front.executor.ending.update(front.executor.choices)
        elif step == "turn":
            front.turn()
            assert front.engine.stats.waiting <= front.limits.max_queue
        elif step == "hear":
            front.hear()
        if not front.commands and not front.reports:
            assert front.waiting <= front.engine.stats.waiting
    for answer in answers:
        answer.cancel()
    front.turn()
    front.hear()
    assert (front.running, front.waiting, front.engine.stats.waiting) == (0, 0, 0)


def test_the_packed_executor_says_who_waits_for_memory():
    """Ten pages of 4 and three requests of 16 tokens to come, each with room for all: two run, one waits; and a
    request that waits for another one's beginning waits for no room.
    """
    executor, _ = make(num_pages=10, page_size=4, growth_tokens=100, contiguous=True)
    scheduler = Scheduler(executor, 100, max_queue=1)
    for name in "abcd":
        scheduler.submit(greedy(name, [ord(name)], 16), 0)
    failures = [output for output in scheduler.run_round() if isinstance(output, RequestFailure)]
    assert [(failure.request_id, failure.code) for failure in failures] == [("d", "queue_full")]
    assert scheduler.stats.executor.unstarted == 1

    executor, _ = make(num_pages=100, page_size=4)
    scheduler = Scheduler(executor, 100, max_queue=0)
    for name in "ab":
        scheduler.submit(greedy(name, range(1, 9), 4), 0)
    assert not any(isinstance(output, RequestFailure) for output in scheduler.run_round())
    assert (scheduler.stats.executor.waiting, scheduler.stats.waiting) == (1, 0)


@settings(deadline=None)
@given(data=st.data(), pages=st.integers(4, 12), queue=st.integers(0, 3), contiguous=st.booleans())
def test_the_packed_executor_keeps_the_bound(data, pages, queue, contiguous):
    """Requests without a common beginning in memory that is short: never more than ``max_queue`` wait, the first is
    taken, and who was taken gets an answer.
    """
    executor, _ = make(num_pages=pages, page_size=4, contiguous=contiguous)
    scheduler = Scheduler(executor, 3, max_queue=queue)
    number, over = 0, {}
    while scheduler.has_work or number < 8:
        while number < 8 and (not scheduler.has_work or data.draw(st.booleans())):
            prompt = [50 + number] * data.draw(st.integers(1, 8))
            scheduler.submit(greedy(number, prompt, data.draw(st.integers(1, 8)), n=data.draw(st.integers(1, 2))), 0)
            number += 1
        for output in scheduler.run_round():
            if isinstance(output, RequestFailure) or output.done:
                over[output.request_id] = getattr(output, "code", "done")
        assert scheduler.stats.waiting <= queue
    assert len(over) == 8
    assert over["0"] == "done"
    assert set(over.values()) <= {"done", "queue_full"}
