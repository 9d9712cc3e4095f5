"""How many threads a step computes on: all of them, or one where the others do not pay."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

LARGE_STEP_ROWS = 64
"""A step of so many rows is long between two meetings of its threads, so that all of them always pay."""
PROBE_EVERY = 32
"""Steps of a size between two trials of the other number of threads; more while the trials show a clear loser."""
_PROBE_EVERY_AT_MOST = 256
_PROBE_STEPS = 3
_SETTLING_STEPS = 1
"""Steps at the begin of a trial that do not count: sleeping threads wake up in them."""
_CLEAR_LOSS = 1.15
_NEW_WEIGHT = 0.25
"""Weight of a new time in its running mean."""


@dataclass(slots=True)
class _Size:
    """What is known of steps of one size."""

    current: int
    means: dict[int, float] = field(default_factory=dict)
    """Running mean of the seconds a step takes, by threads."""
    warm: bool = False
    """A first step of this size has been; its time is one of caches that fill."""
    since_probe: int = 0
    probe_every: int = PROBE_EVERY
    probing: int = 0
    """Steps left of a running trial."""


class StepThreads:
    """Chooses the threads of each step by the times of the steps before, by number of rows.

    Small steps have hundreds of operators of some ten microseconds, at whose ends all threads meet. Where each has a
    core of its own, more threads are faster; where one of them shares its core with a neighbour, every meeting waits
    until it runs again, and one thread alone is up to four times as fast. Nobody tells which case it is, and it
    changes within seconds; so the other number is tried now and then. The choice changes no bit of the results:
    oneDNN and the attention operators split work by output, not along a sum.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.perf_counter) -> None:
        """Args:
        most: threads of a large step.
        clock: seconds.
        """
        self._most = most
        self._clock = clock
        self._sizes: dict[int, _Size] = {}

    @contextmanager
    def step(self, rows: int) -> Iterator[int]:
        """Run one step of so many rows inside; gives its number of threads, which torch has been told."""
        if self._most == 1 or rows == 0:
            yield self._most
            return
        size = self._sizes.setdefault(rows.bit_length(), _Size(self._most))
        threads = self._most if rows >= LARGE_STEP_ROWS else self._choose(size)
        torch.set_num_threads(threads)
        began = self._clock()
        yield threads
        if rows < LARGE_STEP_ROWS:
            self._record(size, threads, self._clock() - began)

    def _choose(self, size: _Size) -> int:
        return self._other(size) if size.probing else size.current

    def _record(self, size: _Size, threads: int, seconds: float) -> None:
        if not size.warm:
            size.warm = True
            return
        if size.probing:
            size.probing -= 1
            if size.probing >= _PROBE_STEPS - _SETTLING_STEPS:
                return
            if size.probing == _PROBE_STEPS - _SETTLING_STEPS - 1:
                size.means.pop(threads, None)  # the times of the last trial say nothing of now
        mean = size.means.get(threads, seconds)
        size.means[threads] = mean + _NEW_WEIGHT * (seconds - mean)
        if size.probing:
            return
        size.since_probe += 1
        mine, others = size.means.get(size.current), size.means.get(self._other(size))
        if threads != size.current:  # a trial has ended
            size.since_probe = 0
            clear = mine is not None and others is not None and others > mine * _CLEAR_LOSS
            size.probe_every = min(size.probe_every * 2, _PROBE_EVERY_AT_MOST) if clear else PROBE_EVERY
        if mine is not None and others is not None and others < mine:
            size.current = self._other(size)
            size.since_probe, size.probe_every = 0, PROBE_EVERY
        elif size.since_probe >= size.probe_every or others is None:
            size.probing = _PROBE_STEPS

    def _other(self, size: _Size) -> int:
        return 1 if size.current == self._most else self._most
