"""The outermost layer: gives every request its ids, counts it, and writes its one log line when it is over."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handlers.paths import PathTable
from handlers.record import RECORD, Record
from handlers.service import Service
from handlers.traffic import INFERENCE

_log = logging.getLogger(__name__)

_OTHER: Final = "other"
_QUIET: Final = (
    *("/health", "/v2/health", "/metrics", "/v1/status", "/pages/"),
    *(f"/v2/models/{{model}}/{name}" for name in ("ready", "getSlotCount")),
)
"""Endpoints that are asked every few seconds, or a dozen times for one page: their lines are for debugging."""
_OURS: Final = frozenset({429, 500, 503})
"""Statuses whose message is a sentence of ours alone; the others may say what a client has sent."""
ADAPTER_CODE: Final = "adapter"
"""The code of refusals that concern an adapter: its operator wants to read why, and no prompt is near."""


class WatchMiddleware:
    """Makes the ``Record`` of each request, and makes use of it in the end.

    Endpoints are the paths of the contract, so that a client cannot make up new ones; all others count as "other".
    """

    def __init__(self, app: ASGIApp, *, service: Service, paths: Iterable[str]) -> None:
        """``paths`` are those that there are, with their parameters in braces."""
        self._app = app
        self._service = service
        self._paths = PathTable(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Watch one request; other scope types pass untouched."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        service = self._service
        record = scope[RECORD] = Record(scope["method"], self._paths.find(scope["path"]) or _OTHER)
        if len(scope["headers"]) <= service.settings.links.max_headers:
            record.read_headers(scope["headers"])
        if record.method == "POST" and record.endpoint in INFERENCE:
            service.live.enter(record)
        service.traffic.begin(record)

        async def watched(message: Message) -> None:
            kind = message["type"]
            if kind == "http.response.start":
                record.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *_ids(record)]}
            await send(message)
            if kind == "http.response.body" and not message.get("more_body"):
                record.whole = True

        try:
            await self._app(scope, receive, watched)
        finally:
            now_s = time.monotonic()
            service.live.leave(record)
            service.traffic.end(record, now_s)
            level = _level(record)
            if _log.isEnabledFor(level):
                path = scope["path"] if record.endpoint == _OTHER else None
                fields = log_fields(record, now_s, path, prompts=service.settings.logs.prompts)
                _log.log(level, "request", extra={"fields": fields})


def log_fields(record: Record, now_s: float, path: str | None, *, prompts: bool) -> dict[str, object]:
    """What the line of a request says; None is left out.

    Args:
        record: of the request.
        now_s: when it was over.
        path: as the client wrote it, where it is none of the contract's.
        prompts: whether it may show prompts, answers and values.
    """
    generation, problem, ttft_s = record.generation, record.problem, record.ttft_s
    fields: dict[str, object] = {
        "request_id": record.request_id or None,
        "uuid": record.uuid,
        "client_id": record.client_id,
        "trace_id": record.trace_id,
        "method": record.method,
        "endpoint": record.endpoint,
        "path": path,
        "status": record.ended_status,
        "key": record.key_name,
        "model": record.model,
        "stream": record.streams or None,
        "duration_ms": round((now_s - record.begun_s) * 1000, 1),
    }
    if record.media_s is not None:
        kinds = Counter(item.kind for item in record.media)
        fields["media"] = ",".join(f"{kind}:{count}" for kind, count in kinds.items()) or None
        fields["media_tokens"] = sum(item.tokens for item in record.media)
        fields["media_ms"] = round(record.media_s * 1000, 1)
    if generation is not None:
        fields["prompt_tokens"] = generation.stats.prompt_tokens
        fields["cached_tokens"] = generation.stats.cached_tokens or None
        fields["generated_tokens"] = generation.generated
        fields["ttft_ms"] = None if ttft_s is None else round(ttft_s * 1000, 1)
        fields["finish_reason"] = ",".join(dict.fromkeys(generation.reasons)) or None
        fields["stopped"] = record.stopped or None
    if problem is not None:
        fields["code"] = problem.code
        fields["param"] = problem.param
        if prompts or problem.status in _OURS or problem.code == ADAPTER_CODE:
            fields["reason"] = problem.message
    if prompts:
        fields["prompt"] = record.prompt
        fields["answer"] = record.answer
    return fields


def _ids(record: Record) -> list[tuple[bytes, bytes]]:
    headers = [(b"requestuuid", record.uuid.encode("ascii"))]
    if record.client_id is not None:
        headers.append((b"x-request-id", record.client_id.encode("ascii")))
    if record.traceparent is not None:
        headers.append((b"traceparent", record.traceparent.encode("ascii")))
    return headers


def _level(record: Record) -> int:
    if record.endpoint.startswith(_QUIET):
        return logging.DEBUG
    return logging.WARNING if record.ended_status >= 500 or _broke_off(record) else logging.INFO


def _broke_off(record: Record) -> bool:
    """A stream ended with an error event of ours."""
    return record.problem is not None and record.problem.status >= 500
