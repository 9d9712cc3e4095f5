"""Looks host names up in threads of its own, so that a name server that does not answer holds up nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Addresses of a host, as text and in the order in which to try them. Raises OSError where there are none."""

_MAX_LOOKUPS: Final = 16


class SystemResolver:
    """The system's own look-up. At most 16 run at the same time, counted until they end, however long that takes."""

    def __init__(self) -> None:
        self._running = 0
        self._freed: asyncio.Event | None = None

    async def __call__(self, host: str, port: int) -> list[str]:
        """The addresses of ``host`` for TCP.

        Raises:
            OSError: the name is not known, or cannot be looked up now.
        """
        loop = asyncio.get_running_loop()
        while self._running >= _MAX_LOOKUPS:
            self._freed = self._freed or asyncio.Event()
            await self._freed.wait()
        self._running += 1
        found: asyncio.Future[list[str]] = loop.create_future()

        def ended(result: list[str] | Exception) -> None:
            self._running -= 1
            if self._freed is not None:
                self._freed.set()
                self._freed = None
            if not found.done():
                if isinstance(result, Exception):
                    found.set_exception(result)
                else:
                    found.set_result(result)

        def look_up() -> None:
            result: list[str] | Exception
            try:
                rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                result = list(dict.fromkeys(str(row[4][0]) for row in rows))
            except UnicodeError as error:  # a name that no name server can be asked for
                result = OSError(str(error))
            except Exception as error:
                result = error
            # The loop may have ended meanwhile: nobody waits then.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(ended, result)

        threading.Thread(target=look_up, name="resolver", daemon=True).start()
        return await found
