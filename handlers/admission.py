"""Who is worked on, who waits, and who is told to come back: MindIE's maxLinkNum."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from engine.front_base import STOPPING
from engine.types import EngineError
from handlers.errors import Problem
from handlers.link_limits import LinkLimits

MAX_RETRY_S: Final = 60
"""The longest that a refused client is told to wait; clients that obey the header take no more."""
_PACE_OF: Final = 256
"""Finished requests that the pace is taken from."""


class Admission:
    """Gives ``max_link_num`` places, in order of arrival; twice as many requests may wait. Belongs to one event loop.

    It is the one bound of what this process holds: who waits here has not been read beyond 64 KiB. What runs in a step
    is the engine's matter, among those that have a place.
    """

    def __init__(self, limits: LinkLimits, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock_s = clock_s
        self._turns: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._ended_s: deque[float] = deque(maxlen=_PACE_OF)
        self.running = 0
        """Requests that have a place."""

    @property
    def waiting(self) -> int:
        """Requests that wait for one."""
        return len(self._turns)

    @property
    def retry_after_s(self) -> int:
        """When those that wait now will have had a place, at the present pace; from 1 to ``MAX_RETRY_S``."""
        if len(self._ended_s) < 2:
            return 1
        pace_s = (self._clock_s() - self._ended_s[0]) / len(self._ended_s)
        return max(1, min(MAX_RETRY_S, math.ceil(self.waiting * pace_s)))

    def enter(self) -> asyncio.Future[None] | None:
        """Take a place, which must be given back by ``leave``, or wait for one.

        Returns:
            None with a place, else what is done when there is one; whoever waits no longer calls ``give_up``.

        Raises:
            Problem: 429 when too many wait.
            EngineError: stopping.
        """
        if self.running < self._limits.max_link_num:
            self.running += 1
            return None
        if self._closed:
            raise EngineError("stopping", STOPPING)
        if self.waiting >= self._limits.max_waiting:
            retry_s = self.retry_after_s
            message = (
                f"The server is full: {self.running} requests are worked on and {self.waiting} wait (its setting "
                f"maxLinkNum is {self._limits.max_link_num}); try again in {retry_s} s"
            )
            raise Problem(429, "queue_full", message, headers={"Retry-After": str(retry_s)})
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        return turn

    def leave(self) -> None:
        """Give a place back; who has waited longest gets it."""
        self._ended_s.append(self._clock_s())
        self._pass_on()

    def give_up(self, turn: asyncio.Future[None]) -> None:
        """Wait no longer; a place that has just been given is passed on."""
        if turn in self._turns:
            self._turns.remove(turn)
        elif not turn.cancelled() and turn.exception() is None:
            self._pass_on()

    def close(self) -> None:
        """The server stops: nobody waits any more."""
        self._closed = True
        while self._turns:
            self._turns.popleft().set_exception(EngineError("stopping", STOPPING))

    def _pass_on(self) -> None:
        self.running -= 1
        if self._turns:
            self.running += 1
            self._turns.popleft().set_result(None)
