"""Sends requests at a fixed rate and keeps count of every answer; looks at health and memory meanwhile."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tools.load.client import Address, Exchange, exchange, read

COMPLETIONS: Final = "/v1/completions"
_HEALTH_EVERY_S: Final = 0.25
_MEMORY_EVERY_S: Final = 2.0
_SETTLE_TRIES: Final = 100
_STALL_S: Final = 1.0
_ANSWERED: Final = re.compile(
    r'^mindspec_requests_total\{endpoint="/v1/completions",status="(\d+)"\} ([0-9.e+]+)$', re.MULTILINE
)
_TOTAL: Final = re.compile(r"^(request_(?:received|success|failed)_total)\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Plan:
    """How many requests, of what kind."""

    rate_per_s: float = 32.0
    duration_s: float = 60.0
    tokens: int = 16
    sockets: int = 1000
    """At the same time at most; a request that would need one more is not sent, and counted."""
    timeout_s: float = 600.0


@dataclass(slots=True)
class Books:
    """What the server says that it has answered, to POST /v1/completions."""

    by_status: Counter[str] = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)
    """request_received_total and its two parts."""

    def since(self, before: Books) -> Books:
        """The difference, without what has not changed."""
        by_status = Counter(self.by_status)
        by_status.subtract(before.by_status)
        totals = Counter(self.totals)
        totals.subtract(before.totals)
        return Books(Counter({status: count for status, count in by_status.items() if count}), totals)


@dataclass(slots=True)
class Outcome:
    """What the client has seen, and what the server says about it."""

    sent: int = 0
    unsent: int = 0
    """There was no socket left."""
    most_sockets: int = 0
    stalled_s: float = 0.0
    """How long the client itself did not come to send, in stalls of a second and more; the plan waited meanwhile."""
    by_status: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    """Exchanges without a whole answer, by how they ended: resets, refused connections, timeouts."""
    wrong: list[str] = field(default_factory=list)
    """Answers that are not what they must be."""
    books: Books = field(default_factory=Books)
    health_s: list[float] = field(default_factory=list)
    unhealthy: int = 0
    memory: list[tuple[float, float]] = field(default_factory=list)
    """Seconds since the start, and megabytes of all the server's processes."""

    def complaints(self) -> list[str]:
        """What must not be; empty when all is well."""
        said = list(self.wrong)
        if self.broken:
            said.append(f"exchanges without a whole answer: {dict(self.broken)}")
        if self.unsent:
            said.append(f"{self.unsent} requests had no socket")
        if sum(self.by_status.values()) != self.sent:
            said.append(f"{self.sent} were sent and {sum(self.by_status.values())} answered")
        if self.books.by_status != self.by_status:
            said.append(f"the server counted {dict(self.books.by_status)}, the client {dict(self.by_status)}")
        expected = {
            "request_received_total": self.sent,
            "request_success_total": self.by_status["200"],
            "request_failed_total": self.sent - self.by_status["200"],
        }
        said += [
            f"{name} grew by {self.books.totals[name]}, not by {count}"
            for name, count in expected.items()
            if self.books.totals[name] != count
        ]
        if self.unhealthy:
            said.append(f"GET /health was not 200 {self.unhealthy} times")
        return said

    @property
    def health_p99_s(self) -> float:
        """Of GET /health."""
        return float(np.percentile(self.health_s, 99)) if self.health_s else 0.0

    def slope_mb_per_minute(self, from_s: float) -> float:
        """How fast memory grew after ``from_s``: the line of least squares through what was seen."""
        times, sizes = zip(*[point for point in self.memory if point[0] >= from_s], strict=True)
        return float(np.polyfit(np.array(times) / 60, np.array(sizes), 1)[0])


class OpenLoop:
    """One run on one running server."""

    def __init__(self, address: Address, model: str, plan: Plan, memory_mb: Callable[[], float]) -> None:
        """``memory_mb`` tells what the server's processes have."""
        self.outcome = Outcome()
        self._address = address
        self._model = model
        self._plan = plan
        self._memory_mb = memory_mb
        self._open = 0

    async def run(self) -> Outcome:
        """Send, wait for the last answer, and compare the books."""
        before = await books(self._address)
        beside = [asyncio.create_task(self._watch_health()), asyncio.create_task(self._watch_memory())]
        try:
            await self._send_all()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
        for _ in range(_SETTLE_TRIES):  # an answer is counted when its connection has been let go of
            self.outcome.books = (await books(self._address)).since(before)
            if sum(self.outcome.books.by_status.values()) >= self.outcome.sent:
                break
            await asyncio.sleep(0.1)
        return self.outcome

    async def _send_all(self) -> None:
        plan, running = self._plan, set()
        begun_s = time.perf_counter()
        for number in range(round(plan.rate_per_s * plan.duration_s)):
            due_s = begun_s + number / plan.rate_per_s
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            late_s = time.perf_counter() - due_s
            if late_s > _STALL_S:  # no burst of all that was missed
                self.outcome.stalled_s += late_s
                begun_s += late_s
            if self._open >= plan.sockets:
                self.outcome.unsent += 1
                continue
            self._open += 1
            self.outcome.most_sockets = max(self.outcome.most_sockets, self._open)
            self.outcome.sent += 1
            task = asyncio.create_task(self._one(number))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)

    async def _one(self, number: int) -> None:
        """Every second one is a stream."""
        stream = bool(number % 2)
        body = {
            "model": self._model,
            "prompt": f"{number} is a number, and the next one is",
            "max_tokens": self._plan.tokens,
            "ignore_eos": True,
            "stream": stream,
        }
        done = await exchange(self._address, COMPLETIONS, body, timeout_s=self._plan.timeout_s)
        self._open -= 1
        reply = read(done)
        if not reply.whole:
            self.outcome.broken[done.ending] += 1
            return
        self.outcome.by_status[str(reply.status)] += 1
        fault = fault_of(done, stream=stream, tokens=self._plan.tokens)
        if fault and len(self.outcome.wrong) < 20:
            self.outcome.wrong.append(f"request {number}: {fault}")

    async def _watch_health(self) -> None:
        while True:
            done = await exchange(self._address, "/health", timeout_s=60)
            self.outcome.health_s.append(done.ended_s - done.sent_s)
            self.outcome.unhealthy += read(done).status != 200
            await asyncio.sleep(_HEALTH_EVERY_S)

    async def _watch_memory(self) -> None:
        begun_s = time.perf_counter()
        while True:
            self.outcome.memory.append((time.perf_counter() - begun_s, self._memory_mb()))
            await asyncio.sleep(_MEMORY_EVERY_S)


async def books(address: Address) -> Books:
    """What GET /metrics says now."""
    text = read(await exchange(address, "/metrics", timeout_s=60)).body.decode()
    return Books(
        Counter({status: int(float(count)) for status, count in _ANSWERED.findall(text)}),
        Counter({name: int(float(count)) for name, count in _TOTAL.findall(text)}),
    )


def fault_of(done: Exchange, *, stream: bool, tokens: int) -> str | None:
    """What is wrong with a whole answer: its form, its length, or a refusal that does not say when to come back."""
    raw = b"".join(data for _, data in done.reads)
    head = raw.partition(b"\r\n\r\n")[0].decode("latin-1").lower()
    reply = read(done)
    if reply.status == 200 and stream:
        events = reply.body.decode().split("\n\n")
        if events[-2:] != ["data: [DONE]", ""] or '"error"' in events[-3]:
            return "the stream has no proper end"
        usage: Any = json.loads(events[-3].removeprefix("data: ")).get("usage")
        return None if usage and usage["completion_tokens"] == tokens else f"the stream's usage is {usage}"
    try:
        body = json.loads(reply.body)
    except ValueError:
        return f"the {reply.status} is no JSON: {reply.body[:100]!r}"
    if reply.status == 200:
        count = body["usage"]["completion_tokens"]
        return None if count == tokens else f"the answer has {count} tokens"
    if reply.status != 429:
        return f"{reply.status}: {body}"
    retry = re.search(r"\r\nretry-after: (\d+)(?:\r\n|$)", head)
    if retry is None or int(retry[1]) < 1:
        return "a 429 without Retry-After"
    return None if body.get("code") == "queue_full" and body.get("error_type") else f"a 429 says {body}"
