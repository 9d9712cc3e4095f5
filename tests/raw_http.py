"""A client that writes bytes as they are, and says exactly what came back and how the connection ended."""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TIME_S = 30.0


@dataclass(frozen=True)
class Heard:
    """What came back on a connection until its end."""

    raw: bytes
    reset: bool
    """It did not end properly."""

    @property
    def status(self) -> int:
        """Of the first answer; 0 for none."""
        return int(self.raw.split(b" ", 2)[1]) if self.raw.startswith(b"HTTP/1.1 ") else 0

    @property
    def headers(self) -> dict[str, str]:
        """Of the first answer, in lower case."""
        lines = self.raw.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def body(self) -> Any:
        """Of the only answer, parsed; its length must be the one that its head says."""
        text = self.raw.partition(b"\r\n\r\n")[2]
        assert len(text) == int(self.headers["content-length"])
        return json.loads(text)

    @property
    def told(self) -> tuple[int, str, bool]:
        """The status, the error's code, and whether the connection was broken."""
        return self.status, self.body["code"], self.reset


def connect(url: str, receive_bytes: int | None = None) -> socket.socket:
    """A connection; ``receive_bytes``: what the system may keep for us unread."""
    made = socket.socket()
    made.settimeout(TIME_S)
    if receive_bytes is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    parts = urlsplit(url)
    made.connect((parts.hostname, parts.port))
    return made


def hear(connection: socket.socket) -> Heard:
    """Read until the server closes, then close."""
    pieces = []
    try:
        with connection:
            while piece := connection.recv(65536):
                pieces.append(piece)
    except OSError:
        return Heard(b"".join(pieces), True)
    return Heard(b"".join(pieces), False)


def hear_one(connection: socket.socket) -> Heard:
    """Read one answer whose length its head says; the connection stays open."""
    heard = Heard(b"", False)
    while b"\r\n\r\n" not in heard.raw or len(heard.raw.partition(b"\r\n\r\n")[2]) < int(
        heard.headers["content-length"]
    ):
        piece = connection.recv(65536)
        assert piece
        heard = Heard(heard.raw + piece, False)
    return heard


def talk(url: str, data: bytes) -> Heard:
    """Send ``data``, as far as it is taken, and read until the server closes."""
    connection = connect(url)
    with contextlib.suppress(OSError):
        connection.sendall(data)
    return hear(connection)


def post(path: str, body: dict[str, Any], *headers: str) -> bytes:
    """The bytes of a request."""
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: here", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + data
