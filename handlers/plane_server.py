"""uvicorn's server for one listener: listens while the model loads, and ends without dropping a connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Generator
from functools import partial
from types import FrameType
from typing import Any, Final, cast

import uvicorn
from starlette.types import ASGIApp

from handlers.last_connections import take_no_more
from handlers.link_protocol import LinkProtocol
from handlers.links import Links
from handlers.listeners import BACKLOG, Listener

CLOSE_TIME_S: Final = 3.0
"""What connections get to close after the last answer, in seconds."""
_LAST_ACCEPT_S: Final = 0.05
"""What the system still holds for the listener is taken in so long."""
_ACCEPT_AT_ONCE: Final = 128
"""Connections that are taken before the loop gets to other work."""


class PlaneServer(uvicorn.Server):
    """Signals and the end are ``ApiServer``'s."""

    def __init__(
        self, app: ASGIApp, listener: Listener, links: Links, *, lifespan: bool, on_started: Callable[[], None]
    ) -> None:
        limits = links.context.limits
        config = uvicorn.Config(
            app,
            http=cast(Any, partial(LinkProtocol, links=links)),  # it asks for a class, and only calls it
            ws="none",
            lifespan="on" if lifespan else "off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=cast(int, limits.keep_alive_s),  # handed to call_later as it is
            timeout_graceful_shutdown=int(CLOSE_TIME_S),
            h11_max_incomplete_event_size=limits.max_header_bytes,
        )
        config.load()
        config.ssl = listener.ssl_context
        super().__init__(config)
        self._listener = listener
        self._links = links
        self._on_started = on_started

    async def run_listener(self) -> None:
        """Serve until ``should_exit``."""
        await self.serve(sockets=[self._listener.socket])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen at once, while the model loads."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:  # it has logged why
            self.should_exit = True
            return
        config, listening = self.config, self._listener.socket
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: config.http_protocol_class(  # type: ignore[call-arg] # uvicorn's protocols take these
                config=config, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop
            ),
            sock=listening,
            ssl=config.ssl,
            ssl_handshake_timeout=None if config.ssl is None else self._links.context.limits.header_timeout_s,
            backlog=_ACCEPT_AT_ONCE,
        )
        listening.listen(BACKLOG)  # the loop has set it to the number above
        self.servers = [server]
        self.started = True
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer every connection that there is, and let no other be made, before the socket is closed."""
        self._links.stopping = True
        take_no_more(self._listener.socket)
        await asyncio.sleep(_LAST_ACCEPT_S)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Nothing: there are several of these on one loop."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Nothing, for the same reason."""
