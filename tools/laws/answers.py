"""Judges the answers of one server: whole answers, errors and recorded streams, and holds it to one form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from generated.models import Error, OpenAIError
from handlers import errors
from tools.laws import schema, whole
from tools.laws.asked import Asked
from tools.laws.breach import Breach
from tools.laws.form import Forms
from tools.laws.stream import Stream
from tools.laws.table import broken

BEFORE_REQUESTS: Final = frozenset({400, 408, 414, 431, 502, 504})
"""Statuses of HTTP itself, or of something between client and server: of what never became a request."""
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"


class Answers:
    """The answers of one server; each request's ``Asked`` says what its answer has to obey."""

    def __init__(self) -> None:
        self.forms = Forms()

    def breaches(self, asked: Asked, status: int, headers: Mapping[str, str], body: bytes) -> list[Breach]:
        """Judge a whole answer, an error, or a stream that was recorded to its end."""
        known = lowered(headers)
        found = self.head(asked, status, known)
        if status < 300 and _media(known) == _EVENTS:
            stream = self.stream(asked)
            return [*found, *stream.feed(body), *stream.end()]
        return found + self.body(asked, status, body)

    def head(self, asked: Asked, status: int, headers: Mapping[str, str]) -> list[Breach]:
        """Judge status and headers, which come first; ``headers``: by name in lower case."""
        found = []
        if status not in asked.wire.answers and status not in BEFORE_REQUESTS:
            listed = ", ".join(map(str, asked.wire.answers))
            message = f"{asked.wire.path} answered {status}; the contract lists {listed}"
            found.append(broken("answer-status", None, message))
        media = _media(headers)
        if status == 429 and "retry-after" not in headers:
            found.append(broken("error-retry-after", "Retry-After", "a 429 came without Retry-After"))
        if status >= 300:
            return found + _typed(media, _JSON) if asked.wire.answers.get(status) and asked.generates else found
        if asked.sure and asked.generates and media in (_JSON, _EVENTS) and asked.stream != (media == _EVENTS):
            wanted = "a stream" if asked.stream else "a whole answer"
            found.append(broken("answer-as-asked", None, f"{wanted} was asked for, and the answer is {media}"))
        elif asked.generates and media not in (_JSON, _EVENTS):
            found += _typed(media, _EVENTS if asked.stream else _JSON)
        if media == _EVENTS:
            found += _stream_headers(headers)
        return found

    def stream(self, asked: Asked) -> Stream:
        """The judge of one stream's events."""
        return Stream(asked, self.forms)

    def body(self, asked: Asked, status: int, body: bytes) -> list[Breach]:
        """Judge the body of a whole answer or of an error."""
        models = asked.wire.answers.get(status, () if status < 400 else (Error, OpenAIError))
        if status in BEFORE_REQUESTS or not models or (not body.strip() and not asked.generates):
            return []
        try:
            value = schema.parse(body)
        except ValueError as error:
            return [broken("answer-json", None, f"the body is not strict JSON: {error}")]
        if Error in models:
            return self._error(value, status)
        found = schema.faults(value, models, "answer-schema")
        if found or not asked.generates:
            return found
        return schema.disorder(value, models) + whole.of_answer(value, asked)

    def _error(self, value: Any, status: int) -> list[Breach]:
        nested = isinstance(value, dict) and isinstance(value.get("error"), dict)
        found = schema.faults(value, [OpenAIError if nested else Error], "error-schema")
        if found:
            return found
        given = value["error"]["type"] if nested else value["error_type"]
        due = error_type(status)
        if due is not None and given != due:
            message = f"an error of status {status} has the type {given}; it must be {due}"
            found.append(broken("error-type-of-status", "error.type" if nested else "error_type", message))
        return found + self.forms.hold("OpenAI's" if nested else "MindIE's", "an error")


def error_type(status: int) -> str | None:
    """The type of the errors of a status; None for a status that the contract has no type for."""
    try:
        return errors.Problem(status, None, "").error_type
    except KeyError:
        return None


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers by name in lower case."""
    return {name.lower(): value for name, value in headers.items()}


def _media(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _typed(media: str, due: str) -> list[Breach]:
    if media == due:
        return []
    return [broken("answer-media-type", "Content-Type", f"Content-Type is {media or 'absent'}; it must be {due}")]


def _stream_headers(headers: Mapping[str, str]) -> list[Breach]:
    for name, due in (("cache-control", "no-cache"), ("x-accel-buffering", "no")):
        if due not in [part.strip() for part in headers.get(name, "").lower().split(",")]:
            shown = headers.get(name, "absent")[:100]
            return [broken("stream-headers", name, f"{name} of a stream is {shown}; it must be {due}")]
    return []
