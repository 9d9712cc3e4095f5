"""Ids of requests: RequestUUID, X-Request-Id, traceparent, and a req-id that is in use."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import httpx
import pytest
from in_process import started

from handlers.live_requests import LiveRequests
from handlers.record import Record, usable_trace
from handlers.service import Service

CHAT = "/v1/chat/completions"
HELLO = {"model": "mock", "messages": [{"role": "user", "content": "hello"}], "ignore_eos": True, "max_tokens": 5}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ServiceFor = Callable[..., Service]


async def test_every_answer_has_a_uuid_of_its_own(service_for: ServiceFor) -> None:
    """Answers whole and streamed, refusals, paths that there are not, and the metrics."""
    async with started(service_for()) as client:
        answers = [
            await client.post(CHAT, json=HELLO),
            await client.post(CHAT, json={**HELLO, "stream": True}),
            await client.post(CHAT, json={"model": "mock"}),
            await client.get("/nope"),
            await client.get("/health"),
            await client.get("/metrics"),
            await client.get(CHAT),
        ]

    ids = [answer.headers["RequestUUID"] for answer in answers]
    assert len(set(ids)) == len(answers)
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", each) for each in ids)


@pytest.mark.parametrize(
    ("sent", "echoed"), [("abc 1", "abc 1"), ("x" * 256, "x" * 256), ("x" * 257, None), ("é", None), ("", None)]
)
async def test_an_x_request_id_is_echoed_where_it_is_usable(
    service_for: ServiceFor, sent: str, echoed: str | None
) -> None:
    """Printable ASCII, at most 256 characters; in answers and in refusals."""
    async with started(service_for()) as client:
        headers = {"X-Request-Id": sent.encode("latin-1")}
        for body in (HELLO, {}):
            answer = await client.post(CHAT, json=body, headers=headers)
            assert answer.headers.get("X-Request-Id") == echoed


@pytest.mark.parametrize(
    ("sent", "valid"),
    [
        (TRACE, True),
        ("cc" + TRACE[2:] + "-what-comes-later", True),
        ("cc" + TRACE[2:], True),
        (TRACE + "-more", False),
        (TRACE.upper(), False),
        ("ff" + TRACE[2:], False),
        ("00-" + "0" * 32 + TRACE[35:], False),
        (TRACE[:36] + "0" * 16 + "-01", False),
        (TRACE[:-1], False),
        ("", False),
    ],
)
async def test_a_traceparent_is_passed_on_where_it_is_valid(service_for: ServiceFor, sent: str, valid: bool) -> None:
    """As W3C's Trace Context defines it: others are as if there were none."""
    assert usable_trace(sent.encode()) == (sent if valid else None)
    async with started(service_for()) as client:
        answer = await client.post(CHAT, json=HELLO, headers={"traceparent": sent})

    assert answer.headers.get("traceparent") == (sent if valid else None)


async def test_a_req_id_that_is_in_use_is_refused(service_for: ServiceFor) -> None:
    """422 duplicate_id for the second, on both endpoints; the first is not disturbed, and its id is free afterwards."""
    service = service_for({"step_delay_s": 0.001}, max_iter_times=10**6)
    headers = {"req-id": "mine"}
    async with started(service) as client:
        first = asyncio.create_task(client.post(CHAT, json={**HELLO, "max_tokens": 200}, headers=headers))
        async with asyncio.timeout(30):
            while service.live.find("mine") is None:  # noqa: ASYNC110 - the first is on its way
                await asyncio.sleep(0)
        for path, body in ((CHAT, HELLO), ("/v1/completions", {"model": "mock", "prompt": "a"})):
            second = await client.post(path, json=body, headers=headers)
            assert second.status_code == 422
            assert second.json() == {
                "error": "Another request with this req-id is still being answered; send a new one, or none, and the "
                "server numbers it",
                "error_type": "Input Validation Error",
                "param": "req-id",
                "code": "duplicate_id",
            }
        assert (await first).json()["id"] == "mine"
        assert (await client.post(CHAT, json=HELLO, headers=headers)).json()["id"] == "mine"


@pytest.mark.parametrize("body", [HELLO, {**HELLO, "stream": True}, {"model": "mock"}, {**HELLO, "model": "other"}])
async def test_an_id_is_free_again_however_its_request_ended(service_for: ServiceFor, body: dict[str, object]) -> None:
    """Answered, streamed, refused."""
    service = service_for()
    async with started(service) as client:
        statuses = {(await client.post(CHAT, json=body, headers={"req-id": "a"})).status_code for _ in range(3)}

    assert len(statuses) == 1
    assert len(service.live) == 0


async def test_an_id_is_free_after_an_engine_failure_and_a_drain(service_for: ServiceFor) -> None:
    """A failed round and a cut stream give ids back as well."""
    service = service_for({"fail_at": 2})
    async with started(service) as client:
        assert (await client.post(CHAT, json=HELLO, headers={"req-id": "a"})).status_code == 500
        assert len(service.live) == 0
        running = asyncio.create_task(client.post(CHAT, json={**HELLO, "max_tokens": 8}, headers={"req-id": "a"}))
        await asyncio.sleep(0)
        await service.front.drain(0)
        await running

    assert len(service.live) == 0


def test_the_servers_own_numbers_avoid_ids_that_are_in_use() -> None:
    """A client may call itself endpoint_common_1."""
    live = LiveRequests()
    clients, ours = Record(request_id="endpoint_common_1"), Record()
    live.enter(clients)
    live.enter(ours)

    assert (clients.duplicate, ours.request_id) == (False, "endpoint_common_2")


def test_a_duplicate_does_not_take_the_id_away() -> None:
    """When the second leaves, the first still has it."""
    live = LiveRequests()
    first, second = Record(request_id="a"), Record(request_id="a")
    live.enter(first)
    live.enter(second)
    live.leave(second)

    assert second.duplicate
    assert live.find("a") is first


async def test_of_two_req_ids_the_last_counts(service_for: ServiceFor) -> None:
    """A header that comes twice is not refused."""
    async with started(service_for()) as client:
        headers = httpx.Headers([("req-id", "a"), ("req-id", "b")])
        assert (await client.post(CHAT, json=HELLO, headers=headers)).json()["id"] == "b"
