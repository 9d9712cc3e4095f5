"""The client of a server that is not trusted: every way to misbehave is a named fault, and nothing is read for ever."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tools.conform.wire import Address, Got, Sent, Wire

SENT = Sent("POST", "/v1/completions", b"{}")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[Address]:
    """A server that reads a request and lets ``answer`` do the rest, connection by connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    while connection.recv(65536):
                        answer(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield Address("127.0.0.1", listener.getsockname()[1], tls=False)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def asked(answer: Callable[[socket.socket], None], sent: Sent = SENT, **options: float) -> Got:
    """What one request gets."""
    with serving(answer) as address:
        wire = Wire(address, timeout_s=options.get("timeout_s", 20.0), max_body_bytes=int(options.get("most", 10**6)))
        try:
            return wire.exchange(sent).got
        finally:
            wire.close()


def drip(connection: socket.socket, piece: bytes) -> None:
    """Send a piece again and again, until the other side has gone."""
    while True:
        connection.sendall(piece)
        time.sleep(0.01)


def test_an_answer_is_read() -> None:
    """Status, headers in lower case and the body."""
    got = asked(lambda connection: connection.sendall(HEAD + b"X-One: 1\r\nContent-Length: 2\r\n\r\n{}"))
    assert (got.status, got.headers["x-one"], got.kind, got.body, got.fault) == (
        200,
        "1",
        "application/json",
        b"{}",
        "",
    )


def test_connections_are_kept_and_replaced_when_they_are_closed() -> None:
    """Two requests in turn are both answered, whether the server keeps the connection or drops it."""
    for ending in (lambda connection: None, lambda connection: connection.shutdown(socket.SHUT_RDWR)):

        def answer(connection: socket.socket, ending: Callable[[socket.socket], None] = ending) -> None:
            connection.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")
            ending(connection)

        with serving(answer) as address:
            wire = Wire(address, timeout_s=20)
            assert [wire.exchange(SENT).got.status for _ in range(3)] == [200, 200, 200]
            wire.close()


def cut(connection: socket.socket) -> None:
    """Half of the body that was promised."""
    connection.sendall(HEAD + b"Content-Length: 9\r\n\r\n{}")
    connection.shutdown(socket.SHUT_RDWR)


FAULTS = {
    "garbage": (lambda connection: connection.sendall(b"no http at all\r\n\r\n"), "malformed"),
    "closed": (lambda connection: connection.shutdown(socket.SHUT_RDWR), "connection"),
    "endless body": (lambda connection: drip(connection, HEAD + b"\r\n" + b"x" * 65536), "too_large"),
    "endless headers": (lambda connection: drip(connection, HEAD + b"x: " + b"y" * 65536), "malformed"),
    "cut body": (cut, "malformed"),
    "bad chunk": (
        lambda connection: connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
        "malformed",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_misbehaving_server_is_a_named_fault(name: str) -> None:
    """No exception, no endless reading: the fault says what it was."""
    answer, fault = FAULTS[name]
    assert asked(answer).fault == fault


def test_a_server_that_drips_is_given_up_at_the_deadline() -> None:
    """The deadline is for the whole exchange, not for one read."""

    def slowly(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"Content-Length: 9000\r\n\r\n")
        drip(connection, b"x")

    got = asked(slowly, timeout_s=0.3)
    assert (got.status, got.fault) == (200, "timeout")
    assert got.body.startswith(b"x")


def test_nobody_there_is_a_named_fault() -> None:
    """A refused connection."""
    with serving(lambda connection: None) as address:
        pass
    assert Wire(address, timeout_s=5).exchange(SENT).got == Got(fault="connection")


def test_the_first_event_is_enough_where_that_was_asked() -> None:
    """The rest of an endless stream is not waited for."""
    event = b"9\r\ndata: x\n\n\r\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    got = asked(lambda connection: drip(connection, head + event), Sent("POST", "/x", b"{}", first_event=True))
    assert (got.status, got.body[:9], got.fault) == (200, b"data: x\n\n", "")


@pytest.mark.parametrize("url", ["ftp://a", "a:1", "http://", "http://a/v1", "http://a?x"])
def test_only_plain_addresses_are_taken(url: str) -> None:
    """A path belongs to --base-path."""
    with pytest.raises(ValueError, match="not of the form"):
        Address.of(url)
