"""The health checks in each state of the engine, and the probe that tells busy from abnormal."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from in_process import started

from engine.front import EngineSpec, ProcessFront, RestartPolicy
from engine.mock_front import MockFront
from engine.scheduler import Limits
from engine.text.byte_tokenizer import mock_tokenizer
from handlers.health_limits import HealthLimits
from handlers.service import Service
from handlers.settings import Settings

LIVE, READY, MODEL_READY = "/v2/health/live", "/v2/health/ready", "/v2/models/mock/ready"
ENDLESS = {"model": "mock", "prompt": "hello", "max_tokens": 10**6, "ignore_eos": True}
BUSY = {"message": "Service is alive but busy"}
NOT_READY_BUT_BUSY = {"message": "Service is alive but busy. Consider reducing request frequency"}
ABNORMAL = {"message": "Service is abnormal"}
ROOMY = 10**7


async def seen(client: httpx.AsyncClient) -> dict[str, Any]:
    """Status and body of each check; None for an empty body."""
    found = {}
    for path in (LIVE, READY, MODEL_READY, "/health", "/health/timed-1"):
        answer = await client.get(path)
        found[path] = (answer.status_code, answer.json() if answer.content else None)
    return found


def statuses(found: dict[str, Any]) -> tuple[int, ...]:
    """Of live, ready, the model's ready, /health and /health/timed-1."""
    return tuple(status for status, _ in found.values())


def mock(**front: Any) -> Service:
    """A service on a mock with room for long answers."""
    return Service(Settings("mock", max_iter_times=10**6), MockFront(max_position_embeddings=ROOMY, **front))


async def until(condition: Callable[[], Any]) -> None:
    """Wait for what nobody tells."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_server_that_serves_is_live_ready_and_healthy() -> None:
    """MindIE's bodies: empty ones where there is nothing to say."""
    async with started(mock()) as client:
        assert await seen(client) == {
            LIVE: (200, None),
            READY: (200, None),
            MODEL_READY: (200, None),
            "/health": (200, {"status": "ready"}),
            "/health/timed-1": (200, {"status": "healthy"}),
        }
        assert (await client.get("/health/timed")).json() == {"status": "healthy"}


async def test_an_unknown_model_is_never_ready() -> None:
    """404, as GET /v1/models/{model} says it."""
    async with started(mock()) as client:
        answer = await client.get("/v2/models/other/ready")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("seconds", ["0", "601", "-1", "1.5", "x", "", "9" * 40, "1/2"])
async def test_a_deadline_outside_1_to_600_is_no_path(seconds: str) -> None:
    """404 for each."""
    async with started(mock()) as client:
        assert (await client.get(f"/health/timed-{seconds}")).status_code == 404


async def test_a_loading_server_is_live_but_not_ready() -> None:
    """The engine process has been started, and no token has come from it."""
    front = ProcessFront(mock_tokenizer(), EngineSpec("tests.engine.fake_executor:waiting_for_ever"), stop_grace_s=0.1)
    async with started(Service(Settings("mock"), front)) as client:
        found = await seen(client)
        timed = await client.get("/health/timed-1")

    assert statuses(found) == (200, 503, 503, 503, 500)
    assert (found[READY][1], found["/health"][1]) == (None, {"status": "loading"})
    assert timed.json()["code"] == "loading"


async def test_a_server_is_not_ready_before_a_token_has_come() -> None:
    """The model is loaded, and its first step never ends."""
    front = ProcessFront(mock_tokenizer(), EngineSpec("tests.engine.fake_executor:blocking_at_once"), stop_grace_s=0.1)
    async with started(Service(Settings("mock"), front)) as client:
        await until(lambda: front.info is not None)
        found = await seen(client)

    assert statuses(found) == (200, 503, 503, 503, 500)


async def test_a_draining_server_is_live_but_not_ready() -> None:
    """Readiness falls as soon as the drain begins, while a request still runs."""
    service = mock(step_delay_s=0.005)
    async with started(service) as client:
        running = asyncio.create_task(client.post("/v1/completions", json=ENDLESS))
        await until(lambda: service.front.counts.generated_tokens)
        service.ending.begin(60.0)
        await asyncio.sleep(0)
        found = await seen(client)
        refused = await client.post("/v1/completions", json=ENDLESS)
        service.ending.hurry()
        answer = await running

    assert statuses(found) == (200, 503, 503, 503, 500)
    assert found["/health"][1] == {"status": "draining"}
    assert (refused.status_code, refused.json()["code"]) == (503, "stopping")
    assert (answer.status_code, answer.json()["code"]) == (503, "stopping")


async def test_a_server_whose_engine_is_started_again_stays_live() -> None:
    """After kill -9: not ready until the new engine has generated a token, live all the while."""
    front = ProcessFront(mock_tokenizer(), EngineSpec("engine.mock:make_executor"))
    async with started(Service(Settings("mock"), front)) as client:
        await front.wait_ready()
        assert front.pid is not None
        os.kill(front.pid, signal.SIGKILL)
        await until(lambda: front.state != "ready")
        found = await seen(client)
        await front.wait_ready()
        again = await seen(client)

    assert statuses(found) == (200, 503, 503, 503, 500)
    assert statuses(again) == (200, 200, 200, 200, 200)


async def test_a_server_whose_engine_is_given_up_is_not_live() -> None:
    """Here after the first death."""
    spec = EngineSpec("engine.mock:make_executor")
    front = ProcessFront(mock_tokenizer(), spec, restart=RestartPolicy(max_deaths=1))
    async with started(Service(Settings("mock"), front)) as client:
        await front.wait_ready()
        assert front.pid is not None
        os.kill(front.pid, signal.SIGKILL)
        assert await asyncio.wait_for(front.wait_lost(), 30) == "deaths"
        found = await seen(client)

    assert statuses(found) == (500, 503, 503, 503, 500)
    assert found[LIVE][1] == ABNORMAL


async def test_a_full_server_passes_the_timed_check() -> None:
    """One place in the batch, no place in the queue: a request gets 429, the check its token."""
    service = mock(step_delay_s=0.001, limits=Limits(max_batch_size=1, max_queue=0))
    async with started(service) as client:
        running = asyncio.create_task(client.post("/v1/completions", json=ENDLESS))
        await until(lambda: service.front.counts.generated_tokens)
        refused = await client.post("/v1/completions", json=ENDLESS)
        timed = await client.get("/health/timed-30")
        service.ending.begin(0.0)
        await running

    assert refused.status_code == 429
    assert (timed.status_code, timed.json()) == (200, {"status": "healthy"})


async def test_a_probe_counts_as_nobodys_request() -> None:
    """No running request, no tokens in the counts."""
    service = mock()
    async with started(service) as client:
        await client.get("/health/timed-30")

    assert (service.front.running, service.front.counts.prompt_tokens, service.front.counts.generated_tokens) == (
        0,
        0,
        0,
    )


@pytest.mark.parametrize(
    ("threshold", "live", "ready", "health"),
    [
        (50, (200, BUSY), (503, NOT_READY_BUT_BUSY), "busy"),
        (51, (500, ABNORMAL), (500, ABNORMAL), "abnormal"),
    ],
)
async def test_a_failed_probe_is_busy_from_the_threshold_on_and_abnormal_below(
    threshold: int, live: Any, ready: Any, health: str
) -> None:
    """One of two places of the batch is taken: a load of 50 %; the engine takes too long for a token."""
    front = MockFront(limits=Limits(max_batch_size=2), max_position_embeddings=ROOMY, step_delay_s=0.002)
    limits = HealthLimits(threshold, probe_interval_s=10**6, probe_timeout_s=0.1)
    service = Service(Settings("mock", max_iter_times=10**6, health=limits), front)
    async with started(service) as client:
        running = asyncio.create_task(client.post("/v1/completions", json=ENDLESS))
        await until(lambda: front.counts.generated_tokens)
        await service.probe.look()
        before = service.probe.verdict
        front.step_delay_s = 10.0
        await service.probe.look()
        found = await seen(client)
        service.ending.begin(0.0)
        await running

    assert before == "healthy"
    assert (found[LIVE], found[READY], found[MODEL_READY]) == (live, ready, ready)
    assert (found["/health"][0], found["/health"][1]["status"]) == (503, health)


async def test_the_probe_runs_by_itself_where_there_is_a_threshold() -> None:
    """And passes."""
    limits = HealthLimits(10, probe_interval_s=0.01)
    service = Service(Settings("mock", health=limits), MockFront())
    service.probe.verdict = "abnormal"
    async with started(service):
        await until(lambda: service.probe.verdict == "healthy")
