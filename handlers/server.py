"""Runs the application under uvicorn: a ready line when the model answers, and a stop that lets requests finish."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import FrameType
from typing import Any, Final

import uvicorn

from engine.types import EngineError
from handlers.app import build
from handlers.log_settings import configure
from handlers.service import Service

_CLOSE_TIME_S: Final = 3.0
"""What connections get to close after the last answer, in seconds."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

Announce = Callable[[str], None]


class ApiServer(uvicorn.Server):
    """uvicorn's server with our own end of life.

    The first SIGTERM or SIGINT drains the engine: new requests get 503 stopping, running ones finish within
    ``drain_timeout_s``; then the server closes and ``exit_code`` is 0. A second signal closes at once. uvicorn itself
    would refuse connections first and end with the signal's code.
    """

    def __init__(self, service: Service, announce: Announce) -> None:
        settings = service.settings
        config = uvicorn.Config(
            build(service),
            host=settings.host,
            port=settings.port,
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=int(_CLOSE_TIME_S),
        )
        super().__init__(config)
        self.exit_code = 0
        self.loop: asyncio.AbstractEventLoop
        """The loop that the server runs on, known once it has started."""
        self._service = service
        self._announce = announce
        self._background: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen at once, while the model loads, and say so; the ready line comes when it has loaded."""
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        if self.started:
            self._spawn(self._tell_when_ready())

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take the stop signals for as long as the server runs; they are not raised again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Drain and close; the second time, close at once. Call it on the server's event loop."""
        if self._stopping:
            self.should_exit = self.force_exit = True
            return
        self._stopping = True
        self._spawn(self._drain())

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Kept for callers that know uvicorn's name for it."""
        self.stop()

    @property
    def url(self) -> str:
        """Where the server listens."""
        listener = self.servers[0].sockets[0]
        host, port = listener.getsockname()[:2]
        return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"

    async def _drain(self) -> None:
        try:
            await self._service.front.drain(self._service.settings.drain_timeout_s)
            # The answers that the drain ended have yet to be written.
            await asyncio.sleep(0)
        finally:
            self.should_exit = True

    async def _tell_when_ready(self) -> None:
        front = self._service.front
        if front.state == "loading":
            self._announce(f"mindspec listens on {self.url} and loads {self._service.settings.model_name}")
        try:
            await front.wait_ready()
        except EngineError as error:
            if not self._stopping:
                self._announce(f"mindspec cannot serve {self._service.settings.model_name}: {error.message}")
                self.exit_code = 1
                self.should_exit = True
            return
        self._announce(ready_lines(self.url, self._service.settings.model_name))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def run(service: Service, announce: Announce | None = None) -> int:
    """Serve until a stop signal; returns the exit code. ``announce`` prints unless given."""
    settings = service.settings
    try:
        listener = bind(settings.host, settings.port)
    except OSError as error:
        reason = error.strerror or "the address cannot be used"
        print(f"mindspec cannot listen on {settings.host}:{settings.port}: {reason}", file=sys.stderr)
        return 1
    configure(settings.logs)
    server = ApiServer(service, announce or partial(print, flush=True))
    # What is loaded now stays: the collector need not look at it again while requests are served.
    gc.collect()
    gc.freeze()
    asyncio.run(server.serve(sockets=[listener]))
    return server.exit_code


def bind(host: str, port: int) -> socket.socket:
    """A listening socket's address taken; port 0 takes any free port.

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
    except OSError:
        listener.close()
        raise
    return listener


def ready_lines(url: str, model_name: str) -> str:
    """The line that says that requests are served, and a command to paste."""
    body = {"model": model_name, "messages": [{"role": "user", "content": "What is the capital of France?"}]}
    data = shlex.quote(json.dumps(body, ensure_ascii=False))
    command = f"curl {url}/v1/chat/completions -H 'Content-Type: application/json' -d {data}"
    return f"mindspec serves {model_name} on {url}\n\n  {command}\n"
