"""What a soak looks at besides answers: the engine's process and its killing, health, memory, pages in use."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tools.load.client import Address, exchange, read
from tools.load.processes import memory_bytes, trees

PagesInUse = Callable[[], Awaitable[int | None]]
"""Asks a server how many pages of its memory belong to requests; None: it does not say."""

UNNOTICED_S: Final = 30.0
"""After so long without a word about it, a killed engine is taken to be back."""
_METRIC: Final = re.compile(r"^mindspec_pages_in_use(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)


def pages_from_metrics(address: Address) -> PagesInUse:
    """The gauge ``mindspec_pages_in_use`` of GET /metrics, in Prometheus' text format, where there is one."""

    async def ask() -> int | None:
        reply = read(await exchange(address, "/metrics", timeout_s=10))
        values = _METRIC.findall(reply.body.decode("utf-8", "replace")) if reply.status == 200 else []
        return sum(int(float(value)) for value in values) if values else None

    return ask


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident set sizes, in megabytes: another process that ends does not change them."""

    http_mb: float
    engine_mb: float


@dataclass(slots=True)
class Outage:
    """From the killing of the engine to the first healthy answer; seconds on ``time.perf_counter``'s clock."""

    killed_s: float
    noticed: bool = False
    """The server has said that it is not ready. A "ready" from before that is no recovery."""
    back_s: float | None = None

    def overlaps(self, begun_s: float, ended_s: float) -> bool:
        """Whether a request of that time may have met it."""
        return begun_s <= (self.back_s or float("inf")) and ended_s >= self.killed_s

    def take(self, ready: bool, now_s: float) -> None:
        """What the server says of itself, asked after the killing."""
        if not ready:
            self.noticed = True
        elif self.back_s is None and (self.noticed or now_s - self.killed_s > UNNOTICED_S):
            self.back_s = now_s


def engine_pid(server: int) -> int | None:
    """The engine's process: of a server's children the one with the most memory. None: there is no child."""
    children = [stat.pid for stat in trees([server]) if stat.pid != server]
    return max(children, key=memory_bytes, default=None)


def memory_of(server: int) -> Memory:
    """Of the HTTP process and of the engine's."""
    engine = engine_pid(server)
    return Memory(*((memory_bytes(pid, kind="Rss") if pid is not None else 0) / 1e6 for pid in (server, engine)))


class Health:
    """Asks GET /health all the time; knows when the engine is back, and how long the HTTP side took to say so."""

    def __init__(self, address: Address, every_s: float = 0.1) -> None:
        self.outages: list[Outage] = []
        self.slowest_s = 0.0
        """The longest that any answer took."""
        self.unanswered = 0
        """Times that there was no answer: the HTTP side has to survive its engine."""
        self._address = address
        self._every_s = every_s
        self._ready = asyncio.Event()

    async def watch(self) -> None:
        """For ever."""
        while True:
            kills = len(self.outages)
            done = await exchange(self._address, "/health", timeout_s=30)
            status = read(done).status
            self.slowest_s = max(self.slowest_s, done.ended_s - done.sent_s)
            self.unanswered += status == 0
            for outage in self.outages[:kills]:
                outage.take(status == 200, done.ended_s)
            if status == 200 and all(outage.back_s is not None for outage in self.outages):
                self._ready.set()
            else:
                self._ready.clear()
            await asyncio.sleep(self._every_s)

    async def until_ready(self) -> None:
        """Wait until the server is healthy and no outage is open; ``watch`` has to run meanwhile."""
        await self._ready.wait()

    def kill(self, server: int) -> bool:
        """kill -9 of the engine; False: there is none to kill at the moment."""
        pid = engine_pid(server)
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.outages.append(Outage(time.perf_counter()))
            self._ready.clear()
            return True
        return False
