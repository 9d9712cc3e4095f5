"""An HTTP server on loopback that answers as a test scripts it, and a network whose every address leads to it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpcore

from handlers.media.connecting import connect

Script = bytes | Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What a server sends before it closes the connection, or what it does with it."""

PUBLIC = "93.184.216.34"
OTHER_PUBLIC = "2606:2800:220:1:248:1893:25c8:1946"


def answer(body: bytes = b"", *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer, without a Content-Length unless ``headers`` have one."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1") + body


def whole(body: bytes) -> bytes:
    """An answer that is as it should be."""
    return answer(body, f"Content-Length: {len(body)}")


def redirect(*locations: str, status: str = "302 Found") -> bytes:
    """A redirect."""
    return answer(b"", *(f"Location: {location}" for location in locations), status=status)


def endless(start: bytes, block: bytes = bytes(65536)) -> Script:
    """Goes on as fast as it is read."""

    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(block)
            await writer.drain()

    return script


def dribble(start: bytes, piece: bytes = b"x", every_s: float = 0.01) -> Script:
    """Goes on for ever, slowly."""

    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every_s)

    return script


def silent(start: bytes = b"") -> Script:
    """Says nothing more, until the other side has gone."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        await reader.read()

    return script


@dataclass
class Network:
    """Names, the server behind all addresses, and what was asked of both."""

    names: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    """Each host's addresses: at the first look-up, at the second and so on; the last stay."""
    scripts: Mapping[str, Script] = field(default_factory=dict)
    """By the target of the request."""
    dead: frozenset[str] = frozenset()
    """Addresses where nobody answers."""
    tls: ssl.SSLContext | None = None

    looked_up: list[str] = field(default_factory=list)
    connected: list[str] = field(default_factory=list)
    """Addresses, in order."""
    ports: list[int] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    """Of requests."""
    open_connections: int = 0
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)
    began: asyncio.Event = field(default_factory=asyncio.Event)
    """A request has come."""
    port: int = 0

    async def resolve(self, host: str, _: int) -> Sequence[str]:
        """A Resolver."""
        self.looked_up.append(host)
        answers = self.names.get(host)
        if answers is None:
            raise OSError("no such name")
        found = answers[min(self.looked_up.count(host), len(answers)) - 1]
        if not found:
            await asyncio.Event().wait()
        return found

    async def connect(self, address: str, port: int, timeout_s: float) -> httpcore.AsyncNetworkStream:
        """A Connector: to the server, whatever the address is."""
        self.connected.append(address)
        self.ports.append(port)
        if address in self.dead:
            raise httpcore.ConnectError
        return await connect("127.0.0.1", self.port, timeout_s)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.open_connections += 1
        self.all_closed.clear()
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            self.began.set()
            script = self.scripts[head.split(b" ", 2)[1].decode()]
            if isinstance(script, bytes):
                writer.write(script)
                await writer.drain()
            else:
                await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self.open_connections -= 1
            if not self.open_connections:
                self.all_closed.set()


@asynccontextmanager
async def running(network: Network) -> AsyncIterator[Network]:
    """The server, until the block ends."""
    server = await asyncio.start_server(network.serve, "127.0.0.1", 0, ssl=network.tls)
    network.port = server.sockets[0].getsockname()[1]
    try:
        yield network
    finally:
        server.close()
