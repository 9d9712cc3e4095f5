"""Splits the text of one choice into content and tool calls, whole or piece by piece, as its family writes them.

What is no call stays content as it was written. White space around calls belongs to their form and is dropped. Feeding
a text in any pieces gives the same content and the same calls as feeding it at once.
"""

from __future__ import annotations

from collections.abc import Collection

from engine.text.marks import open_tail
from engine.text.parsers.family import ToolFamily
from engine.text.parsers.source import NotACall, Reading, Source
from engine.types import CallPiece


class ToolCallParser:
    """One choice's text on its way into content and calls. Only functions of ``names`` are called."""

    def __init__(self, family: ToolFamily, names: Collection[str]) -> None:
        self._family = family
        self._source = Source(names)
        self._attempt: Reading[None] | None = None
        self._tried_from = 0
        """Where the attempt would have kept the text if it finds no call."""
        self._may_begin = family.at_start
        """A call may stand right here without an opening."""
        self._scanned = 0
        """No opening that is still to be tried begins before this place."""

    @property
    def calls(self) -> int:
        """Calls found so far."""
        return self._source.calls

    @property
    def in_call(self) -> bool:
        """The text so far ends inside a call's arguments."""
        return self._source.in_call

    def feed(self, text: str, *, hidden: bool = False) -> tuple[str, list[CallPiece]]:
        """The content and the pieces of calls that became certain with this text.

        ``hidden`` text is one special token: it may mark a call, and is nothing where it does not.
        """
        self._source.add(text, hidden=hidden)
        return self._go_on()

    def finish(self) -> tuple[str, list[CallPiece]]:
        """What is left at the end of the text."""
        self._source.ended = True
        return self._go_on()

    def _go_on(self) -> tuple[str, list[CallPiece]]:
        source = self._source
        content = []
        while True:
            if self._attempt is None:
                content.append(self._content())
            if self._attempt is None or not self._read_on(self._attempt):
                break
        if self._attempt is None or source.in_call:
            # A reader in the middle of something may remember places, except while it passes arguments on.
            self._scanned = max(0, self._scanned - source.kept)
            self._tried_from -= source.kept
            source.drop(source.kept)
        return "".join(content), source.take_news()

    def _content(self) -> str:
        """Give away what is content for certain, up to where a call may begin, if there is such a place."""
        source = self._source
        text, start = source.text, source.kept
        if self._may_begin:
            self._try_at(start)
            return ""
        found = [place for opening in self._family.openings if (place := text.find(opening, self._scanned)) >= 0]
        if found:
            end = min(found)
        elif source.ended:
            source.kept = len(text)
            rest = source.shown(start, source.kept)
            return "" if source.calls and not rest.strip() else rest
        else:
            held = text[start:]
            end = self._scanned = len(text) - max(open_tail(held, opening) for opening in self._family.openings)
        # White space waits for what follows it: before a call it belongs to the form.
        source.kept = start + len(text[start:end].rstrip())
        if found:
            self._try_at(end)
        return source.shown(start, source.kept)

    def _try_at(self, place: int) -> None:
        self._source.at = place
        self._scanned = place if self._may_begin else place + 1
        self._may_begin = False
        self._tried_from = self._source.kept
        self._attempt = self._family.read(self._source)

    def _read_on(self, attempt: Reading[None]) -> bool:
        """Let the family's reader go on; False where it needs more text."""
        source = self._source
        try:
            next(attempt)
        except (StopIteration, NotACall):
            self._attempt = None
        else:
            return False
        if source.kept > self._tried_from:
            self._scanned = source.kept
            self._may_begin = self._family.at_start
        return True
