"""Every way a request can fail, and its body in both forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import to_json
from starlette.responses import Response

from engine.types import EngineError, FailureCode

INPUT = "Input Validation Error"
GENERATION = "Generation Error"
NOT_FOUND = "NotFoundError"
AUTHENTICATION = "AuthenticationError"
UNAVAILABLE = "Service Unavailable"
INCOMPLETE = "Incomplete Generation"

_ERROR_TYPES: Final[Mapping[int, str]] = {
    400: INPUT,
    401: AUTHENTICATION,
    403: AUTHENTICATION,
    404: NOT_FOUND,
    405: NOT_FOUND,
    408: INPUT,
    413: INPUT,
    415: INPUT,
    422: INPUT,
    424: GENERATION,
    429: UNAVAILABLE,
    431: INPUT,
    500: INCOMPLETE,
    503: UNAVAILABLE,
}

_ENGINE_STATUS: Final[Mapping[FailureCode, int]] = {
    "loading": 503,
    "stopping": 503,
    "engine_down": 503,
    "queue_full": 429,
    "timeout": 500,
    "internal": 500,
    "too_long": 422,
    "unsupported": 422,
    "unknown_model": 422,
}

DONE = b"data: [DONE]\n\n"
"""The last event of every stream."""


class Problem(Exception):
    """A request that gets an error answer.

    ``message`` is a sentence written for the client; ``param`` is the path of the blamed field, such as
    ``messages[0].content[1].text``, or None; ``code`` is a rule id or one of the contract's codes.
    """

    def __init__(
        self,
        status: int,
        code: str | None,
        message: str,
        param: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = dict(headers or {})

    @property
    def error_type(self) -> str:
        """MindIE's name for this kind of failure."""
        return _ERROR_TYPES[self.status]

    def body(self, *, openai_form: bool) -> dict[str, Any]:
        """The JSON body: flat as MindIE sends it, or nested as OpenAI does."""
        if openai_form:
            return {"error": self._nested()}
        return {"error": self.message, "error_type": self.error_type, "param": self.param, "code": self.code}

    def response(self, *, openai_form: bool) -> Response:
        """The whole answer with its headers."""
        return Response(
            to_json(self.body(openai_form=openai_form)),
            status_code=self.status,
            headers=self.headers,
            media_type="application/json",
        )

    def event(self) -> bytes:
        """The event that ends a stream which had already begun; the same in both forms, ``[DONE]`` included."""
        return b"data: " + to_json({"error": self._nested(), "error_type": self.error_type}) + b"\n\n" + DONE

    def _nested(self) -> dict[str, Any]:
        return {"message": self.message, "type": self.error_type, "param": self.param, "code": self.code}


def refused(code: str, message: str, param: str | None = None) -> Problem:
    """A 422: the contract or this deployment refuses the request."""
    return Problem(422, code, message, param)


def from_engine(error: EngineError, retry_after_s: int) -> Problem:
    """The answer to an engine failure; full queues and unavailable engines tell when to come back."""
    status = _ENGINE_STATUS[error.code]
    headers = {"Retry-After": str(retry_after_s)} if status in (429, 503) else {}
    return Problem(status, error.code, error.message, headers=headers)


def internal() -> Problem:
    """The answer to a fault of our own; the cause is in the log only."""
    return Problem(500, "internal", "The server failed to answer this request; the cause is in its log")
