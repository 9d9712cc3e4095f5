"""The layer that answers with the pages for readers: the documentation, the contract itself, and a place to try it."""

from __future__ import annotations

from typing import Final

from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from handlers.pages.files import PAGES, Content, PageFile
from handlers.service import Service

FACTS: Final = "/deployment.json"
"""What the rules of the contract ask about this deployment; under a path of its own, since it is no secret of the
contract but of the deployment: it needs a key where requests do."""
PATHS: Final = frozenset((*PAGES, FACTS))
METHODS: Final = ("GET", "HEAD")
_SAFE: Final = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class PagesMiddleware:
    """Answers the paths of the pages itself. Nothing is read before it is asked for, and everything only once."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app = app
        self._service = service
        self._contents: dict[str, Content] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request for a page; all others pass untouched."""
        path: str = scope.get("path", "")
        if scope["type"] != "http" or path not in PATHS:
            await self._app(scope, receive, send)
            return
        if scope["method"] not in METHODS:
            raise HTTPException(405)
        response = self._facts() if path == FACTS else await self._file(path, scope)
        await response(scope, receive, send)

    async def _file(self, path: str, scope: Scope) -> Response:
        file = PAGES[path]
        if path not in self._contents:
            self._contents[path] = await run_in_threadpool(Content.of, file)
        return _answer(file, self._contents[path], dict(scope["headers"]))

    def _facts(self) -> Response:
        service, deployment = self._service, self._service.deployment
        body = {
            "model": service.settings.model_name,
            "features": sorted(deployment.features),
            "model_type": deployment.model_type,
            "openai_form": deployment.openai_form,
            "relaxed_rules": sorted(deployment.relaxed_rules),
            "strict_unknown": deployment.strict_unknown,
        }
        return Response(to_json(body), media_type="application/json", headers={**_SAFE, "Cache-Control": "no-store"})


def _answer(file: PageFile, content: Content, headers: dict[bytes, bytes]) -> Response:
    packed = _takes_gzip(headers.get(b"accept-encoding", b""))
    tag = f'"{content.digest}{"-gzip" if packed else ""}"'
    sent = {
        **_SAFE,
        "ETag": tag,
        "Cache-Control": "no-cache",  # kept, but asked for again: a newer server has newer pages
        "Vary": "Accept-Encoding",
        "Content-Security-Policy": file.policy,
    }
    known = [
        part.strip().removeprefix("W/") for part in headers.get(b"if-none-match", b"").decode("latin-1").split(",")
    ]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=sent)
    if packed:
        sent["Content-Encoding"] = "gzip"
    return Response(content.packed if packed else content.plain, media_type=file.media, headers=sent)


def _takes_gzip(accepted: bytes) -> bool:
    """Whether a client reads gzip: it says so, and not with a weight of 0."""
    for part in accepted.decode("latin-1").lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
