"""The guard in conftest.py: no test reaches another machine, and loopback goes on working."""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from pathlib import Path

import pytest


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
@pytest.mark.parametrize(
    ("family", "address"),
    # Addresses that the standards keep for documentation: nobody answers there, should the guard fail.
    [
        (socket.AF_INET, ("192.0.2.1", 9)),
        (socket.AF_INET6, ("2001:db8::1", 9)),
        (socket.AF_INET, ("example.invalid", 9)),
    ],
)
def test_a_connection_to_another_machine_is_refused(method: str, family: int, address: tuple[str, int]) -> None:
    """By address and by name, in both versions of the protocol."""
    with socket.socket(family) as client:
        client.settimeout(0.1)
        with pytest.raises(Exception, match="tests may use loopback only"):
            getattr(client, method)(address)


def test_a_name_of_another_machine_is_not_looked_up() -> None:
    """A client library is stopped before it asks a name server, and cannot mistake it for a network failure."""
    with pytest.raises(Exception, match=r"asked for the address of 'example\.invalid'") as caught:
        urllib.request.urlopen("http://example.invalid/")
    assert not isinstance(caught.value, OSError)


@pytest.mark.parametrize("name", ["gethostbyname", "gethostbyname_ex"])
def test_no_older_way_of_looking_up_is_open(name: str) -> None:
    """Each of them asks a name server."""
    with pytest.raises(Exception, match=r"asked for the address of 'example\.invalid'"):
        getattr(socket, name)("example.invalid")


def test_no_datagram_leaves_this_machine() -> None:
    """It needs no connection."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here,
    ):
        with pytest.raises(Exception, match="tests may use loopback only"):
            client.sendto(b"x", ("192.0.2.1", 9))
        here.bind(("127.0.0.1", 0))
        assert client.sendto(b"x", here.getsockname()) == 1


async def test_an_event_loop_is_guarded_too() -> None:
    """asyncio's own connections go through the same gate."""
    with pytest.raises(Exception, match="tests may use loopback only"):
        await asyncio.open_connection("192.0.2.1", 9)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_is_open(host: str) -> None:
    """A server on this machine is reached by address and by name."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((host, port), timeout=5) as client:
            assert client.getpeername() == ("127.0.0.1", port)


def test_unix_sockets_are_open(tmp_path: Path) -> None:
    """A socket in the file system belongs to this machine."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        client.connect(path)
        assert client.getpeername() == path
