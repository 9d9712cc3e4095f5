"""The layer of the mock that reads ``X-Mock``: refuses what it cannot read, answers errors, cuts connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.mock import TOLD_TO_FAIL
from handlers.errors import Problem
from handlers.link_protocol import CLOSE
from handlers.record import Record, record_of
from handlers.service import Service
from tools.mock.directives import HEADER, read_header
from tools.mock.exchange import EXCHANGE, Exchange
from tools.mock.faults import fault
from tools.mock.wishes import Wish

_NAME: Final = HEADER.lower().encode()
_GONE_S: Final = 5.0
"""How long a connection that was cut may take to be gone."""


class _Cut(Exception):
    """The connection ends here."""


class MockMiddleware:
    """Stands in the mock's chain alone."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Raises Problem for a header that cannot be read, and for an error that is asked for."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(read_header(value for name, value in scope["headers"] if name == _NAME) or Wish())
        await fail_as_wished(exchange.wish, self._service)
        record = record_of(scope)

        async def sent(message: Message) -> None:
            if exchange.cut and _told_to_fail(record.problem):
                raise _Cut
            await send(message)

        token = EXCHANGE.set(exchange)
        try:
            await self._app(scope, receive, sent)
        except _Cut:
            await _hang_up(scope, receive, record)
        except Problem as problem:
            if not (exchange.cut and _told_to_fail(problem)):
                raise
            await _hang_up(scope, receive, record)
        finally:
            EXCHANGE.reset(token)


async def fail_as_wished(wish: Wish, service: Service) -> None:
    """Raise the Problem that is asked for, after the time that is asked for; return where none is."""
    if wish.failure is None:
        return
    if wish.ttft_s:
        await asyncio.sleep(wish.ttft_s)
    raise fault(wish.failure, service.settings.retry_after_s)


def _told_to_fail(problem: Problem | None) -> bool:
    return problem is not None and problem.message == TOLD_TO_FAIL


async def _hang_up(scope: Scope, receive: Receive, record: Record) -> None:
    """Close the connection in the middle of its answer, and wait until it is gone."""
    record.gone = True
    close: Callable[[], Any] | None = scope.get("extensions", {}).get(CLOSE, {}).get("now")
    if close is None:
        raise RuntimeError("this server has no connection that can be cut")
    close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GONE_S):
            while (await receive())["type"] != "http.disconnect":
                pass
