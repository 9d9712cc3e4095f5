"""GET /metrics over the whole chain: names and values, what is counted, and where it is served at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from in_process import started
from prometheus_client.parser import text_string_to_metric_families

from engine.mock_front import MockFront
from engine.scheduler import Limits
from engine.stats import EngineStats, ExecutorStats, MemoryStats
from handlers.metrics import MetricsMiddleware
from handlers.service import Service
from handlers.settings import Settings

HELLO = {"model": "mock", "messages": [{"role": "user", "content": "hello"}], "ignore_eos": True, "max_tokens": 5}
ServiceFor = Callable[..., Service]


async def values(client: httpx.AsyncClient) -> dict[str, float]:
    """Every sample, by its name and its labels' values."""
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found[" ".join([sample.name.removeprefix("mindspec_"), *sample.labels.values()])] = sample.value
    return found


async def test_a_server_that_did_nothing_says_zero(service_for: ServiceFor) -> None:
    """Everything that there is; pages are missing, because the mock engine has none."""
    async with started(service_for()) as client:
        found = await values(client)

    states = {name for name in found if name.startswith("engine_state")}
    assert {name: found.pop(name) for name in states} == {
        "engine_state loading": 0,
        "engine_state ready": 1,
        "engine_state draining": 0,
        "engine_state down": 0,
    }
    names = ["requests_running", "requests_waiting", "sequences_running", "sequences_waiting", "preemptions_total"]
    names += ["prompt_tokens_total", "generated_tokens_total", "engine_restarts_total"]
    names += ["draft_tokens_total", "draft_tokens_accepted_total"]
    assert found == dict.fromkeys(names, 0)


async def test_answers_are_counted_by_endpoint_and_status(service_for: ServiceFor) -> None:
    """A name in a path does not become a label, and neither does a path that does not exist."""
    async with started(service_for()) as client:
        for body in (HELLO, HELLO, {**HELLO, "stream": True}, {**HELLO, "n": 0}):
            await client.post("/v1/chat/completions", json=body)
        for path in ("/v1/models", "/v1/models/mock", "/v1/models/a/b", "/nope", "/nope/more", "/health"):
            await client.get(path)
        found = await values(client)

    assert {name: value for name, value in found.items() if name.startswith("requests_total")} == {
        "requests_total /v1/chat/completions 200": 3,
        "requests_total /v1/chat/completions 422": 1,
        "requests_total /v1/models 200": 1,
        "requests_total /v1/models/{model} 200": 1,
        "requests_total /v1/models/{model} 404": 1,
        "requests_total other 404": 2,
        "requests_total /health 200": 1,
    }


async def test_tokens_are_those_of_the_answers_usage(service_for: ServiceFor) -> None:
    """Three choices of five tokens, after a prompt that is counted once."""
    async with started(service_for()) as client:
        body = {**HELLO, "n": 3, "best_of": 3, "temperature": 1}
        usage = (await client.post("/v1/chat/completions", json=body)).json()["usage"]
        found = await values(client)

    assert (found["prompt_tokens_total"], found["generated_tokens_total"]) == (usage["prompt_tokens"], 15)


async def test_running_and_waiting_requests_are_told_apart(service_for: ServiceFor) -> None:
    """A batch of one: of three requests one runs."""
    service = service_for({"limits": Limits(max_batch_size=1), "step_delay_s": 0.01}, max_iter_times=10**6)
    body = {**HELLO, "max_tokens": 10**6}
    async with started(service) as client:
        asked = [asyncio.create_task(client.post("/v1/chat/completions", json=body)) for _ in range(3)]
        async with asyncio.timeout(30):
            found = await values(client)
            while found["requests_waiting"] != 2 or found["sequences_running"] != 1:
                await asyncio.sleep(0)
                found = await values(client)
        assert found["requests_running"] == 1
        await service.front.drain(0)
        await asyncio.gather(*asked)
        found = await values(client)

    assert found["requests_running"] == found["requests_waiting"] == found["sequences_running"] == 0
    assert found["engine_state draining"] == 1
    assert found["requests_total /v1/chat/completions 503"] == 3


async def test_an_engine_with_pages_shows_them(service_for: ServiceFor) -> None:
    """Cached pages are not in use."""
    service = service_for()
    async with started(service) as client:
        memory = MemoryStats(100, 20, 30, 6, 5, 400, 300)
        service.front.engine_stats = EngineStats(5, 1, True, ExecutorStats(3, 2, 1, 9, 8, 7, memory))
        found = await values(client)

    names = ("pages_in_use", "pages_cached", "pages_total", "prefix_query_tokens_total", "prefix_hit_tokens_total")
    assert [found[name] for name in names] == [20, 30, 100, 400, 300]
    assert [found[name] for name in ("sequences_running", "sequences_waiting", "preemptions_total")] == [3, 2, 9]
    assert [found[name] for name in ("draft_tokens_total", "draft_tokens_accepted_total")] == [8, 7]


async def test_another_method_is_refused(service_for: ServiceFor) -> None:
    """405 in the contract's form, and Allow."""
    async with started(service_for()) as client:
        answer = await client.post("/metrics", json={})

    assert (answer.status_code, answer.json()["code"], answer.headers["allow"]) == (405, "method_not_allowed", "GET")


@pytest.mark.parametrize(
    ("settings", "served"),
    [
        ({}, True),
        ({"host": "::1"}, True),
        ({"host": "localhost"}, True),
        ({"host": "127.0.0.2"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "server.example"}, False),
        ({"host": "0.0.0.0", "metrics": True}, True),
        ({"metrics": False}, False),
    ],
)
async def test_metrics_are_served_where_they_are_asked_for_or_cannot_be_reached_from_outside(
    service_for: ServiceFor, settings: dict[str, Any], served: bool
) -> None:
    """Elsewhere there is nothing at the path."""
    async with started(service_for(**settings)) as client:
        assert (await client.get("/metrics")).status_code == (200 if served else 404)


async def test_a_client_that_hung_up_is_counted_as_499() -> None:
    """There was no status to count; the error that ended the call goes on."""

    async def hung_up(*_: Any) -> None:
        raise ConnectionResetError

    app = MetricsMiddleware(hung_up, service=Service(Settings("m"), MockFront()), paths=["/health"])
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://in-process")
    with pytest.raises(ConnectionResetError):
        await client.get("/health")

    assert (await values(client))["requests_total /health 499"] == 1
    await client.aclose()
