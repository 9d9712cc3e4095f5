"""An engine that does not answer: when that is a hang, and what becomes of it and of its requests."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from engine.front import EngineSpec, HangLimits, ProcessFront
from engine.silence import Silence, cpu_seconds
from engine.text.byte_tokenizer import mock_tokenizer
from engine.types import EngineError, Request, SamplingParams
from engine.wire import Ping

LIMITS = HangLimits(hang_timeout_s=8, step_limit_s=40)
"""So a look every 2 seconds."""
NEVER = 1e6


def looks(count, cpu=lambda look: 1.0, owes=True, loading=False, measured=True, expected_s=0.0):
    """The verdicts of so many looks at an engine that is silent since it said what it expects of its next step."""
    silence = Silence(LIMITS)
    silence.broken(expected_s)
    now = {"owes": owes, "loading": loading, "measured": measured}
    return [silence.hangs(**now, cpu_s=cpu(look)) for look in range(count)]


def test_who_is_silent_without_computing_hangs_after_the_timeout():
    """The first look finds the last message, then there are four of 2 s each."""
    assert looks(5) == [False] * 4 + [True]


@pytest.mark.parametrize(("expected_s", "count"), [(0.0, 4), (0.3, 4), (0.5, 5), (1.2, 12), (3.0, 20)])
def test_a_step_may_use_ten_times_the_processor_time_that_was_expected(expected_s, count):
    """Here a second of it passes from look to look; at least the timeout (8 s), at most the limit of a step (40 s)."""
    assert looks(count + 1, cpu=float, expected_s=expected_s) == [False] * count + [True]


def test_who_gets_little_of_the_processor_may_take_longer():
    """A hundredth of a second from look to look: after 19 looks it has not used what a step of which nothing was told
    may use, a second."""
    assert looks(20, cpu=lambda look: look / 100) == [False] * 20


@pytest.mark.parametrize(("expected_s", "count"), [(0.0, 4), (0.5, 4), (1.2, 6), (3.0, 15), (100.0, 20)])
def test_without_processor_time_a_step_may_take_ten_times_what_was_expected(expected_s, count):
    """On a system that does not tell it."""
    assert looks(count + 1, cpu=lambda look: None, expected_s=expected_s) == [False] * count + [True]


@pytest.mark.parametrize("how", [{"cpu": float, "measured": False}, {"loading": True}])
def test_before_the_first_step_has_ended_only_the_limit_of_a_step_counts(how):
    """A first token that is computed, and a model that is read from a disk."""
    assert looks(21, **how) == [False] * 20 + [True]


def test_who_owes_nothing_may_be_silent_for_ever():
    """No request, nothing to say."""
    assert not any(looks(100, owes=False))


def test_every_message_starts_the_time_anew():
    """A round that reports nothing is a sign of life as well."""
    silence = Silence(LIMITS)
    for _ in range(20):
        for _ in range(4):
            assert not silence.hangs(owes=True, loading=False, cpu_s=1.0)
        silence.broken()


def test_the_default_limits_leave_the_longest_prefill_alone():
    """8,192 tokens at 3 tokens a second."""
    assert HangLimits().step_limit_s > 8192 / 3
    assert HangLimits().tick_s == 5


def test_processor_time_is_that_of_the_process():
    """Of this one it grows while it computes; of none there is nothing to tell."""
    before = cpu_seconds(os.getpid())
    deadline = time.monotonic() + 30
    while cpu_seconds(os.getpid()) == before and time.monotonic() < deadline:
        pass
    assert cpu_seconds(os.getpid()) > before
    assert cpu_seconds(2**22 + 1) is None


@pytest.mark.parametrize(
    ("factory", "limits"),
    [("blocking", HangLimits(0.2, NEVER)), ("spinning", HangLimits(0.2, NEVER))],
)
async def test_an_engine_whose_step_never_ends_is_ended_and_started_again(factory, limits):
    """Waiting or computing for ever: the request gets engine_down, and another process loads."""
    front = ProcessFront(mock_tokenizer(), EngineSpec(f"fake_executor:{factory}"), hang=limits)
    await front.start()
    try:
        await asyncio.wait_for(front.wait_ready(), 30)
        pid = front.pid
        answer = front.submit(Request("r", (1,), SamplingParams(max_tokens=3)))
        with pytest.raises(EngineError, match="did not answer any more") as caught:
            await asyncio.wait_for(anext(answer), 30)
        assert caught.value.code == "engine_down"
        await asyncio.wait_for(front.wait_ready(), 30)
        assert front.pid != pid
        assert front.counts.engine_restarts == 1
    finally:
        await front.stop()


async def test_an_engine_that_hangs_after_all_requests_were_given_up_is_found_too():
    """The process is stopped, and its only request cancelled: it still owes the word that it has nothing to do."""
    spec = EngineSpec("engine.mock:make_executor")
    front = ProcessFront(mock_tokenizer(), spec, hang=HangLimits(0.2, NEVER))
    await front.start()
    try:
        await asyncio.wait_for(front.wait_ready(), 30)
        os.kill(front.pid, signal.SIGSTOP)
        front.submit(Request("r", (1,), SamplingParams(max_tokens=3))).cancel()
        async with asyncio.timeout(30):
            while not front.counts.engine_restarts:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        await asyncio.wait_for(front.wait_ready(), 30)
        (deltas,) = [deltas async for deltas in front.submit(Request("r", (1,), SamplingParams(max_tokens=1)))]
        assert deltas[0].finish_reason == "length"
    finally:
        await front.stop()


async def test_an_idle_engine_that_is_stopped_is_found_without_a_request():
    """It is asked for a sign of life, and started again when none comes."""
    front = ProcessFront(mock_tokenizer(), EngineSpec("engine.mock:make_executor"), hang=HangLimits(0.2, NEVER))
    await front.start()
    try:
        await asyncio.wait_for(front.wait_ready(), 30)
        os.kill(front.pid, signal.SIGSTOP)
        async with asyncio.timeout(30):
            while not front.counts.engine_restarts:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        await asyncio.wait_for(front.wait_ready(), 30)
    finally:
        await front.stop()


async def test_an_idle_engine_that_answers_is_left_alone():
    """Many questions, no restart."""
    front = ProcessFront(mock_tokenizer(), EngineSpec("engine.mock:make_executor"), hang=HangLimits(2.0, NEVER))
    await front.start()
    try:
        await asyncio.wait_for(front.wait_ready(), 30)
        pid, asked = front.pid, front._send
        questions = []
        front._send = lambda command: (questions.append(command), asked(command))[1]
        async with asyncio.timeout(30):
            while questions.count(Ping()) < 4:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        assert (front.pid, front.counts.engine_restarts) == (pid, 0)
    finally:
        await front.stop()
