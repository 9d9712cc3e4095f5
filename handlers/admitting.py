"""The ASGI layer where an inference request gets its place, once its body has come or the beginning of a long one."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.types import EngineError
from handlers.record import record_of
from handlers.running import ClientGone, too_late
from handlers.service import Service
from handlers.traffic import INFERENCE

READ_AHEAD_BYTES: Final = 65_536
"""Of a body, before the request has a place: one that comes slowly holds none, and one that waits is no larger."""


class AdmissionMiddleware:
    """Holds inference requests until ``Admission`` has a place for them; all others pass untouched."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Raises Problem for one that finds no place, or not in time."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in INFERENCE:
            await self._app(scope, receive, send)
            return
        record, admission = record_of(scope), self._service.admission
        body = _Body(receive)
        try:
            await body.read_ahead()
            await self._wait(body, record.begun_s)
        except ClientGone:
            record.gone = True
            return
        except EngineError as error:
            raise self._service.problem(error) from None
        try:
            await self._app(scope, body.receive, send)
        finally:
            # A client that hung up within its body has sent no request that could be answered.
            record.gone = record.gone or body.broken_off
            admission.leave()

    async def _wait(self, body: _Body, begun_s: float) -> None:
        """Return with a place. Raises Problem, EngineError or ClientGone without one."""
        admission, timeouts = self._service.admission, self._service.timeouts
        turn = admission.enter()
        if turn is None:
            return
        leaving = body.watch()
        try:
            left_s = begun_s + min(timeouts.token_s, timeouts.whole_s) - time.monotonic()
            awaited: set[asyncio.Future[Any]] = {turn} if leaving is None else {turn, leaving}
            await asyncio.wait(awaited, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if leaving is not None and leaving.done():
                raise ClientGone
            if not turn.done():
                raise too_late(timeouts)
            turn.result()
        except BaseException:
            admission.give_up(turn)
            raise
        finally:
            if leaving is not None:
                leaving.cancel()


class _Body:
    """The body of one request: read a little ahead, then handed on."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read: deque[Message] = deque()
        self._whole = False
        self.broken_off = False
        """The client hung up before its end."""

    async def read_ahead(self) -> None:
        """Read it, or the beginning of a long one. Raises ClientGone."""
        size = 0
        while not self._whole and size < READ_AHEAD_BYTES:
            message = await self._next()
            if self.broken_off:
                raise ClientGone
            size += len(message.get("body", b""))
            self._read.append(message)

    def watch(self) -> asyncio.Task[Message] | None:
        """What ends when the client hangs up; None while that cannot be told from its body."""
        return asyncio.get_running_loop().create_task(_as_task(self._receive)) if self._whole else None

    async def receive(self) -> Message:
        """ASGI's receive for the rest of the chain."""
        return self._read.popleft() if self._read else await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.broken_off = self.broken_off or not self._whole
        else:
            self._whole = not message.get("more_body")
        return message


async def _as_task(receive: Receive) -> Message:
    return await receive()
