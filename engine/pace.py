"""How much processor time the next step may be expected to use, from its tokens and the steps before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TOLD_FROM_S = 0.1
"""Seconds; of steps that are expected to use less nothing is told: a message for each would cost more than it says."""
_NEWEST = 0.3
"""The weight of the newest step in what is usual for its size."""


class StepPace:
    """Tells, before a long step, how much processor time it is expected to use.

    It is that of all threads, and says the same on a busy machine, where a step takes many times as long. Seconds a
    token are kept for each doubling of the tokens in a step. The more tokens, the less each takes, so the
    nearest size below that has been seen gives too much rather than too little. What grows with the length of the
    contexts is in what is usual, with a delay.
    """

    def __init__(
        self, tell: Callable[[float], None] = lambda _: None, clock: Callable[[], float] = time.process_time
    ) -> None:
        """Args:
        tell: gets the expected seconds of a step that is about to begin, from ``TOLD_FROM_S`` on.
        clock: of this process's time, in seconds.
        """
        self._tell = tell
        self._clock = clock
        self._usual: dict[int, float] = {}
        """Seconds a token, by the binary digits of the step's tokens."""

    def expected_s(self, tokens: int) -> float:
        """Seconds for a step of so many tokens; 0 before the first step."""
        if not self._usual:
            return 0.0
        size = tokens.bit_length()
        known = [seen for seen in self._usual if seen <= size]
        return self._usual[max(known) if known else min(self._usual)] * tokens

    @contextmanager
    def step(self, tokens: int) -> Iterator[None]:
        """Run one step of so many tokens, at least one, inside."""
        expected_s = self.expected_s(tokens)
        if expected_s >= TOLD_FROM_S:
            self._tell(expected_s)
        began_s = self._clock()
        yield
        newest, size = (self._clock() - began_s) / tokens, tokens.bit_length()
        self._usual[size] = newest if size not in self._usual else self._usual[size] * (1 - _NEWEST) + newest * _NEWEST
