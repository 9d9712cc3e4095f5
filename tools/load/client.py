"""One HTTP exchange with a server on this machine: bytes stamped on arrival, and read only when the load is over."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import h11

_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)

Ending = Literal["whole", "cut", "lost", "timeout", "refused"]
"""The answer's end was seen; we hung up; the server hung up; it took too long; there was no connection."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server on this machine."""

    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Address:
        """The address of an ``http`` URL.

        Raises:
            ValueError: it is no such URL, or leads to another machine.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError(f"{url!r} is not of the form http://HOST:PORT")
        if not is_loopback(parts.hostname):
            raise ValueError(f"{url!r} leads to another machine; only loopback addresses are loaded")
        return cls(parts.hostname, parts.port or 80)


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own, without asking a name server."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(slots=True)
class Exchange:
    """A request and all that came back, raw."""

    sent_s: float
    """When the connection was asked for, on ``time.perf_counter``'s clock."""
    reads: list[tuple[float, bytes]] = field(default_factory=list)
    """When each piece arrived, on the same clock, and its bytes."""
    ending: Ending = "lost"
    ended_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Reply:
    """An exchange, read: the body's pieces keep the time at which they came."""

    status: int
    """0: no head came."""
    pieces: list[tuple[float, bytes]]
    whole: bool

    @property
    def body(self) -> bytes:
        """The pieces joined."""
        return b"".join(data for _, data in self.pieces)


class _Collector(asyncio.Protocol):
    """Stores what arrives; decides only whether the answer is over."""

    def __init__(self, exchange: Exchange, request: bytes) -> None:
        self.over: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._exchange = exchange
        self._request = request
        self._head: bytes | None = b""
        self._left: int | None = None
        """Bytes of the body to come, where the head says so."""
        self._tail = b""
        self._chunked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._exchange.reads.append((time.perf_counter(), data))
        if self._head is not None:
            self._head += data
            head, found, data = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            self._head = None
            self._chunked = bool(_CHUNKED.search(head))
            if not self._chunked and (length := _LENGTH.search(head)):
                self._left = int(length[1])
        if self._chunked:
            # A JSON text holds no bare line ends, so this cannot be a part of the content.
            self._tail = (self._tail + data)[-len(_LAST_CHUNK) :]
            if self._tail == _LAST_CHUNK or self._tail == _LAST_CHUNK[2:]:
                self._finish("whole")
        elif self._left is not None:
            self._left -= len(data)
            if self._left <= 0:
                self._finish("whole")

    def connection_lost(self, exc: Exception | None) -> None:
        unframed = self._head is None and not self._chunked and self._left is None
        self._finish("whole" if unframed and exc is None else "lost")

    def _finish(self, ending: Ending) -> None:
        if not self.over.done():
            self.over.set_result(ending)


def request_bytes(method: str, address: Address, path: str, body: Mapping[str, Any] | None) -> bytes:
    """A whole HTTP/1.1 request that asks for the connection to be closed afterwards."""
    data = b"" if body is None else json.dumps(body).encode()
    host = f"[{address.host}]" if ":" in address.host else address.host
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}:{address.port}", "Connection: close"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    return "\r\n".join([*lines, "", ""]).encode() + data


async def exchange(
    address: Address,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = 600.0,
    cut_after_s: float | None = None,
) -> Exchange:
    """POST ``body`` (or GET, without one) on a connection of its own, until the answer's last byte.

    It raises nothing for a failed connection: ``ending`` tells.

    Args:
        timeout_s: after so many seconds the connection is dropped, and the ending is "timeout".
        cut_after_s: hang up in the middle, like a client that goes away.
    """
    request = request_bytes("GET" if body is None else "POST", address, path, body)
    done = Exchange(time.perf_counter())
    limit_s = timeout_s if cut_after_s is None else min(timeout_s, cut_after_s)
    transport: asyncio.Transport | None = None
    try:
        async with asyncio.timeout(limit_s):
            transport, collector = await asyncio.get_running_loop().create_connection(
                lambda: _Collector(done, request), address.host, address.port
            )
            done.ending = await collector.over
    except TimeoutError:
        done.ending = "timeout" if cut_after_s is None or cut_after_s > timeout_s else "cut"
    except OSError:
        done.ending = "refused"
    finally:
        if transport is not None:
            transport.abort()
    done.ended_s = time.perf_counter()
    return done


def read(done: Exchange) -> Reply:
    """The status and the body's pieces; whatever came of a broken answer is kept."""
    parser = h11.Connection(our_role=h11.CLIENT)
    parser.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    parser.send(h11.EndOfMessage())
    status, whole = 0, False
    pieces: list[tuple[float, bytes]] = []
    feed = [*done.reads, (done.ended_s, b"")] if done.ending == "whole" else done.reads
    try:
        for arrived_s, data in feed:
            parser.receive_data(data)
            while (event := parser.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, h11.Data):
                    pieces.append((arrived_s, bytes(event.data)))
                elif isinstance(event, h11.EndOfMessage):
                    whole = True
                elif isinstance(event, h11.ConnectionClosed):
                    break
            if whole:
                break
    except h11.RemoteProtocolError:
        whole = False
    return Reply(status, pieces, whole)
