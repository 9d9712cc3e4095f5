"""When an engine process that says nothing has to be taken for one that hangs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.pace import TOLD_FROM_S

_CPU_FIELDS = slice(11, 13)
"""User and system time in /proc/PID/stat, counted after the process's name."""
_TICKS = 4
"""Looks within the shorter limit."""
_SLOWEST_TICK_S = 5.0
PATIENCE = 10.0
"""A step may use so many times what was expected of it: contexts grow, and threads wait actively."""
_LEAST_S = PATIENCE * TOLD_FROM_S
"""Of processor time, for a step of which nothing was told."""


@dataclass(frozen=True, slots=True)
class HangLimits:
    """How long an engine may owe an answer (every round is one) and say nothing.

    The largest step of a large model on a slow processor may take half an hour, and the smallest milliseconds. So the
    engine tells before a long step how much processor time it expects to use, and may use ``PATIENCE`` times as much;
    how long that takes depends on who else computes. A deadlock, a stopped process or a lost device use none at all.
    """

    hang_timeout_s: float = 60.0
    """While the process uses no processor time at all, or more than its step should need. Where the system does not
    tell that time (it does on Linux), a step may take ``PATIENCE`` times what is expected, and at least this."""
    step_limit_s: float = 3600.0
    """For the longest step, and while the model loads until its first token. 8,192 tokens, the most of a step by
    default, take longer only below 2.3 tokens a second."""

    @property
    def tick_s(self) -> float:
        """Time between two looks."""
        return min(_SLOWEST_TICK_S, self.hang_timeout_s / _TICKS, self.step_limit_s / _TICKS)


class Silence:
    """How long one engine has been silent. Time in which nobody looked (a machine asleep) does not count."""

    def __init__(self, limits: HangLimits) -> None:
        self._limits = limits
        self._heard = True
        self._silent_s = self._idle_s = 0.0
        self._expected_s = 0.0
        self._cpu_s: tuple[float | None, ...] = ()
        self._cpu_began_s: float | None = None
        """Of the process, when the silence began."""

    def broken(self, expected_s: float = 0.0) -> None:
        """The engine has said something; until it says more it is expected to use so much processor time."""
        self._heard = True
        self._expected_s = expected_s

    @property
    def silent_s(self) -> float:
        """Seconds since the engine said something, so far as somebody looked and it owed a word."""
        return self._silent_s

    def hangs(
        self,
        *,
        owes: bool,
        loading: bool,
        cpu_s: float | None,
        measured: bool = True,
        others_cpu_s: Sequence[float | None] = (),
    ) -> bool:
        """One look, ``tick_s`` after the last one.

        Args:
            owes: the engine has to say something sooner or later.
            loading: its model is not there yet.
            cpu_s: processor time that its process has used; None: not known.
            measured: it has run a step, so that it can tell before the long ones.
            others_cpu_s: of the processes that compute with it, step by step. One that stands still stops all, and who
                waits for it may use a little time.
        """
        before, self._cpu_s = self._cpu_s, (cpu_s, *others_cpu_s)
        if self._heard or not owes:
            self._heard = False
            self._silent_s = self._idle_s = 0.0
            self._cpu_began_s = cpu_s
            return False
        tick_s = self._limits.tick_s
        self._silent_s += tick_s
        # A model that is read from a slow disk waits without computing.
        still = any(now is not None and now == then for now, then in zip(self._cpu_s, before, strict=False))
        if loading or not still:
            self._idle_s = 0.0
        else:
            self._idle_s += tick_s
        timeout_s, limit_s = self._limits.hang_timeout_s, self._limits.step_limit_s
        if self._idle_s >= timeout_s or self._silent_s >= limit_s:
            return True
        if loading or not measured or self._silent_s < timeout_s:
            return False
        if cpu_s is None or self._cpu_began_s is None:
            return self._silent_s >= PATIENCE * self._expected_s
        return cpu_s - self._cpu_began_s >= max(_LEAST_S, PATIENCE * self._expected_s)


def cpu_seconds(pid: int) -> float | None:
    """Processor time that a process has used, all threads; None where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[_CPU_FIELDS])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
