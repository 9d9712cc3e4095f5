"""Decides from step times whether all threads run a step or one: beside a busy neighbour one may be faster."""

from __future__ import annotations

import time
from collections.abc import Callable

_SLOW = 1.6
"""A step this many times as long as usual is slow."""
_SLOW_STEPS = 4
"""So many slow steps in a row bring a trial."""
_TRIAL_STEPS = 3
_BETTER = 0.9
"""The other way must take less than this part of the time to be taken."""
_FORGET = 1.002
"""What is usual grows by this factor with each step, until a step is faster: contexts grow, too."""
_FIRST_S = 0.5
_LONGEST_S = 8.0
"""How long a decision holds: doubled as long as it is confirmed."""
_EXPLORED_STEPS = 512
"""So many steps together, then a trial without cause: what is usual may have been slow from the start."""
_EXPLORED_EARLY = 48
"""The same at the start, and while steps are somewhat slow."""
_SOMEWHAT_SLOW = 1.2


class Pacing:
    """Beside a process that keeps a core busy, threads that wait for each other take 1.4 to 2 times as long as one.

    Times are compared as multiples of what steps of as many rows usually take on all threads.
    """

    def __init__(self, threads: int, clock: Callable[[], float] = time.monotonic) -> None:
        """All of ``threads`` run together at first."""
        self._threads = threads
        self._clock = clock
        self._usual: dict[int, float] = {}
        self._alone = False
        self._until = 0.0
        """The next trial comes no earlier."""
        self._hold_s = _FIRST_S
        self._slow_steps = 0
        self._steps = _EXPLORED_STEPS - _EXPLORED_EARLY
        self._trial: list[float] | None = None
        """Ratios of the trial that runs, of the way that is not in use."""
        self._recent = 1.0
        """A running mean of the ratios of the way in use."""

    def together(self, rows: int) -> bool:
        """Whether all threads shall run the next step."""
        if self._threads == 1:
            return False
        return self._alone == (self._trial is not None)

    def note(self, rows: int, together: bool, seconds: float) -> None:
        """Tell how long a step took."""
        if self._threads == 1:
            return
        kind = rows if rows <= 32 else 32 + rows.bit_length()
        cost = seconds / rows
        usual = self._usual.get(kind)
        if together:
            usual = cost if usual is None else min(cost, usual * _FORGET)
            self._usual[kind] = usual
        elif usual is None:
            # The first steps of this size are on one thread: take them for as slow as the others.
            usual = self._usual[kind] = cost / self._recent
        ratio = cost / usual
        if self._trial is not None:
            self._trial.append(ratio)
            if len(self._trial) == _TRIAL_STEPS:
                self._decide(sorted(self._trial)[_TRIAL_STEPS // 2])
            return
        self._recent += 0.3 * (ratio - self._recent)
        self._steps += 1
        self._slow_steps = self._slow_steps + 1 if ratio > _SLOW else 0
        if self._clock() < self._until:
            return
        explored = _EXPLORED_EARLY if self._recent > _SOMEWHAT_SLOW else _EXPLORED_STEPS
        if self._alone or self._slow_steps >= _SLOW_STEPS or self._steps >= explored:
            self._trial = []

    def _decide(self, ratio: float) -> None:
        """End a trial whose median was ``ratio``."""
        changes = ratio < _BETTER * self._recent
        confirmed = not changes and (self._alone or self._slow_steps >= _SLOW_STEPS)
        self._hold_s = min(2 * self._hold_s, _LONGEST_S) if confirmed else _FIRST_S
        if changes:
            self._alone = not self._alone
            self._recent = ratio
        self._until = self._clock() + self._hold_s
        self._trial = None
        self._slow_steps = self._steps = 0
