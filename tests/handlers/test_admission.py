"""maxLinkNum: so many requests are worked on, twice as many wait in order, and the next is told when to come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from in_process import started

from engine.mock_front import MockFront
from engine.types import EngineError
from handlers.admission import Admission
from handlers.app import build
from handlers.errors import Problem
from handlers.link_limits import LinkLimits
from handlers.service import Service

CHAT = "/v1/chat/completions"
HELLO = {"model": "mock", "messages": [{"role": "user", "content": "hello"}], "ignore_eos": True, "max_tokens": 8}
ENDLESS = {**HELLO, "max_tokens": 10**6}
ONE = LinkLimits(max_link_num=1)
ServiceFor = Callable[..., Service]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what nobody tells."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


def slow(service_for: ServiceFor, **settings: Any) -> Service:
    """A deployment of one request at a time whose answers end when the test says so."""
    return service_for({"step_delay_s": 0.001}, links=ONE, max_iter_times=10**6, **settings)


async def fill(service: Service, client: httpx.AsyncClient) -> list[asyncio.Task[httpx.Response]]:
    """One endless request that is worked on, and two that wait, asked in this order."""
    asked = []
    for number in range(3):
        asked.append(asyncio.create_task(client.post(CHAT, json=ENDLESS)))
        await until(lambda: service.admission.running + service.admission.waiting == number + 1)  # noqa: B023
    return asked


async def test_one_runs_two_wait_and_the_next_gets_429(service_for: ServiceFor) -> None:
    """In the documented body, with Retry-After; the engine has one request, the metrics say that two wait."""
    service = slow(service_for)
    async with started(service) as client:
        asked = await fill(service, client)
        fourth = await client.post(CHAT, json=HELLO)
        metrics = (await client.get("/metrics")).text
        models = await client.get("/v1/models")
        in_engine = service.front.running
        await service.front.drain(0)
        await asyncio.gather(*asked)

    assert (fourth.status_code, fourth.headers["content-type"]) == (429, "application/json")
    assert fourth.headers["retry-after"] == "1"
    assert fourth.json() == {
        "error": "The server is full: 1 requests are worked on and 2 wait (its setting maxLinkNum is 1); "
        "try again in 1 s",
        "error_type": "Service Unavailable",
        "param": None,
        "code": "queue_full",
    }
    assert in_engine == 1
    assert 'num_requests_waiting{model_name="mock"} 2.0' in metrics
    assert models.status_code == 200


async def test_who_waits_is_served_in_order_of_arrival(service_for: ServiceFor) -> None:
    """Six requests of three places: all are answered, in the order in which they came."""
    service = service_for({"step_delay_s": 0.001}, links=LinkLimits(max_link_num=2))
    ended: list[int] = []
    async with started(service) as client:

        async def ask(number: int) -> None:
            assert (await client.post(CHAT, json=HELLO)).status_code == 200
            ended.append(number)

        asked = []
        for number in range(6):
            asked.append(asyncio.create_task(ask(number)))
            await until(lambda: service.admission.running + service.admission.waiting + len(ended) == number + 1)  # noqa: B023
        await asyncio.gather(*asked)

    assert ended == sorted(ended)
    assert service.admission.running == service.admission.waiting == 0


async def test_a_request_that_waits_too_long_is_a_500_timeout(service_for: ServiceFor) -> None:
    """It has had no token in tokenTimeout; its place in the line is free again."""
    service = slow(service_for, token_timeout=1)
    async with started(service) as client:
        first = asyncio.create_task(client.post(CHAT, json=ENDLESS))
        await until(lambda: service.admission.running == 1)
        late = await client.post(CHAT, json=HELLO)
        assert service.admission.waiting == 0
        await service.front.drain(0)
        await first

    assert (late.status_code, late.json()["code"]) == (500, "timeout")
    assert "tokenTimeout" in late.json()["error"]


async def test_the_end_of_the_server_waits_for_nobody_who_waits(service_for: ServiceFor) -> None:
    """They get 503 stopping at once, while the one that runs goes on."""
    service = slow(service_for)
    async with started(service) as client:
        running, *waiting = await fill(service, client)
        service.ending.begin(30)
        told = await asyncio.gather(*waiting)
        assert not running.done()
        service.ending.hurry()
        await running

    assert [(answer.status_code, answer.json()["code"]) for answer in told] == [(503, "stopping")] * 2
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in told)


class Caller:
    """A client of the bare application, whose body and end come when a test says so."""

    def __init__(self, service: Service) -> None:
        self.sent: list[Any] = []
        self._messages: asyncio.Queue[Any] = asyncio.Queue()
        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": headers, "query_string": b""}
        self.task = asyncio.create_task(build(service)(scope, self._messages.get, self._send))

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    def body(self, data: bytes, *, more: bool) -> None:
        """A piece of the body comes."""
        self._messages.put_nowait({"type": "http.request", "body": data, "more_body": more})

    def leave(self) -> None:
        """The client hangs up."""
        self._messages.put_nowait({"type": "http.disconnect"})


async def test_a_body_that_comes_slowly_holds_no_place(service_for: ServiceFor) -> None:
    """The place is taken when the body is whole, or longer than what is read ahead."""
    service = service_for(links=ONE)
    await service.front.start()
    begun, long = Caller(service), Caller(service)
    begun.body(b'{"model":', more=True)
    await until(lambda: begun._messages.empty())
    assert service.admission.running == 0
    long.body(b" " * 70_000, more=True)
    await until(lambda: service.admission.running == 1)
    for caller in (begun, long):
        caller.leave()
        await caller.task
    await service.front.stop()

    assert service.admission.running == 0
    assert begun.sent == []
    assert service.traffic.answers == {(CHAT, 499): 2}


async def test_a_client_that_goes_away_while_it_waits_leaves_the_line(service_for: ServiceFor) -> None:
    """The next in the line gets the place; nobody is answered for it."""
    service = slow(service_for)
    await service.front.start()
    callers = [Caller(service) for _ in range(3)]
    for number, caller in enumerate(callers):
        caller.body(json.dumps(ENDLESS if number == 0 else HELLO).encode(), more=False)
        await until(lambda: service.admission.running + service.admission.waiting == number + 1)  # noqa: B023
    callers[1].leave()
    await callers[1].task
    assert (service.admission.running, service.admission.waiting) == (1, 1)
    callers[0].leave()
    await asyncio.gather(callers[0].task, callers[2].task)
    await service.front.stop()

    assert callers[1].sent == []
    assert callers[2].sent[0]["status"] == 200
    assert service.admission.running == 0


def test_the_time_to_wait_is_that_of_the_line_at_the_present_pace() -> None:
    """Ten answers in 20 s, and four who wait: 8 s; never more than a minute."""

    async def play() -> list[int]:
        now_s = [0.0]
        admission = Admission(LinkLimits(max_link_num=100), lambda: now_s[0])
        for _ in range(110):
            admission.running += 1
        for _ in range(10):
            admission.leave()
            now_s[0] += 2.0
        found = [admission.retry_after_s]
        for _ in range(4):
            admission.enter()
        found.append(admission.retry_after_s)
        now_s[0] += 10_000
        return [*found, admission.retry_after_s]

    assert asyncio.run(play()) == [1, 8, 60]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(places=st.integers(1, 3), moves=st.lists(st.sampled_from(["enter", "leave", "give up"]), max_size=60))
def test_never_more_than_allowed_run_or_wait(places: int, moves: list[str]) -> None:
    """Whatever comes when: nobody waits while a place is free, and a 429 means that both are full."""

    async def play() -> None:
        admission = Admission(LinkLimits(max_link_num=places))
        turns: list[asyncio.Future[None]] = []
        held = 0
        refused = []
        for move in moves:
            if move == "enter":
                full = admission.running == places and admission.waiting == 2 * places
                try:
                    turn = admission.enter()
                except Problem as problem:
                    refused.append((problem.status, full))
                    continue
                assert not full
                if turn is None:
                    held += 1
                else:
                    turns.append(turn)
            elif move == "leave" and held:
                admission.leave()
                held -= 1
            elif move == "give up" and turns:
                admission.give_up(turns.pop())
            held += sum(turn.done() for turn in turns)
            turns = [turn for turn in turns if not turn.done()]
            assert admission.running == held <= places
            assert admission.waiting == len(turns) <= 2 * places
            assert not turns or held == places
        assert set(refused) <= {(429, True)}

    asyncio.run(play())


async def test_after_the_end_has_begun_nobody_waits() -> None:
    """Whoever finds no place is refused."""
    admission = Admission(ONE)
    assert admission.enter() is None
    admission.close()
    with pytest.raises(EngineError, match="stopping"):
        admission.enter()


async def test_the_engine_s_own_bound_tells_when_to_come_back_too(service_for: ServiceFor) -> None:
    """--max-queue refuses earlier, in the same words of the contract."""
    service = service_for()
    problem = service.problem(EngineError("queue_full", "The queue is full."))

    assert (problem.status, problem.headers) == (429, {"Retry-After": "1"})
    assert isinstance(service.front, MockFront)
