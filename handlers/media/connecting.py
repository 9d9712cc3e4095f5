"""Connections to IP addresses that were checked, in place of httpcore's own, which look names up again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import httpcore

Connector = Callable[[str, int, float], Awaitable[httpcore.AsyncNetworkStream]]
"""Connects to an IP address and port within so many seconds. Raises ConnectError or ConnectTimeout of httpcore."""

_MAX_ADDRESSES: Final = 8
"""Of one host that are tried."""


async def connect(address: str, port: int, timeout_s: float) -> httpcore.AsyncNetworkStream:
    """A ``Connector`` to where it is told."""
    return await httpcore.AnyIOBackend().connect_tcp(address, port, timeout_s)


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Makes one connection, to the first of ``addresses`` that answers."""

    def __init__(self, addresses: Sequence[str], connector: Connector, connect_s: float) -> None:
        self._addresses = addresses[:_MAX_ADDRESSES]
        self._connect = connector
        self._connect_s = connect_s
        self._stream: httpcore.AsyncNetworkStream | None = None

    @property
    def connected(self) -> bool:
        """Whether there was a connection."""
        return self._stream is not None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect, whatever ``host`` is: it was looked up. The addresses share the time."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._connect_s
        failure: Exception = httpcore.ConnectError()
        for index, address in enumerate(self._addresses):
            left_s = max(until_s - loop.time(), 0) / (len(self._addresses) - index)
            try:
                self._stream = await self._connect(address, port, left_s)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return self._stream
        raise failure

    async def close(self) -> None:
        """Close the connection; httpcore leaves one open that is cancelled while it agrees on TLS."""
        if self._stream is not None:
            await self._stream.aclose()
