"""The front's end of the socket to an engine process: never blocks the event loop, in either direction."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable

from engine.wire import EngineCommand, EngineMessage, FrameBuffer, decode, encode

_READ_BYTES = 1 << 18
_READS_A_WAKE = 8
"""The loop gets to other work after so many reads; what is left wakes it again."""


class EngineLink:
    """Commands out, messages in. Every message that was sent before the engine's end is delivered before ``on_end``."""

    def __init__(
        self, connection: socket.socket, on_message: Callable[[EngineMessage], None], on_end: Callable[[], None]
    ) -> None:
        """Start to listen; belongs to the running loop. ``on_end`` is called once, not after ``close``."""
        self._socket = connection
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._on_message = on_message
        self._on_end = on_end
        self._frames = FrameBuffer()
        self._unsent: deque[memoryview] = deque()
        self._open = True
        self._loop.add_reader(self._socket, self._read)

    def send(self, command: EngineCommand) -> None:
        """Send a command, or keep it until the engine takes it; one to an engine that is gone is dropped."""
        if not self._open:
            return
        self._unsent.append(memoryview(encode(command)))
        if len(self._unsent) == 1:
            self._write()

    def end(self) -> None:
        """The engine process is known to be gone: deliver what it still sent, then end."""
        while self._open and self._read_once():
            pass
        self._ended()

    def close(self) -> None:
        """Stop listening; nothing is delivered any more."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
            self._unsent.clear()

    def _read(self) -> None:
        for _ in range(_READS_A_WAKE):
            if not self._open or not self._read_once():
                return

    def _read_once(self) -> bool:
        """Read what one call gives; False when there is nothing more at the moment."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._ended()
            return False
        for payload in self._frames.feed(data):
            message = decode(payload)
            assert isinstance(message, EngineMessage)
            self._on_message(message)
            if not self._open:
                return False
        return True

    def _write(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent[0])
                if sent < len(self._unsent[0]):
                    self._unsent[0] = self._unsent[0][sent:]
                else:
                    self._unsent.popleft()
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self._socket, self._write)
            return
        except OSError:
            self._unsent.clear()  # the read side sees the end and tells
        self._loop.remove_writer(self._socket)

    def _ended(self) -> None:
        if self._open:
            self.close()
            self._on_end()
