"""The sockets that the server listens on: bound before anything is loaded, refused in one sentence."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from handlers import exit_codes
from handlers.planes import PLANES, Address, Plane, Served, addresses
from handlers.settings import Settings

BACKLOG: Final = 2048
"""Connections that may wait to be taken."""


class ListenError(Exception):
    """The server cannot listen; the message is a sentence for the operator."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Listener:
    """One bound socket."""

    planes: frozenset[Plane]
    socket: socket.socket
    ssl_context: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.socket.getsockname()[:2]
        scheme = "http" if self.ssl_context is None else "https"
        return f"{scheme}://[{host}]:{port}" if self.socket.family == socket.AF_INET6 else f"{scheme}://{host}:{port}"


def open_listeners(settings: Settings, contexts: Mapping[Plane, ssl.SSLContext] | None = None) -> list[Listener]:
    """Bind every plane's address; the business plane's listener is the first.

    ``contexts``: TLS of the planes that have it; of planes on one address, the first's counts.

    Raises:
        ListenError: one cannot be used; none is left open.
    """
    wanted: dict[Address, set[Plane]] = {}
    for plane, address in addresses(settings.host, settings.port, settings.planes).items():
        wanted.setdefault(address, set()).add(plane)
    opened: list[Listener] = []
    with contextlib.ExitStack() as stack:
        for address, planes in wanted.items():
            first = next(plane for plane in PLANES if plane in planes)
            context = None if contexts is None else contexts.get(first)
            listener = replace(_open(address, planes, settings.planes.allow_all_zero), ssl_context=context)
            stack.callback(listener.socket.close)
            opened.append(listener)
        stack.pop_all()
    return opened


def one_listener(host: str, port: int) -> Listener:
    """A listener of all planes.

    Raises:
        OSError: the address cannot be used.
    """
    return Listener(frozenset(PLANES), bind(host, port))


def served_by(listeners: list[Listener]) -> Iterator[tuple[Listener, Served]]:
    """Each listener with what it offers."""
    urls = {plane: listener.url for listener in listeners for plane in listener.planes}
    for listener in listeners:
        yield listener, Served(listener.planes, urls)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free port.

    Raises:
        OSError: the address cannot be used.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # At once: of two that are bound with SO_REUSEADDR, only the one that listens first may.
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _open(address: Address, planes: set[Plane], allow_all_zero: bool) -> Listener:
    where = f"{address.host}:{address.port}"
    names = " and ".join(sorted(planes))
    try:
        if not allow_all_zero and _is_all_zero(address.host):
            message = (
                f"does not listen on {where} ({names}): it means every network of this machine; name one "
                "address, or allow it (--allow-all-zero-ip, in config.json allowAllZeroIpListening)"
            )
            raise ListenError(message, exit_codes.CONFIG)
        return Listener(frozenset(planes), bind(address.host, address.port))
    except OSError as error:
        reason = error.strerror or "the address cannot be used"
        if error.errno == errno.EADDRINUSE:
            hint = f"`ss -ltnp 'sport = :{address.port}'` shows by which process"
            message = f"cannot listen on {where} ({names}): the port is in use; {hint}"
            raise ListenError(message, exit_codes.PORT_IN_USE) from error
        raise ListenError(f"cannot listen on {where} ({names}): {reason}", exit_codes.CONFIG) from error


def _is_all_zero(host: str) -> bool:
    """Whether a host, however it is written, means all addresses. Raises OSError for one that is none."""
    if not host:
        return True
    with contextlib.suppress(OSError):
        return socket.inet_aton(host) == bytes(4)
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.partition("%")[0]).is_unspecified
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return any(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_unspecified for entry in found)
