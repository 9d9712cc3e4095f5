"""Workers that are killed at any point leave their place to the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from handlers.worker_pool import WorkerLimits, WorkerPool, WorkerTooSlow


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    """One worker, which never ends its answer."""
    made = WorkerPool("tests.handlers.half_answer_worker", WorkerLimits(1, 0.5, 60.0, 1 << 30))
    yield made
    await made.close()


async def busy() -> None:
    """Keep the loop busy, so that what comes from a pipe and the end of a time are seen at once."""
    while True:
        time.sleep(0.05)  # noqa: ASYNC251 - the loop is to be blocked
        await asyncio.sleep(0)


async def test_a_worker_that_is_killed_in_the_middle_of_a_large_answer_gives_its_place_back(pool: WorkerPool) -> None:
    """Reading has paused just then. Both requests are told that their time was over: the place was free again."""
    blocker = asyncio.create_task(busy())
    try:
        for _ in range(2):
            async with asyncio.timeout(60):
                with pytest.raises(WorkerTooSlow):
                    await pool.ask({})
    finally:
        blocker.cancel()
