"""How many threads a step computes on: all of them, or one where the others do not pay."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

LARGE_STEP_ROWS = 64
"""A step of so many rows is long between two meetings of its threads, so that all of them nearly always pay."""
_SLOW = 1.5
"""Steps that take on average this many times as long as usual are slow."""
_SLOW_STEPS = 4
"""So many in a row bring a trial."""
_TRIAL_STEPS = 3
"""Of the other way, one after the other: the system favours threads that have slept, for a step."""
_JUDGED_STEPS = 5
"""So many last steps are compared with a trial, by their median: one that waits for something else decides nothing."""
_BETTER = 0.9
"""The other way must take less than this part of the time to be taken."""
_FORGET = 1.002
"""What is usual grows by this factor with each step, until a step is faster: contexts grow, too."""
_FIRST_S = 0.5
_LONGEST_S = 8.0
"""How long a decision holds: doubled as long as it is confirmed."""
_EXPLORED_FIRST = 16
"""After so many steps together comes a trial without cause: what is usual may have been slow from the start."""
_EXPLORED_MOST = 1024
"""The same at most: doubled with each trial that is lost."""


class StepThreads:
    """Chooses the threads of each step by the times of the steps before.

    Threads meet hundreds of times in a step. Where each has a core of its own, more are faster; where one of them
    shares its core with a busy process, every meeting waits until it runs again, and one alone is up to four times as
    fast. Nobody tells which case it is, and it changes within seconds. Steps of one to three rows wait for memory and
    those of more for arithmetic, so one thread may be as good as two for the first and half as good for the others:
    each doubling of the rows chooses by its own steps. The choice changes no bit of the results: work is split by
    output, not along a sum.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.perf_counter) -> None:
        """Args:
        most: threads of a large step, and of all steps at first.
        clock: seconds.
        """
        self._most = most
        self._clock = clock
        self._choices: dict[int, _Choice] = {}
        """By the binary digits of the number of rows."""
        self._threads = most

    def together(self) -> bool:
        """Whether the last step ran on all threads."""
        return self._threads > 1

    @contextmanager
    def step(self, rows: int) -> Iterator[int]:
        """Run one step of so many rows inside; gives the number of threads that it shall run on."""
        if self._most == 1 or not 0 < rows < LARGE_STEP_ROWS:
            self._threads = self._most
            yield self._most
            return
        choice = self._choices.setdefault(rows.bit_length(), _Choice())
        together = choice.together
        self._threads = self._most if together else 1
        began_s = self._clock()
        yield self._threads
        ended_s = self._clock()
        choice.note(rows, ended_s - began_s, ended_s)


class _Choice:
    """All threads or one, for steps of similar size. Times count as multiples of the usual ones on all threads."""

    def __init__(self) -> None:
        self._usual: dict[int, float] = {}
        """Seconds by rows."""
        self._alone = False
        self._until = 0.0
        """The next trial comes no earlier."""
        self._hold_s = _FIRST_S
        self._slow_steps = 0
        self._steps = 0
        self._explored = _EXPLORED_FIRST
        self._trial: list[float] | None = None
        """Ratios of the trial that runs, of the way that is not in use."""
        self._last: deque[float] = deque(maxlen=_JUDGED_STEPS)
        """Ratios of the way in use."""
        self._recent = 1.0
        """A running mean of the ratios of the way in use."""

    @property
    def together(self) -> bool:
        """Whether the next step shall run on all threads."""
        return self._alone == (self._trial is not None)

    def note(self, rows: int, spent_s: float, now_s: float) -> None:
        """The step that was just chosen for took so long."""
        usual = self._usual.get(rows)
        if self.together:
            usual = spent_s if usual is None else min(spent_s, usual * _FORGET)
            self._usual[rows] = usual
        elif usual is None:
            # The first steps of this size are on one thread: take them for as slow as the others.
            usual = self._usual[rows] = spent_s / self._recent
        ratio = spent_s / usual
        if self._trial is not None:
            self._trial.append(ratio)
            # One step shows that one thread is slower. That all are takes more: a neighbour may do nothing for a step.
            if len(self._trial) == _TRIAL_STEPS or (ratio > median(self._last) and not self._alone):
                self._decide(self._trial, now_s)
            return
        self._last.append(ratio)
        self._recent += 0.3 * (ratio - self._recent)
        self._steps += 1
        self._slow_steps = self._slow_steps + 1 if self._recent > _SLOW else 0
        if now_s < self._until:
            return
        if self._alone or self._slow_steps >= _SLOW_STEPS or self._steps >= self._explored:
            self._trial = []

    def _decide(self, trial: list[float], now_s: float) -> None:
        """End a trial."""
        changes = median(trial) < _BETTER * median(self._last)
        confirmed = not changes and (self._alone or self._slow_steps >= _SLOW_STEPS)
        self._hold_s = min(2 * self._hold_s, _LONGEST_S) if confirmed else _FIRST_S
        self._explored = _EXPLORED_FIRST if changes else min(2 * self._explored, _EXPLORED_MOST)
        if changes:
            self._alone = not self._alone
            self._recent = median(trial)
            self._last = deque(trial, _JUDGED_STEPS)
        self._until = now_s + self._hold_s
        self._trial = None
        self._slow_steps = self._steps = 0
