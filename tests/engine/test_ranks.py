"""An engine of several ranks: whichever dies or hangs, the instance ends, is reported and is started again."""

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

from engine.executor import RankLost
from engine.front import EngineSpec, HangLimits, ProcessFront, RestartPolicy
from engine.process import divided
from engine.silence import Silence
from engine.text.byte_tokenizer import mock_tokenizer
from engine.types import EngineError, Request, SamplingParams

SPEC = EngineSpec("tests.engine.fake_ranks:leading", ranks=3, follower="tests.engine.fake_ranks:following")
NEVER = 1e6
IMPATIENT = HangLimits(0.4, NEVER)
ENDLESS = Request("r", (1,), SamplingParams(max_tokens=10**9))


@asynccontextmanager
async def started(spec=SPEC, **options):
    """A front whose engine is ready."""
    front = ProcessFront(mock_tokenizer(), spec, **options)
    await front.start()
    try:
        await asyncio.wait_for(front.wait_ready(), 60)
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


async def ended(answer):
    """The error that an endless answer ends in."""
    with pytest.raises(EngineError) as caught:
        await asyncio.wait_for(asyncio.create_task(exhausted(answer)), 30)
    return caught.value


async def exhausted(answer):
    """Read an answer until it ends."""
    async for _ in answer:
        pass


async def restarted(front):
    """Wait for the next engine."""
    async with asyncio.timeout(60):
        while not front.counts.engine_restarts:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    await asyncio.wait_for(front.wait_ready(), 60)


@pytest.mark.parametrize(
    ("rank", "said"),
    [(0, "the engine process was ended by SIGKILL"), (2, "lost its rank 2, which was ended by SIGKILL")],
)
async def test_the_death_of_any_rank_ends_the_instance(caplog, rank, said):
    """kill -9 in the middle of a request: it gets engine_down, the log says who died, no rank is left, others come."""
    async with started() as front:
        pids = front.pids
        assert len(set(pids)) == 3
        answer = front.submit(ENDLESS)
        await anext(answer)
        os.kill(pids[rank], signal.SIGKILL)
        assert (await ended(answer)).code == "engine_down"
        await restarted(front)
        assert said in caplog.text
        assert all(map(gone, pids))
        assert not set(front.pids) & set(pids)
        await anext(front.submit(ENDLESS))


async def test_a_rank_that_dies_while_nothing_runs_is_noticed():
    """No request is needed for it."""
    async with started() as front:
        os.kill(front.pids[1], signal.SIGKILL)
        await restarted(front)


@pytest.mark.parametrize("running", [True, False])
async def test_a_stopped_rank_is_a_hang(running):
    """SIGSTOP of a follower, with a request and without: the first rank waits for it, so all are killed."""
    async with started(hang=IMPATIENT) as front:
        pids = front.pids
        answer = front.submit(ENDLESS) if running else None
        if answer is not None:
            await anext(answer)
        os.kill(pids[1], signal.SIGSTOP)
        if answer is not None:
            error = await ended(answer)
            assert (error.code, "did not answer any more" in error.message) == ("engine_down", True)
        await restarted(front)
        assert all(map(gone, pids))


async def test_a_rank_that_cannot_load_says_why():
    """As the first one's own failure does, it comes with the reason and is not tried again."""
    front = ProcessFront(
        mock_tokenizer(),
        EngineSpec(
            "tests.engine.fake_ranks:leading", ranks=2, follower="tests.engine.fake_ranks:refusing", trace=False
        ),
    )
    await front.start()
    try:
        with pytest.raises(EngineError, match=r"^Rank 1: There is no such NPU\.$"):
            await asyncio.wait_for(front.wait_ready(), 60)
        assert (front.lost, front.counts.engine_restarts) == ("device", 0)
    finally:
        await front.stop()


async def test_a_rank_that_dies_while_it_loads_is_tried_again_and_given_up():
    """As the first one would be: it said no reason, so that another try may do better."""
    spec = replace(SPEC, ranks=2, follower="tests.engine.fake_ranks:dying", trace=False)
    front = ProcessFront(mock_tokenizer(), spec, restart=RestartPolicy(max_deaths=2))
    await front.start()
    try:
        with pytest.raises(EngineError, match=r"ended 2 times .* lost its rank 1, which ended with exit code 3\.$"):
            await asyncio.wait_for(front.wait_ready(), 60)
    finally:
        await front.stop()


async def test_ranks_that_die_again_and_again_are_given_up_with_the_last_cause():
    """The second death is the last."""
    async with started(restart=RestartPolicy(max_deaths=2)) as front:
        os.kill(front.pids[1], signal.SIGKILL)
        await restarted(front)
        os.kill(front.pids[2], signal.SIGKILL)
        assert await asyncio.wait_for(front.wait_lost(), 60) == "deaths"
        assert front.failure.endswith("the last one lost its rank 2, which was ended by SIGKILL (as the system does "
                                      "when memory is short).")  # fmt: skip


async def test_a_front_that_stops_ends_all_ranks():
    """Also one that is stopped and cannot obey."""
    async with started(stop_grace_s=0.5) as front:
        pids = front.pids
        os.kill(pids[2], signal.SIGSTOP)
        await front.stop()
        assert all(map(gone, pids))


def test_ranks_end_with_their_parent(tmp_path):
    """A server that is killed leaves none behind."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio\n"
        "from engine.front import ProcessFront\n"
        "from engine.text.byte_tokenizer import mock_tokenizer\n"
        "from tests.engine.test_ranks import SPEC\n"
        "async def main():\n"
        "    front = ProcessFront(mock_tokenizer(), SPEC)\n"
        "    await front.start()\n"
        "    await front.wait_ready()\n"
        "    print(*front.pids, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    parent.kill()
    parent.wait(timeout=20)
    assert len(pids) == 3
    assert all(map(gone, pids))
    parent.stdout.close()


def test_ranks_share_cores_and_not_the_memory_of_their_devices():
    """Two engines of two ranks on eight cores: two threads each, and half of a device's memory for each engine."""
    spec = divided(EngineSpec("m:f", threads=8, ranks=2), 2)
    assert (spec.threads, spec.memory_share) == (2, 0.5)
    assert divided(EngineSpec("m:f", threads=8, ranks=2), 1).threads == 4


@pytest.mark.parametrize(("other", "hangs"), [([5.0] * 5, True), ([5.0, 5.1, 5.2, 5.3, 5.4], False)])
def test_one_rank_that_stands_still_is_a_hang_although_another_waits_actively(other, hangs):
    """Four looks of 2 s each after the first; the first rank uses a little time in any case."""
    silence = Silence(HangLimits(hang_timeout_s=8, step_limit_s=NEVER))
    verdicts = [
        silence.hangs(owes=True, loading=False, cpu_s=1 + look / 100, others_cpu_s=[cpu_s])
        for look, cpu_s in enumerate(other)
    ]
    assert verdicts == [False] * 4 + [hangs]


def test_a_lost_rank_fails_no_single_round():
    """The scheduler lets it through: what has failed is the instance, which the front reports."""
    from engine.scheduler import Scheduler
    from tests.engine.fake_executor import FakeExecutor

    class Losing(FakeExecutor):
        def step(self):
            raise RankLost("rank 1 is gone")

    scheduler = Scheduler(Losing(), 4)
    scheduler.submit(ENDLESS, 0)
    with pytest.raises(RankLost, match="rank 1 is gone"):
        scheduler.run_round()
