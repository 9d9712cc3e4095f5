"""Stop strings over streamed text: where one is found, and how much text must wait because it may become one.

The rule: text is read one character after another, and the first character at which any stop string ends decides.
Where several end there, the longest wins (it began first, so the most text is cut). The order of the list never
matters.

The matcher is an Aho-Corasick automaton whose states are made when text first reaches them: a request with stop
strings of 32,768 characters costs nothing until its text looks like them, and then linear time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

_ROOT = 0


@dataclass(slots=True)
class _State:
    """A prefix of at least one stop string: the longest one that the text read so far ends with."""

    low: int
    high: int
    """The stop strings that start with this prefix are ``stops[low:high]``."""
    depth: int
    """Its length."""
    fallback: int
    """State of its longest proper suffix that is such a prefix too."""
    match: str | None
    """The longest stop string that it ends with."""


class StopStrings:
    """The stop strings of one request, shared by its choices."""

    def __init__(self, stops: Iterable[str]) -> None:
        """Raises ValueError for an empty stop string."""
        self.stops = sorted(set(stops))
        if self.stops and not self.stops[0]:
            raise ValueError("a stop string is empty")
        self._first_characters = frozenset(stop[0] for stop in self.stops)
        self._states = [_State(0, len(self.stops), 0, _ROOT, None)]
        self._children: dict[tuple[int, str], int] = {}

    def matcher(self) -> StopMatcher:
        """A fresh matcher for one choice's text."""
        return StopMatcher(self)

    def advance(self, state: int, character: str) -> int:
        """The state after one more character."""
        if state == _ROOT and character not in self._first_characters:
            return _ROOT
        missing: list[tuple[int, int, int]] = []
        while True:
            known = self._children.get((state, character))
            if known is not None:
                target = known
                break
            low, high = self._narrow(state, character)
            if low < high:
                missing.append((state, low, high))
            if state == _ROOT:
                target = _ROOT
                break
            state = self._states[state].fallback
        # The shortest prefix first: each is what the next longer one falls back to.
        for parent, low, high in reversed(missing):
            target = self._add(parent, character, low, high, fallback=target)
        return target

    def state(self, index: int) -> _State:
        """A state that ``advance`` returned."""
        return self._states[index]

    def _narrow(self, state: int, character: str) -> tuple[int, int]:
        here = self._states[state]
        low, high, depth = here.low, here.high, here.depth
        if high - low == 1:
            goes_on = self.stops[low].startswith(character, depth)
            return (low, high) if goes_on else (0, 0)

        def next_character(stop: str) -> str:
            return stop[depth : depth + 1]

        low = bisect_left(self.stops, character, low, high, key=next_character)
        return low, bisect_right(self.stops, character, low, high, key=next_character)

    def _add(self, parent: int, character: str, low: int, high: int, *, fallback: int) -> int:
        depth = self._states[parent].depth + 1
        # Sorted, so a stop string that is exactly this prefix comes first.
        ends_here = len(self.stops[low]) == depth
        match = self.stops[low] if ends_here else self._states[fallback].match
        self._states.append(_State(low, high, depth, fallback, match))
        index = self._children[(parent, character)] = len(self._states) - 1
        return index


class StopMatcher:
    """One choice's text on its way out; holds back only a tail that can still become a stop string."""

    __slots__ = ("_state", "_stops")

    def __init__(self, stops: StopStrings) -> None:
        self._stops = stops
        self._state = _ROOT

    def feed(self, text: str) -> tuple[str, str | None]:
        """Take new text; returns the text that may go out and the stop string that was found.

        When one was found, the returned text ends right after it and holds all of it.
        """
        stops = self._stops
        advance, state = stops.advance, self._state
        for position, character in enumerate(text):
            state = advance(state, character)
            match = stops.state(state).match if state else None
            if match is not None:
                before = self.finish()
                return before + text[: position + 1], match
        held, waiting = stops.state(self._state), stops.state(state).depth
        self._state = state
        ready = held.depth + len(text) - waiting
        if ready <= held.depth:
            return self._text_of(held, ready), None
        return self._text_of(held, held.depth) + text[: ready - held.depth], None

    def finish(self) -> str:
        """The held text, which nothing can turn into a stop string any more."""
        held = self._stops.state(self._state)
        self._state = _ROOT
        return self._text_of(held, held.depth)

    def _text_of(self, state: _State, length: int) -> str:
        # Held text is a prefix of a stop string by definition, so it need not be stored.
        return self._stops.stops[state.low][:length] if length else ""
