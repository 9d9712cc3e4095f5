"""What the proxy tells the process that judges: frames on a pipe, each a kind, a connection, a time and bytes."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import BinaryIO, Final

_HEAD: Final = struct.Struct("<BQdI")
MAX_FRAME_BYTES: Final = 2**32 - 1


class Kind(enum.IntEnum):
    """What a frame tells."""

    REQUEST = 1
    """A request has begun: method, target and headers, as ``pack_head`` writes them."""
    BODY = 2
    """Bytes of its body."""
    END = 3
    """It is whole."""
    ANSWER = 4
    """Bytes from the server, as they came."""
    SERVER_CLOSED = 5
    """The connection is over, and the server ended it."""
    CLIENT_CLOSED = 6
    """The connection is over, and the client ended it, or the proxy."""
    RAW = 7
    """From here on the connection speaks something else than HTTP/1.1."""
    UNREACHABLE = 8
    """The server could not be reached; the payload is why."""
    SKIPPED = 9
    """What came on the connection is not told, since too much waits to be judged."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One of them."""

    kind: Kind
    link: int
    """Number of the client's connection."""
    time_s: float
    """Seconds since 1970."""
    payload: bytes = b""

    def packed(self) -> bytes:
        """As it is written."""
        return _HEAD.pack(self.kind, self.link, self.time_s, len(self.payload)) + self.payload


def read_frame(source: BinaryIO) -> Frame | None:
    """The next frame; None at the end, or where the writer died within one."""
    head = source.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    kind, link, time_s, length = _HEAD.unpack(head)
    payload = source.read(length)
    return Frame(Kind(kind), link, time_s, payload) if len(payload) == length else None


def pack_head(method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Method, target and headers as lines; none of them has a line end in it."""
    return b"\n".join([method, target, *(part for header in headers for part in header)])


def unpack_head(payload: bytes) -> tuple[bytes, bytes, list[tuple[bytes, bytes]]]:
    """What ``pack_head`` was given."""
    method, target, *rest = payload.split(b"\n")
    return method, target, list(zip(rest[::2], rest[1::2], strict=True))
