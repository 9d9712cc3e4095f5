"""Requests that take too long: tokenTimeout and e2eTimeout, in whole answers, streams and queues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from in_process import started

from engine.generation import Generation, GenerationState
from engine.mock_front import MockFront
from engine.scheduler import Limits
from engine.types import EngineError, Stats
from handlers.app import build
from handlers.running import Running, Timeouts
from handlers.service import Service

CHAT = "/v1/chat/completions"
HELLO = {"model": "mock", "messages": [{"role": "user", "content": "hello"}], "ignore_eos": True}
NEVER = 10**6
ServiceFor = Callable[..., Service]


def front_of(service: Service) -> MockFront:
    """The mock behind a service."""
    assert isinstance(service.front, MockFront)
    return service.front


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("setting", "name"), [("token_timeout", "tokenTimeout"), ("e2e_timeout", "e2eTimeout")])
async def test_an_answer_that_does_not_begin_is_a_500_timeout(
    service_for: ServiceFor, setting: str, name: str, stream: bool
) -> None:
    """An engine whose first round takes an hour: the error names the setting, and the engine has nothing left to do."""
    service = service_for({"step_delay_s": 3600}, **{setting: 0.05})
    async with started(service) as client:
        answer = await client.post(CHAT, json={**HELLO, "stream": stream})
        assert front_of(service).executor.live_sequences == 0

    assert (answer.status_code, answer.json()["code"]) == (500, "timeout")
    assert answer.json()["error_type"] == "Incomplete Generation"
    assert "within 0.05 s, " in answer.json()["error"]
    assert f"(its setting {name})" in answer.json()["error"]


async def test_who_waits_in_the_queue_is_timed_too(service_for: ServiceFor) -> None:
    """A batch of one that somebody else holds, token after token: the second request gets none."""
    limits = Limits(max_batch_size=1)
    service = service_for({"limits": limits, "step_delay_s": 0.01}, token_timeout=1, max_iter_times=NEVER)
    async with started(service) as client:
        first = asyncio.create_task(client.post(CHAT, json={**HELLO, "max_tokens": NEVER}))
        async with asyncio.timeout(30):
            while not front_of(service).counts.generated_tokens:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
        second = await client.post(CHAT, json=HELLO)
        assert (second.status_code, second.json()["code"]) == (500, "timeout")
        assert not first.done()
        await service.front.drain(0)
        await first


async def streamed(service: Service, on_event: Callable[[], None]) -> list[Any]:
    """The data of a stream's events; ``on_event`` is called as each is sent."""
    chunks: list[bytes] = []
    body = json.dumps({**HELLO, "stream": True, "max_tokens": NEVER}).encode()
    unread = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if unread:
            return unread.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            chunks.append(message["body"])
            on_event()

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": CHAT, "headers": headers, "query_string": b""}
    await service.front.start()
    await asyncio.wait_for(build(service)(scope, receive, send), 30)
    await service.front.stop()
    *data, done, rest = b"".join(chunks).decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in data]


async def test_a_stream_that_stops_ends_with_the_error_event(service_for: ServiceFor) -> None:
    """After its first event no token comes any more: text, then the error, never a finish_reason."""
    service = service_for(token_timeout=1, max_iter_times=NEVER)

    def stop() -> None:
        front_of(service).step_delay_s = 3600

    *texts, last = await streamed(service, stop)

    assert texts
    assert all(event["choices"][0]["finish_reason"] is None for event in texts)
    assert last["error"]["code"] == "timeout"
    assert last["error_type"] == "Incomplete Generation"
    assert "tokenTimeout" in last["error"]["message"]


async def test_a_stream_that_goes_on_too_long_ends_with_the_error_event(service_for: ServiceFor) -> None:
    """Its tokens come in time, but there are too many of them."""
    service = service_for({"step_delay_s": 0.01}, e2e_timeout=1, max_iter_times=NEVER)

    *texts, last = await streamed(service, lambda: None)

    assert texts
    assert "e2eTimeout" in last["error"]["message"]


async def nothing() -> dict[str, Any]:
    """A client that stays."""
    await asyncio.Event().wait()
    raise AssertionError


async def test_the_time_of_a_whole_request_runs_from_its_arrival() -> None:
    """A request that came an hour before it was submitted is late at once."""
    state = GenerationState()
    generation = Generation(state, Stats(1), lambda: None)
    running = Running(generation, nothing, Timeouts(NEVER, 3600), begun_s=state.heard_s - 3600)
    with pytest.raises(EngineError, match="e2eTimeout"):
        await running.next_round()
    running.close()


async def test_an_answer_that_is_there_may_be_read_slowly() -> None:
    """The engine was in time; how long the client takes is its own affair."""
    state = GenerationState()
    state.end()
    generation = Generation(state, Stats(1), lambda: None)
    running = Running(generation, nothing, Timeouts(NEVER, 1), begun_s=state.heard_s - 100)
    assert await running.next_round() is None
    running.close()


async def test_a_token_in_time_starts_the_time_anew() -> None:
    """What was heard just now counts, not when the request was submitted."""
    state = GenerationState()
    now_s = state.heard_s
    generation = Generation(state, Stats(1), lambda: None)
    state.heard_s = now_s - 100
    running = Running(generation, nothing, Timeouts(101, NEVER), begun_s=now_s - 100)
    state.heard_s = now_s
    running._check_time()
    assert not generation.ended
    state.heard_s = now_s - 101
    running._check_time()
    with pytest.raises(EngineError, match="tokenTimeout"):
        await running.next_round()
    running.close()
