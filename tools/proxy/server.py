"""Runs the proxy: listens, hands each connection to its pair of links, and ends on a signal with the counts."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Callable, Sequence
from typing import Final

from handlers.links import connections_allowed
from tools.proxy.links import ClientLink
from tools.proxy.upstream import Upstream
from tools.proxy.witness import Witness

MAX_CONNECTIONS: Final = 4096
"""Clients' connections at the same time, where the system allows as many files; one more is closed at once."""
CRASHED: Final = 70
"""The exit code where the process that judges ended by itself."""
_BACKLOG: Final = 1024


class Proxy:
    """The links of all clients."""

    def __init__(self, upstream: Upstream, witness: Witness, most: int = MAX_CONNECTIONS) -> None:
        """``most``: clients' connections at the same time."""
        self._upstream = upstream
        self._witness = witness
        self._most = most
        self._links: set[ClientLink] = set()
        self._numbers = itertools.count(1)

    def link(self) -> asyncio.Protocol:
        """The protocol of a client that has just come."""
        if len(self._links) >= self._most:
            return _Closed()
        link = ClientLink(next(self._numbers), self._upstream, self._witness, self._links.discard)
        self._links.add(link)
        return link

    def close(self) -> None:
        """End every connection."""
        for link in list(self._links):
            link.transport.abort()


class _Closed(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


async def serve(
    upstream: Upstream, host: str, port: int, options: Sequence[str], announce: Callable[[str], None]
) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit code.

    Args:
        upstream: where requests go.
        host: where to listen.
        port: where to listen; 0 for any that is free.
        options: of the process that judges.
        announce: told the address once it is listened to.

    Raises:
        OSError: the address cannot be listened to.
    """
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    witness: Witness | None = None
    lost = True
    proxies: list[Proxy] = []
    server = await loop.create_server(lambda: proxies[0].link(), host, port, backlog=_BACKLOG, start_serving=False)
    try:
        witness = await Witness.start(options)
        proxies.append(Proxy(upstream, witness, connections_allowed(2 * MAX_CONNECTIONS) // 2))
        await server.start_serving()
        name, number = server.sockets[0].getsockname()[:2]
        shown = f"[{name}]" if ":" in name else name
        announce(f"mindspec proxies {upstream.url} on http://{shown}:{number}")
        ended = loop.create_task(witness.process.wait())
        await asyncio.wait({ended, loop.create_task(stopped.wait())}, return_when=asyncio.FIRST_COMPLETED)
        lost = not stopped.is_set()
        proxies[0].close()
        await asyncio.sleep(0)
    finally:
        server.close()
        code = CRASHED if witness is None else await witness.finish()
    return CRASHED if lost else code
