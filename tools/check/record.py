"""One recorded request, wherever it was read, and perhaps its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tools.check.places import line_in


@dataclass(frozen=True, slots=True)
class Recorded:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes | None
    """None where it was not recorded."""
    line: int
    """Where it stands in the file, from 1."""


@dataclass(frozen=True, slots=True)
class Record:
    """A request."""

    source: str
    """The file's name."""
    line: int
    """Where the request, or its body where that stands apart, begins in the file, from 1."""
    body: bytes
    method: str = "POST"
    target: str | None = None
    """Its path or address, where that is known."""
    headers: Mapping[str, str] = field(default_factory=dict)
    answer: Recorded | None = None
    in_place: bool = False
    """The body stands in the file as it is, line by line."""

    def line_of(self, path: str | None) -> int:
        """The line of a member of the body, such as ``messages[0].role``; the body's own where it has no other."""
        return self.line + line_in(self.body, path) if self.in_place and path else self.line


class Unreadable(Exception):
    """What cannot be read: the file, the line, and why."""

    def __init__(self, source: str, line: int | None, reason: str) -> None:
        super().__init__(reason)
        self.source, self.line, self.reason = source, line, reason

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{place}: {self.reason}"
