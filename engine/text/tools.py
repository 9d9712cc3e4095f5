"""Finds tool calls of the Hermes form in generated text, whole or piece by piece.

A call is ``<tool_call>`` + one JSON object with a name and an arguments object + ``</tool_call>``. Feeding a text in
any pieces gives the same content and the same calls as feeding it at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

OPEN: Final = "<tool_call>"
CLOSE: Final = "</tool_call>"

# The beginning of a call whose arguments can be passed on while they arrive.
_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*"((?:[^"\\]|\\.)*)"\s*,\s*"arguments"\s*:\s*(?=\{)')


@dataclass(frozen=True, slots=True)
class CallPiece:
    """News of one call: its name in the first piece, and more of its arguments' JSON text."""

    index: int
    """The call's place in the answer, from 0."""
    name: str | None
    arguments: str


Piece = str | CallPiece
"""Content text, or news of a call."""


class ToolCallParser:
    """Splits one choice's text into content and calls.

    Only calls of ``names`` count; anything else, and anything malformed, stays content as it was written. White space
    around calls belongs to the form and is dropped. ``cut_short`` is true after ``finish`` when the text ended
    inside a call whose arguments had begun.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        self._held = ""
        self._gap = ""  # white space before the tag, which comes back where there is no call
        self._inside = False
        self._streaming: _Arguments | None = None
        self._calls = 0
        self.cut_short = False

    @property
    def calls(self) -> int:
        """Calls found so far."""
        return self._calls

    def feed(self, text: str) -> list[Piece]:
        """The content and call pieces that became certain with this text."""
        self._held += text
        return [piece for piece in self._take(final=False) if piece != ""]

    def finish(self) -> list[Piece]:
        """What is left at the end of the text."""
        pieces = [piece for piece in self._take(final=True) if piece != ""]
        if self._streaming is not None:
            self.cut_short = not self._streaming.complete
        elif self._inside:
            pieces.append(self._gap + OPEN + self._held)
        self._held = ""
        return pieces

    def _take(self, *, final: bool) -> Iterator[Piece]:
        while True:
            before = (self._inside, len(self._held), self._streaming)
            if not self._inside:
                yield from self._content(final=final)
            elif self._streaming is None:
                yield from self._begin()
            else:
                yield from self._continue(self._streaming)
            if (self._inside, len(self._held), self._streaming) == before:
                return

    def _content(self, *, final: bool) -> Iterator[Piece]:
        start = self._held.find(OPEN)
        if start >= 0:
            content = self._held[:start].rstrip()
            yield content
            self._gap = self._held[len(content) : start]
            self._held = self._held[start + len(OPEN) :]
            self._inside = True
            return
        if final:
            keep = 0 if self._held.strip() or not self._calls else len(self._held)
            yield self._held[: len(self._held) - keep]
            self._held = ""
            return
        certain = len(self._held) - _open_tail(self._held)
        certain = len(self._held[:certain].rstrip())
        yield self._held[:certain]
        self._held = self._held[certain:]

    def _begin(self) -> Iterator[Piece]:
        """Just after ``<tool_call>``: pass arguments on as they come, or wait for the whole call."""
        head = _HEAD.match(self._held)
        if head is not None and (name := _unquoted(head[1])) in self._names:
            self._held = self._held[head.end() :]
            self._streaming = _Arguments(self._calls)
            self._calls += 1
            yield CallPiece(self._streaming.index, name, "")
            return
        end = self._held.find(CLOSE)
        if end < 0:
            return
        inside, self._held = self._held[:end], self._held[end + len(CLOSE) :]
        self._inside = False
        call = _whole_call(inside, self._names)
        if call is None:
            yield self._gap + OPEN + inside + CLOSE
            return
        yield CallPiece(self._calls, call[0], call[1])
        self._calls += 1

    def _continue(self, arguments: _Arguments) -> Iterator[Piece]:
        taken = arguments.scan(self._held)
        if taken:
            yield CallPiece(arguments.index, None, self._held[:taken])
            self._held = self._held[taken:]
        end = self._held.find(CLOSE) if arguments.complete else -1
        if end >= 0:
            # Only the closing brace belongs between the arguments and the end tag. Whatever else a model writes there
            # cannot be taken back to content, since the call has been passed on.
            self._held = self._held[end + len(CLOSE) :]
            self._inside = False
            self._streaming = None


class _Arguments:
    """Follows one JSON object through arriving text, to find where it ends."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.complete = False
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def scan(self, text: str) -> int:
        """How many characters of ``text`` belong to the object."""
        if self.complete:
            return 0
        for position, character in enumerate(text):
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                elif character == "\\":
                    self._escaped = True
                elif character == '"':
                    self._in_string = False
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self.complete = True
                    return position + 1
        return len(text)


def _open_tail(text: str) -> int:
    """Length of the longest end of ``text`` that may become ``<tool_call>``."""
    for length in range(min(len(OPEN) - 1, len(text)), 0, -1):
        if OPEN.startswith(text[-length:]):
            return length
    return 0


def _unquoted(inner: str) -> str | None:
    try:
        name = json.loads(f'"{inner}"')
    except ValueError:
        return None
    return name if isinstance(name, str) else None


def _whole_call(text: str, names: Collection[str]) -> tuple[str, str] | None:
    """(name, arguments text) of a call written in another order, or None when it is no call."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("name") not in names:
        return None
    arguments = value.get("arguments", {})
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
        return (value["name"], arguments) if isinstance(parsed, dict) else None
    if not isinstance(arguments, dict):
        return None
    return value["name"], json.dumps(arguments, ensure_ascii=False)
