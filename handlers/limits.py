"""The ASGI layer before routing: paths, media type, body size, and an id that is taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handlers.errors import Problem, refused
from handlers.paths import PathTable
from handlers.record import record_of

_JSON: Final = b"application/json"
_CHAT: Final = "/v1/chat/completions"
_DUPLICATE: Final = (
    "Another request with this req-id is still being answered; send a new one, or none, and the server numbers it"
)


class Limit(Protocol):
    """What this layer asks of the running service."""

    @property
    def max_request_bytes(self) -> int:
        """Largest request body, in bytes."""
        ...

    @property
    def max_headers(self) -> int:
        """Headers of a request at most."""
        ...

    @property
    def max_header_bytes(self) -> int:
        """All of them together at most."""
        ...


class LimitsMiddleware:
    """Refuses what no handler should see, and hands the rest on with one plain ``application/json``.

    Connexion compares media types by letter case and skips validation for a type that it does not know, so every
    body that passes here has exactly the type it knows. Sizes are counted while the body is read, whatever
    Content-Length says; reading stops at the limit.
    """

    def __init__(self, app: ASGIApp, *, limit: Limit, paths: PathTable) -> None:
        """``paths``: those that there are."""
        self._app = app
        self._limit = limit
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request; other scope types pass untouched."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        # The router would answer some of these with a redirect.
        if path.endswith("/") or "//" in path or self._paths.find(path) is None:
            raise HTTPException(404)
        problem = self._read_headers(scope)
        if problem is None and record_of(scope).duplicate:
            problem = refused("duplicate_id", _DUPLICATE, "req-id")
        await self._app(scope, _refusing(problem) if problem else self._counted(scope, receive), send)

    def _read_headers(self, scope: Scope) -> Problem | None:
        """Set the one media type; return what is wrong with the body's headers."""
        headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
        kept = [(b"content-type", _JSON)]
        problem = None
        count, most = len(scope["headers"]), self._limit.max_headers
        if count > most:
            message = f"The request has {count} headers; at most {most} are read (its setting maxHeaders)"
            raise Problem(431, "too_long", message, headers={"Connection": "close"})
        # A reader of the connection stops near this; what came in one piece may be longer.
        if sum(len(name) + len(value) for name, value in headers) > self._limit.max_header_bytes:
            raise headers_too_large(self._limit.max_header_bytes)
        for name, value in headers:
            if name == b"content-type":
                if not is_json(value):
                    problem = Problem(415, "media_type", "The Content-Type must be application/json", "Content-Type")
                continue
            if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
                message = "A body with a Content-Encoding is not accepted; send it uncompressed"
                problem = problem or Problem(415, "media_type", message, "Content-Encoding")
            elif name == b"content-length" and value.isdigit() and int(value[:20]) > self._limit.max_request_bytes:
                problem = problem or self._too_large(scope)
            kept.append((name, value))
        scope["headers"] = kept
        return problem

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        left = self._limit.max_request_bytes

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise self._too_large(scope)
            return message

        return counted

    def _too_large(self, scope: Scope) -> Problem:
        most = self._limit.max_request_bytes
        message = f"The body is larger than the {most} bytes that this deployment takes (its setting maxRequestLength)"
        if scope["path"] == _CHAT:
            message += "; images, video and audio inside it count, those named by an address do not"
        # The connection stays open: closed with a body still on its way, the client would see a reset and no answer.
        return Problem(413, "body_too_large", message)


def headers_too_large(most: int) -> Problem:
    """The answer to more than ``most`` bytes of headers."""
    message = f"The headers are larger than the {most} bytes that this deployment reads (its setting maxHeaderBytes)"
    return Problem(431, "too_long", message, headers={"Connection": "close"})


def _refusing(problem: Problem) -> Receive:
    """A body that cannot be read: an unknown path or method is still reported first."""

    async def receive() -> Message:
        raise problem

    return receive


def is_json(content_type: bytes) -> bool:
    """Whether a media type is JSON, in any letter case; an empty one counts as absent. JSON has no parameters."""
    return content_type.partition(b";")[0].strip().lower() in (_JSON, b"")
