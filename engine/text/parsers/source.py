"""The text that a tool family reads calls from: it grows while it is read, and a reader waits where it ends.

A reader is a generator. Each ``yield`` means "I need more text"; whoever drives it adds text, or says that there is no
more, and resumes it. So one function, written in plain order, reads a whole text and a text in pieces alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator
from typing import Final, TypeVar

from engine.types import CallPiece

_T = TypeVar("_T")
Reading = Generator[None, None, _T]
"""Something that reads on when it is resumed, and gives a value in the end."""

SPACE: Final = " \t\r\n"

_NAME = re.compile(r"[A-Za-z0-9_\-\u4e00-\u9fa5]*")
"""The characters of function names, as the contract has them."""


MOST_CALLS: Final = 1024
"""Calls that one answer has at most, which is what the contract's indices allow; what looks like more is content."""


class NotACall(Exception):
    """What stands here is no tool call: everything after the last kept place is content."""


class Source:
    """One choice's text from some place on, and the calls that are read from it.

    Reading moves ``at``. ``keep`` makes what was read final; until then it can still turn out to be content.
    """

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(names)
        """The functions that may be called."""
        self.text = ""
        self.at = 0
        self.kept = 0
        """Everything before belongs to calls, or has been given away as content."""
        self.ended = False
        """No more text will come."""
        self.calls = 0
        """Calls begun so far."""
        self.in_call = False
        """A call has begun and its arguments have not ended."""
        self._hidden: list[tuple[int, int]] = []
        self._news: list[CallPiece] = []

    # --- for the driver ---

    def add(self, text: str, *, hidden: bool = False) -> None:
        """Add text at the end; ``hidden`` text is a special token that is never shown."""
        if hidden:
            start = len(self.text)
            self._hidden.append((start, start + len(text)))
        self.text += text

    def drop(self, count: int) -> None:
        """Forget the first characters, which have been given away."""
        self.text = self.text[count:]
        self.at -= count
        self.kept -= count
        self._hidden = [(start - count, end - count) for start, end in self._hidden if end > count]

    def shown(self, start: int, end: int) -> str:
        """The text between two places without what is hidden."""
        if not self._hidden:
            return self.text[start:end]
        parts = []
        for hidden_start, hidden_end in self._hidden:
            if start < hidden_end and hidden_start < end:
                parts.append(self.text[start:hidden_start])
                start = hidden_end
        parts.append(self.text[start:end])
        return "".join(parts)

    def take_news(self) -> list[CallPiece]:
        """The pieces of calls since the last time."""
        news, self._news = self._news, []
        return news

    # --- for readers: calls ---

    def begin_call(self, name: str) -> None:
        """A call of this function has certainly begun.

        Raises:
            NotACall: nobody offered this function, or there are too many calls.
        """
        if name not in self.names or self.calls == MOST_CALLS:
            raise NotACall
        self._news.append(CallPiece(self.calls, name, ""))
        self.calls += 1
        self.in_call = True
        self.kept = self.at

    def add_arguments(self, text: str) -> None:
        """More of the arguments of the call that has begun."""
        if text:
            self._news.append(CallPiece(self.calls - 1, None, text))

    def end_call(self) -> None:
        """The arguments are whole."""
        self.in_call = False
        self.kept = self.at

    def keep(self) -> None:
        """What has been read belongs to the form of calls and is no content."""
        self.kept = self.at

    # --- for readers: text ---

    def peek(self) -> Reading[str]:
        """The next character, left in place; "" at the end of the text."""
        while self.at >= len(self.text):
            if self.ended:
                return ""
            yield
        return self.text[self.at]

    def skip(self, characters: str) -> Reading[None]:
        """Go past any of these characters."""
        while (character := (yield from self.peek())) and character in characters:
            self.at += 1

    def maybe(self, literal: str) -> Reading[bool]:
        """Go past this text if it comes next; tell whether it did."""
        while True:
            there = self.text[self.at : self.at + len(literal)]
            if there == literal:
                self.at += len(literal)
                return True
            if self.ended or not literal.startswith(there):
                return False
            yield

    def literal(self, literal: str) -> Reading[None]:
        """Go past this text. Raises NotACall where another stands."""
        if not (yield from self.maybe(literal)):
            raise NotACall

    def name(self) -> Reading[str]:
        """Go past the name of one of the functions. Raises NotACall as soon as no name can come of it."""
        while True:
            match = _NAME.match(self.text, self.at)
            found = match[0] if match else ""
            if self.at + len(found) < len(self.text) or self.ended:
                break
            if not any(name.startswith(found) for name in self.names):
                raise NotACall
            yield
        if found not in self.names:
            raise NotACall
        self.at += len(found)
        return found
