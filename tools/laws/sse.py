"""Cuts server-sent events out of the bytes of a stream, as they come."""

from __future__ import annotations

from typing import Final

MOST_EVENT_BYTES: Final = 64 * 2**20
"""An event without an end is given up at this size."""
_FIELDS: Final = (b"event", b"id", b"retry")


class EventTooLarge(ValueError):
    """An event is larger than ``MOST_EVENT_BYTES``."""


class Cutter:
    """The events of one stream; lines may end in any of the three ways that the HTML standard allows."""

    def __init__(self) -> None:
        self._rest = b""
        self._line_feeds = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that are whole now, each without its closing empty line.

        Raises:
            EventTooLarge: nothing more can be cut.
        """
        if b"\r" in chunk or not self._line_feeds:
            chunk = self._plain(chunk)
        rest = self._rest + chunk if self._rest else chunk
        if rest.find(b"\n\n", max(len(self._rest) - 1, 0)) < 0:
            if len(rest) > MOST_EVENT_BYTES:
                self._rest = b""
                raise EventTooLarge(f"an event is larger than {MOST_EVENT_BYTES} bytes")
            self._rest = rest
            return []
        *events, self._rest = rest.split(b"\n\n")
        return [event.strip(b"\n") for event in events if event.strip(b"\n")]

    def left(self) -> bytes:
        """What came after the last empty line."""
        return self._rest.strip(b"\n")

    def _plain(self, chunk: bytes) -> bytes:
        """The chunk with line feeds alone; a carriage return at its end waits for what may follow it."""
        chunk = (b"" if self._line_feeds else b"\r") + chunk
        self._line_feeds = not chunk.endswith(b"\r")
        return chunk.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def data_of(event: bytes) -> bytes | None:
    """The data of an event, None where it has none but comments or other fields.

    Raises:
        ValueError: a line is none of a server-sent event.
    """
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    data: list[bytes] = []
    for line in event.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name and name not in _FIELDS:
            raise ValueError(f"{line[:60].decode('utf-8', 'replace')!r} is no line of a server-sent event")
    return b"\n".join(data) if data else None
