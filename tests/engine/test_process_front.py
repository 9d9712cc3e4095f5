"""The engine in a process of its own: answers, death and restart, load failures, and the parent's death."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from engine.front import EngineSpec, HangLimits, Limits, ProcessFront, RestartPolicy
from engine.mock_front import MockFront
from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.output import merge_deltas
from engine.types import EngineError, Request, SamplingParams

MOCK = EngineSpec("engine.mock:make_executor")
ENDLESS = 10**9


def request(prompt="Hello", **sampling):
    """A request for the built-in tokenizer."""
    sampling.setdefault("max_tokens", 20)
    return Request("r", tuple(mock_tokenizer().encode(prompt, add_special_tokens=False)), SamplingParams(**sampling))


async def whole(generation):
    """The answer's choices, joined; sums are rounded, since rounds may be added up in another grouping."""
    choices = merge_deltas([deltas async for deltas in generation])
    return [replace(choice, logprob_sum=round(choice.logprob_sum, 9)) for choice in choices]


@asynccontextmanager
async def started(spec=MOCK, **options):
    """A front whose process has been started."""
    front = ProcessFront(mock_tokenizer(), spec, **options)
    await front.start()
    try:
        yield front
    finally:
        await front.stop()


def gone(pid, seconds=10.0):
    """Whether a process ends within that time."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


async def test_both_fronts_give_the_same_answers():
    """Sampling, logprobs, several choices and beams cross the process boundary unchanged."""
    requests = [
        request(seed=7),
        request(n=3, logprobs=2),
        request(n=2, use_beam_search=True),
        request("你好", temperature=0.0),
    ]
    local = MockFront()
    await local.start()
    async with started() as front:
        await front.wait_ready()
        assert front.info == local.info
        for sent in requests:
            assert await whole(front.submit(sent)) == await whole(local.submit(sent))
    await local.stop()


async def test_statistics_cross_the_boundary():
    """One entry a round, with the engine's own measurements."""
    async with started(EngineSpec("engine.mock:make_executor", {"step_delay_s": 0.01})) as front:
        await front.wait_ready()
        generation = front.submit(request(max_tokens=3, ignore_eos=True))
        await whole(generation)
        assert generation.stats.batch_size == [1, 1, 1]
        assert [round_ms >= 10 for round_ms in generation.stats.round_ms] == [True] * 3
        assert [0 <= wait_us < 5_000_000 for wait_us in generation.stats.queue_wait_us] == [True] * 3


async def test_while_it_loads_requests_are_refused():
    """start returns before the model is there."""
    async with started() as front:
        assert (front.state, front.info) == ("loading", None)
        with pytest.raises(EngineError) as caught:
            front.submit(request())
        assert caught.value.code == "loading"
        await front.wait_ready()
        assert front.state == "ready"


async def test_a_cancelled_request_frees_the_batch():
    """A batch of one is held by an endless request; when that is cancelled, the next one runs."""
    async with started(limits=Limits(max_batch_size=1)) as front:
        await front.wait_ready()
        endless = front.submit(request(max_tokens=ENDLESS, ignore_eos=True))
        await anext(endless)
        queued = front.submit(request(max_tokens=2, ignore_eos=True))
        endless.cancel()
        (choice,) = await asyncio.wait_for(whole(queued), 10)
        assert choice.token_count == 2


async def test_a_killed_engine_fails_its_requests_and_is_started_again():
    """kill -9: running and queued requests get engine_down at once, and the next process serves."""
    async with started(limits=Limits(max_batch_size=1)) as front:
        await front.wait_ready()
        first_pid = front.pid
        running = front.submit(request(max_tokens=ENDLESS, ignore_eos=True))
        queued = front.submit(request())
        await anext(running)
        os.kill(first_pid, signal.SIGKILL)
        for generation in (running, queued):
            with pytest.raises(EngineError) as caught:
                await asyncio.wait_for(whole(generation), 10)
            assert caught.value.code == "engine_down"
        assert front.state in ("down", "loading")
        await asyncio.wait_for(front.wait_ready(), 30)
        assert front.pid != first_pid
        assert (await whole(front.submit(request(max_tokens=2, ignore_eos=True))))[0].token_count == 2


async def test_an_engine_that_dies_again_and_again_stays_down():
    """The second death within the window is the last: the failure says so, and requests are refused."""
    async with started(restart=RestartPolicy(max_deaths=2)) as front:
        for _ in range(2):
            await asyncio.wait_for(front.wait_ready(), 30)
            answer = asyncio.create_task(whole(front.submit(request(max_tokens=ENDLESS, ignore_eos=True))))
            os.kill(front.pid, signal.SIGKILL)
            with pytest.raises(EngineError):
                await asyncio.wait_for(answer, 10)
        assert await asyncio.wait_for(front.wait_lost(), 30) == "deaths"
        assert front.state == "down"
        assert front.failure == (
            "The engine process ended 2 times within 5 minutes and is not started again; the last one was ended by "
            "SIGKILL (as the system does when memory is short)."
        )
        with pytest.raises(EngineError) as caught:
            front.submit(request())
        assert caught.value.code == "engine_down"


async def test_a_model_that_cannot_be_loaded_leaves_the_front_down_with_the_reason():
    """The first load is not tried twice; its own sentence is the failure."""
    async with started(EngineSpec("fake_executor:refusing")) as front:
        with pytest.raises(EngineError, match=r"^The model folder is empty\.$") as caught:
            await asyncio.wait_for(front.wait_ready(), 30)
        assert caught.value.code == "engine_down"
        assert (front.state, front.failure) == ("down", "The model folder is empty.")


async def test_numeric_libraries_do_not_keep_something_for_every_number_of_rows(monkeypatch):
    """Both caches are bounded before anything is imported, unless the operator has done so."""
    monkeypatch.delenv("LRU_CACHE_CAPACITY", raising=False)
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    async with started(EngineSpec("fake_executor:telling_its_caches")) as front:
        with pytest.raises(EngineError, match=r"^64 7$"):
            await asyncio.wait_for(front.wait_ready(), 30)


async def test_a_process_that_dies_while_it_loads_is_tried_again_and_given_up():
    """wait_ready waits for the tries and then raises."""
    async with started(EngineSpec("fake_executor:dying"), restart=RestartPolicy(max_deaths=2)) as front:
        with pytest.raises(EngineError, match="2 times"):
            await asyncio.wait_for(front.wait_ready(), 30)


async def test_a_loading_engine_can_say_what_it_does():
    """A factory with on_progress gets a function for sentences."""
    async with started(EngineSpec("fake_executor:talking")) as front:
        await asyncio.wait_for(front.wait_ready(), 30)
        assert front.progress == "Half of the weights are read."


async def test_a_silent_load_is_spoken_of(monkeypatch, caplog):
    """After a minute, here a tenth of a second, with what the engine said last."""
    monkeypatch.setattr("engine.process_front._REMINDED_S", 0.1)
    front = ProcessFront(
        mock_tokenizer(), EngineSpec("fake_executor:waiting_for_ever"), hang=HangLimits(0.1, 1e6), stop_grace_s=0.0
    )
    await front.start()
    try:
        async with asyncio.timeout(30):
            while "it said last: The engine process has started." not in caplog.text:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        assert "has been silent" in caplog.text
    finally:
        await front.stop()


async def test_a_failed_round_is_an_internal_error_and_the_process_goes_on():
    """The same process answers the next request."""
    async with started(EngineSpec("engine.mock:make_executor", {"fail_at": 3})) as front:
        await front.wait_ready()
        pid = front.pid
        with pytest.raises(EngineError) as caught:
            await whole(front.submit(request(max_tokens=9, ignore_eos=True)))
        assert caught.value.code == "internal"
        assert (await whole(front.submit(request(max_tokens=2, ignore_eos=True))))[0].token_count == 2
        assert front.pid == pid


async def test_draining_then_stopping_ends_the_process():
    """The running answer is whole, and nothing is left behind."""
    async with started() as front:
        await front.wait_ready()
        pid = front.pid
        answer = asyncio.create_task(whole(front.submit(request(max_tokens=50, ignore_eos=True))))
        await asyncio.sleep(0)
        await front.drain(30)
        assert (await answer)[0].token_count == 50
        await front.stop()
        assert gone(pid)


async def test_stop_signals_to_the_whole_group_leave_the_engine_to_its_front():
    """Ctrl-C or a service manager reaches the engine too; it goes on until the front says so."""
    async with started() as front:
        await front.wait_ready()
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(front.pid, number)
        assert (await whole(front.submit(request(max_tokens=2, ignore_eos=True))))[0].token_count == 2


async def test_an_engine_that_does_not_listen_is_killed():
    """A stopped (SIGSTOP) process cannot obey; after the grace time it is gone all the same."""
    async with started(stop_grace_s=0.1) as front:
        await front.wait_ready()
        pid = front.pid
        os.kill(pid, signal.SIGSTOP)
        await front.stop()
        assert gone(pid)


async def test_commands_to_an_engine_that_does_not_read_do_not_block_the_loop():
    """Far more than a socket buffer is submitted to a stopped process; it all arrives when that goes on."""
    async with started(limits=Limits(max_batch_size=1)) as front:
        await front.wait_ready()
        os.kill(front.pid, signal.SIGSTOP)
        prompt = "long prompt " * 20_000
        generations = [front.submit(request(prompt, max_tokens=1, ignore_eos=True)) for _ in range(20)]
        os.kill(front.pid, signal.SIGCONT)
        answers = await asyncio.wait_for(asyncio.gather(*map(whole, generations)), 30)
        assert [choices[0].token_count for choices in answers] == [1] * 20


PARENT = """
import asyncio
from engine.front import EngineSpec, ProcessFront
from engine.text.byte_tokenizer import mock_tokenizer

async def main():
    front = ProcessFront(mock_tokenizer(), EngineSpec("engine.mock:make_executor"))
    await front.start()
    await front.wait_ready()
    print(front.pid, flush=True)
    {then}

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("ends", ["killed", "returns"])
def test_the_engine_ends_with_its_parent(tmp_path, ends):
    """A parent that is killed, or that forgets to stop its front, leaves no engine process behind."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(then="await asyncio.Event().wait()" if ends == "killed" else "pass"))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment)
    pid = int(parent.stdout.readline())
    if ends == "killed":
        parent.kill()
    parent.wait(timeout=20)
    assert gone(pid)
    parent.stdout.close()


async def test_an_engine_may_begin_before_there_is_a_loop_to_listen_in():
    """``start`` takes over the process that ``begin`` started, and what it said meanwhile."""
    said = []
    front = ProcessFront(mock_tokenizer(), MOCK, on_progress=said.append)
    await asyncio.to_thread(front.begin)
    begun = front._begun.pids[0]
    await front.start()
    try:
        await front.wait_ready()
        assert front.pid == begun
        assert said == ["The engine process has started."]
        assert len(await whole(front.submit(request()))) == 1
    finally:
        await front.stop()


def test_an_engine_that_was_begun_ends_with_a_front_that_never_starts():
    """As where the address turns out to be taken."""
    script = """
from engine.front import EngineSpec, ProcessFront
from engine.text.byte_tokenizer import mock_tokenizer
if __name__ == "__main__":
    front = ProcessFront(mock_tokenizer(), EngineSpec("engine.mock:make_executor"))
    front.begin()
    print(front._begun.pids[0])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert gone(int(done.stdout))
