"""Guesses of a sequence's next tokens: what followed the latest occurrence of its last ones, as long as that pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SIZES: Final = (3, 2)
"""Tokens that must occur again, longest first."""
WINDOW: Final = 8192
"""Tokens at the end that are looked through at least, and half of what is kept at most."""
CREDIT: Final = 1.0
"""Time for so many tokens may be lost on guesses before they stop for a while."""
PAUSE_TOKENS: Final = 32
"""How long they stop; then one guess is tried."""


class NgramDrafts:
    """The guesses for one sequence, which only ever grows at its end.

    Learning one more token and looking up cost the same at any length. Whoever runs the guesses tells what they cost
    and how many came true, in units of the time that a token takes without any; the balance never exceeds ``CREDIT``,
    and when it is used up no guess is made for ``PAUSE_TOKENS``. So text that does not repeat loses ``CREDIT`` once,
    and then the cost of one guess in ``PAUSE_TOKENS``.
    """

    __slots__ = ("_begin", "_credit", "_ends", "_known", "_resume")

    def __init__(self) -> None:
        self._ends: tuple[dict[tuple[int, ...], int], ...] = tuple({} for _ in SIZES)
        """Per size: the last tokens -> the place after their latest occurrence."""
        self._begin = 0
        self._known = 0
        """Tokens that have been looked at; each of them was followed by another."""
        self._credit = CREDIT
        self._resume = 0

    def guess(self, tokens: Sequence[int], most: int) -> list[int]:
        """Up to ``most`` tokens that may follow; where the latest occurrence overlaps the end, they go round in it."""
        length = len(tokens)
        if length < self._resume or most <= 0:
            return []
        self._learn(tokens)
        for size, ends in zip(SIZES, self._ends, strict=True):
            place = ends.get(tuple(tokens[-size:]))
            if place is not None:
                return [tokens[place + index % (length - place)] for index in range(most)]
        return []

    def note(self, length: int, accepted: int, cost: float) -> None:
        """What became of guesses: the sequence has ``length`` tokens now, ``accepted`` of them guessed this time.

        ``cost`` is the time that the guesses took, in tokens.
        """
        self._credit = min(CREDIT, self._credit + accepted - cost)
        if self._credit < 0:
            self._credit = 0.0
            self._resume = length + PAUSE_TOKENS

    def _learn(self, tokens: Sequence[int]) -> None:
        end = len(tokens) - 1
        if end - self._begin > 2 * WINDOW:
            self._begin = self._known = end - WINDOW
            for ends in self._ends:
                ends.clear()
        for size, ends in zip(SIZES, self._ends, strict=True):
            first = max(self._known + 1 - size, self._begin)
            run = tokens[first:end]
            ends.update(
                zip(
                    zip(*(run[index:] for index in range(size)), strict=False),
                    range(first + size, end + 1),
                    strict=False,
                )
            )
        self._known = end
