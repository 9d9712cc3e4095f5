"""A connection's transport: gives up on a client that takes nothing, and closes so that the last answer arrives."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final

TAKEN_BYTES: Final = 65_536
"""What a client has to take in a period, where there is so much for it."""


class LinkTransport(asyncio.Transport):
    """Stands before asyncio's own transport.

    A socket that is closed with unread bytes sends a reset, which destroys what the client has not read yet. So where
    the client may still be sending, ``close`` ends only this side, what comes is read and dropped for a while, and the
    socket is closed when the client has closed too.
    """

    def __init__(
        self,
        inner: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        write_timeout_s: float,
        linger_s: Callable[[], float],
    ) -> None:
        """Args:
        inner: the transport.
        loop: its loop.
        write_timeout_s: how long a client has to take ``TAKEN_BYTES``, or all.
        linger_s: asked when this side closes: how long to read on; 0 closes at once.
        """
        super().__init__()
        self._inner = inner
        self._loop = loop
        self._write_timeout_s = write_timeout_s
        self._linger_s = linger_s
        self._closing = False
        self._written = 0
        self._taken_before = 0
        self._stalling: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None

    def limit_send_buffer(self, size: int) -> None:
        """Let the system keep so many bytes for a client that does not read."""
        found = self._inner.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def lost(self) -> None:
        """The connection is over."""
        self._closing = True
        for timer in (self._stalling, self._lingering):
            if timer is not None:
                timer.cancel()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """See asyncio; what the client does not take in time ends the connection."""
        if self.is_closing():
            return
        self._written += len(data)
        self._inner.write(data)
        if self._stalling is None and self._unsent:
            self._watch_writing()

    def close(self) -> None:
        """Close this side now, the socket when all has been sent and nothing more is to be read."""
        if self._closing or self._inner.is_closing():
            return
        self._closing = True
        linger_s = self._linger_s()
        if linger_s <= 0:
            self._inner.close()
            return
        if self._inner.can_write_eof():
            with contextlib.suppress(OSError):  # the client has gone
                self._inner.write_eof()
        self._inner.resume_reading()
        self._lingering = self._loop.call_later(linger_s, self._inner.close)

    def close_now(self) -> None:
        """Read no more; what has been written is still sent."""
        self._inner.close()

    def abort(self) -> None:
        """Close at once."""
        self._inner.abort()

    def is_closing(self) -> bool:
        """This side is closed."""
        return self._closing or self._inner.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See asyncio."""
        return self._inner.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """See asyncio."""
        if not self.is_closing():
            self._inner.pause_reading()

    def resume_reading(self) -> None:
        """See asyncio."""
        if not self._inner.is_closing():
            self._inner.resume_reading()

    @property
    def _unsent(self) -> int:
        return self._inner.get_write_buffer_size()

    def _watch_writing(self) -> None:
        self._taken_before = self._written - self._unsent
        self._stalling = self._loop.call_later(self._write_timeout_s, self._check_writing)

    def _check_writing(self) -> None:
        self._stalling = None
        if not self._unsent:
            return
        if self._written - self._unsent - self._taken_before < TAKEN_BYTES:
            self._inner.abort()
        else:
            self._watch_writing()
