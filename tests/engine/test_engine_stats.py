"""What the engine says of its state: counted by the scheduler and the executor, sent with rounds, kept by the front."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from fake_executor import FakeExecutor
from packed_play import finish, greedy, make

from engine.batching import BatchLimits
from engine.front import EngineSpec, Limits, ProcessFront
from engine.mock_front import MockFront
from engine.scheduler import Scheduler
from engine.stats import EngineStats, ExecutorStats, MemoryStats
from engine.text.byte_tokenizer import mock_tokenizer
from engine.types import Request, SamplingParams

ENDLESS = SamplingParams(max_tokens=10**9, ignore_eos=True)
PAGED = EngineSpec("fake_executor:paged")


def asked(sampling):
    """A request of three tokens."""
    return Request("r", (72, 105, 33), sampling)


def test_a_new_engine_has_nothing():
    """All zeros, and it has nothing to do."""
    assert Scheduler(FakeExecutor(), 4).stats == EngineStats(0, 0, False, ExecutorStats())
    assert EngineStats().idle


def test_the_scheduler_counts_what_it_was_sent_and_what_waits():
    """Three requests for a batch of two: two run, one is queued, and whoever comes next waits behind it."""
    scheduler = Scheduler(FakeExecutor(), 2)
    for name in "abc":
        scheduler.submit(Request(name, (1,), ENDLESS), 0)
    scheduler.run_round()
    assert scheduler.stats == EngineStats(received=3, queued=1, full=True, executor=ExecutorStats(running=2))
    scheduler.cancel("a")
    assert not scheduler.stats.full


def test_the_packed_executor_counts_pages_and_prefix_hits():
    """Pages of 4: a prompt of 9 tokens and one more is cached in 2 pages, which the same prompt again does not compute.

    Both asked for a beginning: 9 tokens each, of which the second had 8.
    """
    executor, _ = make(num_pages=10, page_size=4)
    prompt = list(range(1, 10))
    finish(executor, greedy("a", prompt, 1))
    assert executor.stats == ExecutorStats(0, 0, 0, 0, 0, 0, MemoryStats(10, 0, 2, 1, 0, 9, 0))
    finish(executor, greedy("b", prompt, 1))
    assert executor.stats.memory == MemoryStats(10, 0, 2, 2, 1, 18, 8)


def test_a_request_without_room_is_unstarted_until_it_runs():
    """The batch of one is taken: the second request waits in the executor, and starts when the first has ended."""
    executor, _ = make(num_pages=10, page_size=4, limits=BatchLimits(max_batch_size=1))
    executor.add(greedy("a", [1, 2], 9))
    executor.add(greedy("b", [3, 4], 9))
    executor.step()
    assert executor.stats[:3] == (1, 1, 1)
    executor.remove("a")
    executor.step()
    assert executor.stats[:3] == (1, 0, 0)


async def test_a_mock_front_knows_its_state_at_once():
    """There is no process in between: after the cancellation nothing runs."""
    front = MockFront()
    await front.start()
    generation = front.submit(asked(ENDLESS))
    await anext(generation)
    assert front.engine_stats.executor.running == 1
    generation.cancel()
    assert front.engine_stats == EngineStats(received=1)
    await front.stop()


async def until(front, wanted):
    """Wait until the engine has told a state that is as wanted."""
    async with asyncio.timeout(30):
        while not wanted(front.engine_stats):  # noqa: ASYNC110 - nobody tells of a new state
            await asyncio.sleep(0.001)


async def test_the_front_has_the_engines_latest_state_idle_included():
    """Two endless answers hold a page each; once both are given up, the engine says that it holds none."""
    front = ProcessFront(mock_tokenizer(), PAGED, limits=Limits(max_batch_size=2))
    await front.start()
    try:
        await front.wait_ready()
        empty = ExecutorStats(memory=MemoryStats(100, 0, 0, 0, 0, 0, 0))
        await until(front, lambda stats: stats == EngineStats(received=1, executor=empty))  # the front's own probe
        answers = [front.submit(asked(ENDLESS)) for _ in range(3)]
        await until(front, lambda stats: stats.executor.memory.pages_used == 2 and stats.received == 4)
        assert front.engine_stats.waiting == front.waiting == 1
        for answer in answers:
            answer.cancel()
        await until(front, lambda stats: stats.idle)
        assert front.engine_stats.executor.memory.pages_used == 0
    finally:
        await front.stop()


async def test_a_new_engine_starts_from_zero():
    """What the dead one held is gone, and its counts with it; the front's own counts go on."""
    front = ProcessFront(mock_tokenizer(), PAGED)
    await front.start()
    try:
        await front.wait_ready()
        answer = front.submit(asked(ENDLESS))
        await anext(answer)
        os.kill(front.pid, signal.SIGKILL)
        with pytest.raises(Exception, match="ended unexpectedly"):
            [_ async for _ in answer]
        assert front.engine_stats == EngineStats()
        await asyncio.wait_for(front.wait_ready(), 30)
        empty = ExecutorStats(memory=MemoryStats(100, 0, 0, 0, 0, 0, 0))
        await until(front, lambda stats: stats.executor == empty)
        assert (front.counts.engine_restarts, front.counts.prompt_tokens) == (1, 3)
        assert front.counts.generated_tokens >= 1
    finally:
        await front.stop()
