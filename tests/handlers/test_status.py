"""GET /v1/status and getSlotCount: numbers that follow what runs, waits and is in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest
from in_process import started

from engine.mock_front import MockFront
from engine.scheduler import Limits
from engine.stats import EngineStats, ExecutorStats, MemoryStats
from handlers.engine_settings import EngineSettings
from handlers.service import Service
from handlers.settings import Settings

STATUS, SLOTS = "/v1/status", "/v2/models/mock/getSlotCount"
ENDLESS = {"model": "mock", "prompt": "hi", "ignore_eos": True, "max_tokens": 10**6}
IDLE = {
    "service": {"roleStatus": "RoleReady", "currentRole": "none"},
    "resource": {
        "availSlotsNum": 2, "availBlockNum": 20, "waitingRequestNum": 0, "runningRequestNum": 0, "swappedRequestNum": 0,
        "freeNpuBlockNums": 20, "freeCpuBlockNums": 0, "totalNpuBlockNums": 20, "totalCpuBlockNums": 0,
    },
    "linkStatus": {"peers": []},
}  # fmt: skip
"""Of two places for 100 tokens each in pages of 10."""


def small(front: type[MockFront] = MockFront) -> Service:
    """A service of two places, on a mock that keeps no pages."""
    sizes = EngineSettings(max_batch_size=2, cache_block_size=10)
    settings = Settings(model_name="mock", engine=sizes, max_seq_len=100, max_iter_times=10**6)
    return Service(settings, front(limits=Limits(max_batch_size=2, max_queue=9), step_delay_s=0.001))


async def until(holds: Callable[[], bool]) -> None:
    """Let the others on this loop run."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - the engine is on this loop
            await asyncio.sleep(0)


async def test_an_idle_server_has_all_of_its_room() -> None:
    """Every key in MindIE's order."""
    async with started(small()) as client:
        status, slots = await client.get(STATUS), await client.get(SLOTS)

    assert status.json() == IDLE
    assert [list(part) for part in status.json().values()] == [list(part) for part in IDLE.values()]
    assert slots.json() == {"total_slots": 2, "free_slots": 2, "available_tokens_length": 200}
    assert list(slots.json()) == ["total_slots", "free_slots", "available_tokens_length"]


async def test_requests_that_run_and_wait_are_counted() -> None:
    """One of two choices runs, two wait; no place is free, and no room in it."""
    service = small()
    async with started(service) as client:

        def ask(n: int) -> asyncio.Task[httpx.Response]:
            body = {**ENDLESS, "n": n, "temperature": 1, "max_tokens": 90}
            return asyncio.create_task(client.post("/v1/completions", json=body))

        tasks = [ask(2), ask(1), ask(1)]
        await until(lambda: service.front.waiting == 2 and service.front.running == 3)
        resource = (await client.get(STATUS)).json()["resource"]
        slots = (await client.get(SLOTS)).json()
        await asyncio.gather(*tasks)
        after = (await client.get(STATUS)).json()

    assert (resource["runningRequestNum"], resource["waitingRequestNum"]) == (1, 2)
    assert (resource["availSlotsNum"], resource["availBlockNum"], resource["totalNpuBlockNums"]) == (0, 0, 20)
    assert slots == {"total_slots": 2, "free_slots": 0, "available_tokens_length": 0}
    assert after == IDLE


async def test_pages_are_the_engines_where_it_keeps_some() -> None:
    """Of 50, 8 are owned and 5 are kept for their content, which are free."""
    service = small()
    async with started(service) as client:
        memory = MemoryStats(50, 8, 5, 0, 0, 0, 0)
        service.front.engine_stats = EngineStats(executor=ExecutorStats(1, memory=memory))
        resource = (await client.get(STATUS)).json()["resource"]
        slots = (await client.get(SLOTS)).json()

    pages = [resource[name] for name in ("availBlockNum", "freeNpuBlockNums", "totalNpuBlockNums")]
    assert pages == [42, 42, 50]
    assert slots["available_tokens_length"] == 420


@pytest.mark.parametrize("path", [STATUS, SLOTS])
async def test_a_server_that_serves_no_requests_has_no_status(path: str) -> None:
    """503: stopping while it drains, as inference requests get it."""
    service = small()
    async with started(service) as client:
        await service.front.drain(0)
        answer = await client.get(path)

    assert (answer.status_code, answer.json()["code"]) == (503, "stopping")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize("path", [STATUS, SLOTS])
async def test_a_server_that_loads_has_no_status(path: str) -> None:
    """503 loading."""

    class LoadingFront(MockFront):
        async def start(self) -> None:
            """Never ready."""

    async with started(small(LoadingFront)) as client:
        answer = await client.get(path)

    assert (answer.status_code, answer.json()["code"]) == (503, "loading")
