"""Whether others leave the machine alone: readings of processor time, and waiting for a quiet moment."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from tools.load.processes import machine_stat, trees


@dataclass(frozen=True, slots=True)
class Reading:
    """Processor time used up to one moment, in seconds of one core."""

    at_s: float
    busy_s: float
    steal_s: float
    mine_s: float
    """By the load's client and the processes that are part of the measurement."""
    client_s: float
    """By the client alone."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Cores used between two readings."""

    others: float
    """By everybody who has no part in the measurement."""
    steal: float
    server: float
    client: float

    @property
    def disturbance(self) -> float:
        """Cores that were taken away from the measurement."""
        return self.others + self.steal


def read(mine: Collection[int]) -> Reading:
    """The present reading; ``mine`` are the roots of the process trees that belong to the measurement."""
    # The client first: what it spends on looking at the others must not count as theirs, so it is read again below.
    machine = machine_stat()
    times = {stat.pid: stat.cpu_s for stat in trees(mine)}
    own = os.times()
    client_s = own.user + own.system
    times.pop(os.getpid(), None)
    return Reading(time.perf_counter(), machine.busy_s, machine.steal_s, sum(times.values()) + client_s, client_s)


def usage(before: Reading, after: Reading) -> Usage:
    """Cores used between two readings. Clock ticks are coarse, so small negative differences are cut off at 0."""
    span_s = max(after.at_s - before.at_s, 1e-9)
    mine_s = after.mine_s - before.mine_s
    client_s = after.client_s - before.client_s
    return Usage(
        others=max(0.0, after.busy_s - before.busy_s - mine_s) / span_s,
        steal=max(0.0, after.steal_s - before.steal_s) / span_s,
        server=max(0.0, mine_s - client_s) / span_s,
        client=max(0.0, client_s) / span_s,
    )


async def wait_until_quiet(
    take: Callable[[], Reading],
    *,
    below_cores: float,
    patience_s: float,
    window_s: float = 1.0,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    told: Callable[[Usage], None] = lambda _: None,
) -> Usage:
    """Wait until others used less than ``below_cores`` for one window; give up after ``patience_s``, 0 being at once.

    Args:
        take: makes a reading.
        pause: waits for so many seconds.
        told: called with each window that was not quiet.

    Returns:
        The last window's usage; whoever asked sees in it whether patience ran out.
    """
    window_s = min(window_s, patience_s)
    before = take()
    begun_s = before.at_s
    while True:
        await pause(window_s)
        after = take()
        found = usage(before, after)
        if found.disturbance < below_cores or after.at_s - begun_s >= patience_s:
            return found
        told(found)
        before = after
