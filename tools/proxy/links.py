"""A client's connection and the one to the server that belongs to it: they live and end together, byte for byte.

Since each client's connection has one of its own behind it, what concerns a single connection (keep-alive, chunks,
trailers, upgrades) holds for the pair and passes as it is. Only a request's Host and base path are changed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Final, cast

import h11

from tools.proxy.frames import Kind, pack_head
from tools.proxy.upstream import Upstream
from tools.proxy.witness import Witness

MAX_HEAD_BYTES: Final = 256 * 1024
"""Of a request's head."""
MAX_HELD_BYTES: Final = 64 * 1024
"""What is held of either side for the other, before the first is read no further."""
CONNECT_TIMEOUT_S: Final = 10.0
_LINGER_S: Final = 2.0
"""How long a client is read that was told of an error of the proxy's own."""
_NOT_FORWARDED: Final = frozenset({b"host", b"proxy-connection", b"proxy-authorization"})


class ClientLink(asyncio.Protocol):
    """What a client sends: read as requests, addressed to the server, passed on."""

    def __init__(self, number: int, upstream: Upstream, witness: Witness, closed: Callable[[ClientLink], None]) -> None:
        self.number = number
        self.upstream = upstream
        self.witness = witness
        self.transport: asyncio.Transport
        self._closed = closed
        self._parser = _parser()
        self._raw = False
        self._over = False
        self._chunked = False
        self._switches = False
        """Behind this request another protocol may be spoken."""
        self._server: ServerLink | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._held: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=MAX_HELD_BYTES)

    def data_received(self, data: bytes) -> None:
        """Pass on, then tell."""
        if self._over:
            return
        if self._connecting is None:
            self.transport.pause_reading()
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        if self._raw:
            self._send(data)
            return
        self._parser.receive_data(data)
        try:
            self._pass_events()
        except h11.RemoteProtocolError as error:
            self.refuse(400, "malformed_http", f"The proxy cannot read this as an HTTP/1.1 request: {error}")

    def pause_writing(self) -> None:
        """The client does not read: read no more of the server."""
        if self._server is not None:
            self._server.transport.pause_reading()

    def resume_writing(self) -> None:
        """It does again."""
        if self._server is not None and not self._server.transport.is_closing():
            self._server.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: so is the server's connection, at once."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._server is not None:
            self._server.transport.abort()
        if not self._over:
            self.witness.tell(Kind.CLIENT_CLOSED, self.number)
        self._over = True
        self._closed(self)

    def server_lost(self) -> None:
        """The server has ended the connection."""
        if not self._over:
            self._over = True
            self.witness.tell(Kind.SERVER_CLOSED, self.number)
            self.transport.close()

    def refuse(self, status: int, code: str, message: str) -> None:
        """Answer in the server's place, and end."""
        if self._over:
            return
        self._over = True
        kind = Kind.UNREACHABLE if status == 502 else Kind.CLIENT_CLOSED
        self.witness.tell(kind, self.number, message.encode())
        if self._server is not None:
            self._server.transport.abort()
        body = json.dumps({"error": message, "error_type": "Proxy Error", "param": None, "code": code}).encode()
        reason = {400: "Bad Request", 502: "Bad Gateway"}[status]
        head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.transport.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        # A connection that is closed with unread bytes is reset, which destroys the answer.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.transport.resume_reading()
        asyncio.get_running_loop().call_later(_LINGER_S, self.transport.close)

    async def _connect(self) -> None:
        upstream = self.upstream
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, server = await asyncio.get_running_loop().create_connection(
                    lambda: ServerLink(self), upstream.host, upstream.port, ssl=upstream.tls
                )
        except (OSError, TimeoutError) as error:
            reason = str(error) or f"no connection within {CONNECT_TIMEOUT_S:g} s"
            self.refuse(502, "unreachable", f"The server {upstream.url} cannot be reached: {reason}")
            return
        if self._over:
            server.transport.abort()
            return
        self._server = server
        self.transport.resume_reading()
        server.transport.write(b"".join(self._held))
        self._held.clear()

    def _send(self, data: bytes) -> None:
        if self._server is None:
            self._held.append(data)
        else:
            self._server.transport.write(data)

    def _pass_events(self) -> None:
        parser = self._parser
        while True:
            event = parser.next_event()
            if isinstance(event, h11.Request):
                self._pass_head(event)
            elif isinstance(event, h11.Data):
                data = bytes(event.data)
                self._send(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
                self.witness.tell(Kind.BODY, self.number, data)
            elif isinstance(event, h11.EndOfMessage):
                self._pass_end(event)
                if self._raw:
                    return
                parser = self._parser
            else:
                return

    def _pass_head(self, request: h11.Request) -> None:
        headers = [(bytes(name), bytes(value)) for name, value in request.headers.raw_items()]
        names = {name.lower() for name, _ in headers}
        self._chunked = b"transfer-encoding" in names
        self._switches = request.method == b"CONNECT" or b"upgrade" in names
        sent = [(name, value) for name, value in headers if name.lower() not in _NOT_FORWARDED]
        target = self.upstream.target(request.target)
        lines = [
            b"%b %b HTTP/%b" % (request.method, target, request.http_version),
            b"Host: " + self.upstream.host_header,
        ]
        lines += [b"%b: %b" % header for header in sent]
        self._send(b"\r\n".join([*lines, b"", b""]))
        self.witness.tell(Kind.REQUEST, self.number, pack_head(request.method, request.target, headers))

    def _pass_end(self, end: h11.EndOfMessage) -> None:
        if self._chunked:
            trailers = b"".join(b"%b: %b\r\n" % (name, value) for name, value in end.headers.raw_items())
            self._send(b"0\r\n" + trailers + b"\r\n")
        self.witness.tell(Kind.END, self.number)
        rest, _ = self._parser.trailing_data
        if self._switches:
            self._raw = True
            self.witness.tell(Kind.RAW, self.number)
            self._send(rest)
            return
        self._parser = _parser()  # the answer is not this parser's business
        if rest:
            self._parser.receive_data(rest)


class ServerLink(asyncio.Protocol):
    """What the server sends: passed on as it comes."""

    def __init__(self, client: ClientLink) -> None:
        self._client = client
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The server takes the connection."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=MAX_HELD_BYTES)

    def data_received(self, data: bytes) -> None:
        """Pass on, then tell."""
        client = self._client
        client.transport.write(data)
        client.witness.tell(Kind.ANSWER, client.number, data)

    def pause_writing(self) -> None:
        """The server does not read: read no more of the client."""
        self._client.transport.pause_reading()

    def resume_writing(self) -> None:
        """It does again."""
        if not self._client.transport.is_closing():
            self._client.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """The server is gone."""
        self._client.server_lost()


def _parser() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
