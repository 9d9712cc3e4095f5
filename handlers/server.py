"""Runs the application under uvicorn: a ready line when the model answers, and a stop that lets requests finish."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any, Final

from starlette.types import ASGIApp

from engine.front_base import LostCause
from engine.types import EngineError
from handlers import exit_codes
from handlers.app import build
from handlers.console import say
from handlers.links import LinkContext, Links, connections_allowed
from handlers.listeners import Listener, served_by
from handlers.log_settings import configure
from handlers.plane_server import PlaneServer
from handlers.planes import ListenerApp
from handlers.service import Service

_log = logging.getLogger(__name__)

_HURRY_TIME_S: Final = 0.5
"""The same after a second signal."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOST_CODES: Final[dict[LostCause, int]] = {
    "weights": exit_codes.WEIGHTS,
    "device": exit_codes.DEVICE,
    "other": exit_codes.CRASH_LOOP,
    "deaths": exit_codes.CRASH_LOOP,
}

Announce = Callable[[str], None]
MakeApp = Callable[[Service], ASGIApp]


class ApiServer:
    """All listeners of one service on one event loop, with one end of life.

    The first SIGTERM or SIGINT drains the engine: new requests get 503 stopping, running ones finish within
    ``drain_timeout_s``; then the server closes and ``exit_code`` is 0. A second signal ends what runs and closes at
    once. uvicorn itself would refuse connections first and end with the signal's code. An engine that is lost for good
    ends the server as well.
    """

    def __init__(
        self, service: Service, announce: Announce, complain: Announce | None = None, *, make_app: MakeApp = build
    ) -> None:
        """``complain`` gets what goes wrong; standard error unless given. ``make_app``: the mock has one of its own."""
        self.exit_code = exit_codes.OK
        self.loop: asyncio.AbstractEventLoop
        """The loop that the server runs on, known once it has started."""
        self._service = service
        self._make_app = make_app
        self._announce = announce
        self._complain = complain or partial(say, stream=sys.stderr)
        self._background: set[asyncio.Task[None]] = set()
        self._servers: list[PlaneServer] = []
        self._starting = 0
        self._signals = 0
        self._url = ""

    async def serve(self, listeners: Sequence[Listener]) -> None:
        """Serve until the end; the first listener is the business plane's."""
        self.loop = asyncio.get_running_loop()
        self._url = listeners[0].url
        app = self._make_app(self._service)
        links = self._links(listeners)
        for number, (listener, served) in enumerate(served_by(list(listeners))):
            plane_app = ListenerApp(app, served)
            self._servers.append(
                PlaneServer(plane_app, listener, links[number], lifespan=number == 0, on_started=self._one_has_started)
            )
        self._starting = len(self._servers)
        with self._stop_signals():
            running = [self.loop.create_task(server.run_listener()) for server in self._servers]
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            self._leave()
            await asyncio.gather(*running)
        if self._starting and not self._service.ending.begun:
            self.exit_code = exit_codes.CRASH_LOOP  # the application did not start; uvicorn has said why

    def stop(self) -> None:
        """Drain and close; the second time, close at once. Call it on the server's event loop."""
        self._signals += 1
        if self._signals == 1:
            self._service.ending.begin(self._service.settings.drain_timeout_s)
        elif self._signals == 2:
            if not self._service.ending.over:
                self.exit_code = exit_codes.CUT_SHORT
            self._service.ending.hurry()
            self.loop.call_later(_HURRY_TIME_S, self._leave, True)

    def _links(self, listeners: Sequence[Listener]) -> list[Links]:
        """For each listener, as many connections as the settings and the system allow."""
        service = self._service
        limits = service.settings.links
        wanted = [
            limits.connections if "business" in each.planes else limits.max_other_connections for each in listeners
        ]
        allowed = connections_allowed(sum(wanted))
        if allowed < sum(wanted):
            _log.warning("the system's limit of open files allows %d connections, not %d", allowed, sum(wanted))
        context = LinkContext(
            limits, lambda: service.openai_form, service.settings.retry_after_s, service.traffic.refused
        )
        return [Links(context, max(1, most * allowed // sum(wanted))) for most in wanted]

    @property
    def url(self) -> str:
        """Where the business plane listens."""
        return self._url

    @contextlib.contextmanager
    def _stop_signals(self) -> Generator[None, None, None]:
        """Take the stop signals for as long as the server runs; they are not raised again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        for number in _SIGNALS:
            self.loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in _SIGNALS:
                self.loop.remove_signal_handler(number)

    def _one_has_started(self) -> None:
        self._starting -= 1
        if not self._starting:
            self._spawn(self._end_after_drain())
            self._spawn(self._tell_of_engine())

    def _leave(self, at_once: bool = False) -> None:
        for server in self._servers:
            server.should_exit = True
            server.force_exit = server.force_exit or at_once

    async def _end_after_drain(self) -> None:
        await self._service.ending.wait()
        # The answers that the drain ended have yet to be written.
        await asyncio.sleep(0)
        self._leave()

    async def _tell_of_engine(self) -> None:
        front, name = self._service.front, self._service.settings.model_name
        if front.state == "loading":
            self._announce(f"mindspec listens on {self.url} and loads {name}")
        try:
            await front.wait_ready()
        except EngineError:
            if self._service.ending.begun:
                return
        else:
            self._announce(ready_lines(self.url, name, curl_options(self._service)))
        cause = await front.wait_lost()
        if self._service.ending.begun:
            return
        what = "cannot serve" if front.info is None else "cannot go on serving"
        self._complain(f"mindspec {what} {name}: {front.failure}")
        self.exit_code = _LOST_CODES[cause]
        self._leave()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def run(
    service: Service, listeners: Sequence[Listener], announce: Announce | None = None, *, make_app: MakeApp = build
) -> int:
    """Serve until a stop signal; returns the exit code. ``announce`` prints unless given."""
    configure(service.settings.logs)
    if service.settings.logs.form == "json":
        # No line of another form, whoever reads both streams.
        announce, complain = announce or partial(_tell, logging.INFO), partial(_tell, logging.CRITICAL)
        server = ApiServer(service, announce, complain, make_app=make_app)
    else:
        announce = announce or partial(say, stream=sys.stdout)
        server = ApiServer(service, announce, _complain_last, make_app=make_app)
    # What is loaded now stays: the collector need not look at it again while requests are served.
    gc.collect()
    gc.freeze()
    asyncio.run(server.serve(listeners))
    return server.exit_code


def _complain_last(text: str) -> None:
    """Print after the log lines that led to it."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    say(text, sys.stderr)


def _tell(level: int, text: str) -> None:
    _log.log(level, text.partition("\n")[0])


def curl_options(service: Service) -> str:
    """What curl needs besides to be let in, in the words of its user's own files."""
    files = service.settings.tls.business
    secure = "" if files is None else " --cacert CA.pem"
    if files is not None and files.client_auth == "required":
        secure += " --cert CLIENT.pem --key CLIENT.key.pem"
    return secure + (' -H "Authorization: Bearer $KEY"' if service.keys.needed else "")


def ready_lines(url: str, model_name: str, options: str = "") -> str:
    """The line that says that requests are served, and a command to paste."""
    body = {"model": model_name, "messages": [{"role": "user", "content": "What is the capital of France?"}]}
    data = shlex.quote(json.dumps(body, ensure_ascii=False))
    command = f"curl{options} {url}/v1/chat/completions -H 'Content-Type: application/json' -d {data}"
    return f"mindspec serves {model_name} on {url}\n\n  {command}\n"
