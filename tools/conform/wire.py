"""HTTP/1.1 with a server that is not trusted: exact bytes out, bounded bytes in, one deadline for each exchange."""

from __future__ import annotations

import queue
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

import h11

Fault = Literal["", "timeout", "connection", "malformed", "too_large"]
MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Of an answer, whole or streamed; more is not read."""
MAX_HEAD_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024
JSON: Final = "application/json"


@dataclass(frozen=True)
class Sent:
    """A request as it goes out; Host, Content-Length and Authorization are added."""

    method: str
    path: str
    """From the root, with the base path."""
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = (("Content-Type", JSON),)
    first_event: bool = False
    """Hang up after the first event of the stream: enough to know that it was accepted."""


@dataclass(frozen=True)
class Got:
    """What came back."""

    status: int = 0
    """0: no head came."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name; of several with one name the last."""
    body: bytes = b""
    fault: Fault = ""

    @property
    def kind(self) -> str:
        """The media type, without parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True)
class Exchange:
    """A request and its answer."""

    sent: Sent
    got: Got


class Transport(Protocol):
    """Whoever carries requests: the wire, or curl."""

    def exchange(self, sent: Sent) -> Exchange:
        """Send and read to the end; a failure is a fault of the answer, never an exception."""
        ...


@dataclass(frozen=True)
class Address:
    """A server's address."""

    host: str
    port: int
    tls: bool

    @classmethod
    def of(cls, url: str) -> Address:
        """The address of ``http://HOST[:PORT]`` or its ``https`` form. Raises ValueError for anything else."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError(f"{url!r} is not of the form http://HOST:PORT or https://HOST:PORT")
        tls = parts.scheme == "https"
        return cls(parts.hostname, parts.port or (443 if tls else 80), tls)

    @property
    def authority(self) -> str:
        """As it stands in a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Without a path."""
        return f"{'https' if self.tls else 'http'}://{self.authority}"


class _Line:
    """A connection and its parser."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self.used = False

    def close(self) -> None:
        self.socket.close()


class Wire:
    """A client with kept connections; threads may share it."""

    def __init__(
        self,
        address: Address,
        *,
        timeout_s: float = 60.0,
        key: str | None = None,
        ca: Path | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        """Args:
        timeout_s: for a whole exchange, from connecting to the last byte.
        key: sent as ``Authorization: Bearer``.
        ca: a PEM file of the authorities to trust instead of the system's. Raises OSError when it cannot be read.
        """
        self.address = address
        self.timeout_s = timeout_s
        self._key = key
        self._max_body_bytes = max_body_bytes
        self._tls = ssl.create_default_context(cafile=str(ca) if ca else None) if address.tls else None
        self._idle: queue.LifoQueue[_Line] = queue.LifoQueue()

    def exchange(self, sent: Sent) -> Exchange:
        """See ``Transport``. A kept connection that turns out to be closed is replaced once."""
        deadline_s = time.monotonic() + self.timeout_s
        try:
            line = self._idle.get_nowait()
        except queue.Empty:
            line = None
        if line is not None:
            got = self._try(line, sent, deadline_s)
            if got.fault != "connection" or got.status:
                return Exchange(sent, got)
        try:
            fresh = self._connect(deadline_s)
        except TimeoutError:
            return Exchange(sent, Got(fault="timeout"))
        except OSError:
            return Exchange(sent, Got(fault="connection"))
        return Exchange(sent, self._try(fresh, sent, deadline_s))

    def close(self) -> None:
        """Close all kept connections."""
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _connect(self, deadline_s: float) -> _Line:
        address = (self.address.host, self.address.port)
        connection = socket.create_connection(address, timeout=_left_s(deadline_s))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_hostname=self.address.host)
        return _Line(connection)

    def _try(self, line: _Line, sent: Sent, deadline_s: float) -> Got:
        got = self._answer(line, sent, deadline_s)
        states = line.parser.states
        if got.fault or sent.first_event or states != {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
            line.close()
        else:
            line.parser.start_next_cycle()
            self._idle.put(line)
        return got

    def _answer(self, line: _Line, sent: Sent, deadline_s: float) -> Got:
        """Write and read. What had come when something failed is kept beside the fault."""
        got, body, heard = Got(), bytearray(), False
        try:
            try:
                line.socket.settimeout(_left_s(deadline_s))
                line.socket.sendall(self._bytes(line.parser, sent))
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may have answered before the end of the body
            while True:
                event = line.parser.next_event()
                if event is h11.NEED_DATA:
                    line.socket.settimeout(_left_s(deadline_s))
                    data = line.socket.recv(_READ_BYTES)
                    heard = heard or bool(data)
                    line.parser.receive_data(data)
                elif isinstance(event, h11.Response):
                    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
                    got = Got(event.status_code, headers)
                elif isinstance(event, h11.Data):
                    body += event.data
                    if len(body) > self._max_body_bytes:
                        return _with(got, body, "too_large")
                    if sent.first_event and b"\n\n" in body:
                        return _with(got, body, "")
                elif isinstance(event, h11.EndOfMessage):
                    return _with(got, body, "")
                elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                    return _with(got, body, "connection")
        except TimeoutError:
            return _with(got, body, "timeout")
        except h11.RemoteProtocolError:
            return _with(got, body, "malformed" if heard else "connection")
        except OSError:
            return _with(got, body, "connection")

    def _bytes(self, parser: h11.Connection, sent: Sent) -> bytes:
        headers = [("Host", self.address.authority), *sent.headers, ("Content-Length", str(len(sent.body)))]
        if self._key is not None:
            headers.append(("Authorization", f"Bearer {self._key}"))
        head = parser.send(h11.Request(method=sent.method, target=sent.path, headers=headers)) or b""
        body = parser.send(h11.Data(sent.body)) or b"" if sent.body else b""
        return head + body + (parser.send(h11.EndOfMessage()) or b"")


def _with(got: Got, body: bytearray, fault: Fault) -> Got:
    return Got(got.status, got.headers, bytes(body), fault)


def _left_s(deadline_s: float) -> float:
    """Seconds left. Raises TimeoutError when there are none."""
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
