"""A server with TLS in a thread, and clients with certificates."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from pki import Authority, Pair

from engine.mock_front import MockFront
from handlers.listeners import open_listeners
from handlers.planes import Plane, addresses
from handlers.server import ApiServer
from handlers.service import Service
from handlers.settings import Settings
from handlers.tls import Tls, TlsFiles, served_with
from handlers.tls_watch import TlsInUse


class Running:
    """A server that answers."""

    def __init__(self, service: Service, server: ApiServer, urls: dict[Plane, str]) -> None:
        self.service = service
        self.urls = urls
        self._server = server

    @property
    def url(self) -> str:
        """Of the business plane."""
        return self.urls["business"]

    @property
    def port(self) -> int:
        """Of the business plane."""
        return int(self.url.rpartition(":")[2])

    def look(self) -> None:
        """Look at the files of TLS, as the server does every few seconds."""
        asyncio.run_coroutine_threadsafe(self.service.tls.look(), self._server.loop).result(30)


@contextlib.contextmanager
def tls_server(tls: Tls, **settings: Any) -> Iterator[Running]:
    """A mock on free ports, ready."""
    chosen = Settings(model_name="mock", port=0, tls=tls, **settings)
    in_use = TlsInUse.load(served_with(tls, addresses(chosen.host, chosen.port, chosen.planes)))
    service = Service(chosen, MockFront(), tls=in_use)
    listeners = open_listeners(chosen, in_use.contexts)
    ready = threading.Event()
    server = ApiServer(service, lambda _: ready.set())
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(listeners)), daemon=True)
    thread.start()
    assert ready.wait(30), "the server did not start"
    try:
        yield Running(service, server, {plane: each.url for each in listeners for plane in each.planes})
    finally:
        for _ in range(2):
            server.loop.call_soon_threadsafe(server.stop)
        thread.join(30)


def files_for(folder: Path, authority: Authority, **options: Any) -> TlsFiles:
    """A server's certificate and its CA in a folder; ``options`` as of TlsFiles."""
    cert, key = authority.issue("server").write(folder, "server")
    ca = folder / "ca.pem"
    ca.write_bytes(authority.pem)
    return TlsFiles(cert, key, **{"ca_files": (ca,), **options})


def client_context(folder: Path, authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    """What a client trusts, and its own certificate."""
    context = ssl.create_default_context(cadata=authority.pem.decode())
    if pair is not None:
        context.load_cert_chain(*pair.write(folder / "clients", f"client-{pair.certificate.serial_number}"))
    return context


@contextlib.contextmanager
def client_of(
    running: Running, folder: Path, authority: Authority, pair: Pair | None = None, **options: Any
) -> Iterator[httpx.Client]:
    """A client of the business plane."""
    context = client_context(folder, authority, pair)
    with httpx.Client(base_url=running.url, verify=context, trust_env=False, timeout=30, **options) as client:
        yield client


def server_name(context: ssl.SSLContext, port: int) -> str:
    """The common name that the server shows to a new connection."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        shown: Any = secure.getpeercert()
        return str(dict(part[0] for part in shown["subject"])["commonName"])
