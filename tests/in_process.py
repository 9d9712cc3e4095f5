"""The application without a socket: a client that hands requests straight to it, lifespan included."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
from starlette.types import ASGIApp

from handlers.app import build
from handlers.service import Service

_T = TypeVar("_T")
_TIME_S = 60.0


@asynccontextmanager
async def started(service: Service, make_app: Callable[[Service], ASGIApp] = build) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the started application, on the loop of the caller."""
    app = make_app(service)
    events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    answers: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    lifespan = asyncio.ensure_future(app(scope, events.get, answers.put))
    await events.put({"type": "lifespan.startup"})
    assert (await answers.get())["type"] == "lifespan.startup.complete"
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://in-process") as client:
            yield client
    finally:
        await events.put({"type": "lifespan.shutdown"})
        assert (await answers.get())["type"] == "lifespan.shutdown.complete"
        await lifespan


class InProcessApp:
    """A started application with a blocking client, for tests that are not asynchronous themselves."""

    def __init__(
        self,
        service: Service,
        loop: asyncio.AbstractEventLoop,
        make_app: Callable[[Service], ASGIApp] = build,
    ) -> None:
        """Start the application on a loop that runs in another thread."""
        self.service = service
        self._loop = loop
        self._started = started(service, make_app)
        self._client = self._run(self._started.__aenter__())
        self._run(service.front.wait_ready())

    def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """GET."""
        return self.request("GET", url, headers=headers)

    def post(
        self,
        url: str,
        *,
        content: bytes | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """POST bytes as they are, or a value as JSON."""
        return self.request("POST", url, content=content, json=json, headers=headers)

    def request(
        self,
        method: str,
        url: str,
        *,
        content: bytes | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Any request; the answer is read whole."""
        return self._run(self._client.request(method, url, content=content, json=json, headers=headers))

    def close(self) -> None:
        """Stop the application."""
        self._run(self._started.__aexit__(None, None, None))

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIME_S)
