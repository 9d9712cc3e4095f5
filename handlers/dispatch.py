"""The end of the chain: calls the handler of the routed operation and writes its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from connexion.middleware.abstract import RoutedAPI, RoutedMiddleware
from starlette.types import Receive, Scope, Send

from handlers.call import Call
from handlers.ignored import HEADER
from handlers.record import record_of
from handlers.running import ClientGone
from handlers.stream import EventStream
from handlers.validation import BODY, BODY_BYTES, IGNORED

_JSON: Final = [(b"content-type", b"application/json")]
_EVENTS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

Headers = list[tuple[bytes, bytes]]


class WithBody:
    """What the routes' operationId stands for where there is a body: makes a handler for one call."""

    def __init__(self, make: Callable[[Call], Callable[..., Awaitable[Any]]]) -> None:
        self.make = make


class DispatchOperation:
    """One operation: gives the handler what it takes, sends what it returns."""

    def __init__(self, handler: WithBody | Callable[..., Awaitable[Any]], query: frozenset[str] = frozenset()) -> None:
        """``query``: names of the query parameters that the operation has; others are let through unread."""
        self._handler = handler
        self._query = query

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Problems pass on to the error handlers."""
        handler = self._handler
        path: Mapping[str, str] = scope.get("path_params") or {}
        if not isinstance(handler, WithBody):
            asked = {
                name: text for name, text in parse_qsl(scope["query_string"].decode("latin-1")) if name in self._query
            }
            await _send(await handler(**path, **asked), [], send)
            return
        record = record_of(scope)
        call = Call(record, receive, scope[BODY_BYTES])
        with call.kept:
            try:
                answer = await handler.make(call)(scope[BODY], **path)
            except ClientGone:
                record.gone = True
                return
            ignored = scope[IGNORED]
            extra = [(HEADER.lower().encode(), ignored.encode("ascii"))] if ignored else []
            if isinstance(getattr(answer, "events", None), EventStream):
                await _send_events(answer.events, extra, send)
            else:
                await _send(answer, extra, send)


class DispatchAPI(RoutedAPI[DispatchOperation]):  # type: ignore[misc] # Connexion has no types
    """Builds one DispatchOperation per operation of the routes."""

    def __init__(self, *args: Any, next_app: Any, **kwargs: Any) -> None:
        known = {key: kwargs[key] for key in ("base_path", "resolver", "uri_parser_class") if key in kwargs}
        super().__init__(*args, next_app=next_app, **known)
        self.add_paths()

    def make_operation(self, operation: Any) -> DispatchOperation:
        """Called by Connexion for each operation."""
        query = frozenset(entry["name"] for entry in operation.parameters if entry["in"] == "query")
        return DispatchOperation(operation.function, query)


class DispatchMiddleware(RoutedMiddleware[DispatchAPI]):  # type: ignore[misc] # Connexion has no types
    """The last of Connexion's middlewares here; what is not routed goes on to Connexion's 404."""

    api_cls = DispatchAPI


async def _send(answer: Any, extra: Headers, send: Send) -> None:
    body: bytes = b"" if answer.body is None else answer.body.wire_json().encode()
    length = [(b"content-length", b"%d" % len(body))]
    media = [] if answer.body is None else _JSON
    await send({"type": "http.response.start", "status": answer.status, "headers": media + length + extra})
    await send({"type": "http.response.body", "body": body})


async def _send_events(events: EventStream, extra: Headers, send: Send) -> None:
    try:
        await send({"type": "http.response.start", "status": 200, "headers": _EVENTS + extra})
        async for chunk in events:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        events.close()
