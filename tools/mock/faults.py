"""Every error status that the contract documents, as an answer that can be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from handlers.access import refusal
from handlers.errors import Problem
from tools.mock.wishes import Failure

_MISSING_KEY, _WRONG_KEY = refusal(b""), refusal(b"wrong")

FAULTS: Final[Mapping[int, Mapping[str, str]]] = MappingProxyType(
    {
        400: {"malformed_http": "This is not an HTTP/1.1 request that can be read"},
        401: {"missing_api_key": _MISSING_KEY.message, "invalid_api_key": _WRONG_KEY.message},
        403: {"forbidden": "The API key of this request may not do this"},
        404: {"not_found": "There is nothing at this path"},
        405: {"method_not_allowed": "This path does not take this method"},
        408: {"request_timeout": "The server waited for the rest of the request, and it is not whole"},
        413: {"body_too_large": "The body is larger than this deployment takes (its setting maxRequestLength)"},
        415: {"media_type": "The Content-Type must be application/json"},
        422: {
            "out_of_range": "temperature was given 9; it must be a number from 0 to 3.4028234e38",
            "json_invalid": "The body is not valid JSON",
            "missing": "model is required and was not sent",
            "wrong_type": "temperature was given text; it must be a number",
            "too_long": "stop is longer than is allowed",
            "unknown_model": "model 'other' is not deployed here; GET /v1/models lists the names to use",
            "too_deep": "The body nests arrays and objects more than 100 levels deep",
        },
        424: {
            "prompt_too_long": "The prompt has more tokens than this deployment takes",
            "invalid_token_id": "A token id of the prompt is outside the vocabulary",
        },
        429: {"queue_full": "The queue is full; try again soon"},
        431: {"too_long": "The headers are larger than this deployment reads (its setting maxHeaderBytes)"},
        500: {
            "internal": "The server failed to answer this request; the cause is in its log",
            "timeout": "The answer was not complete in time",
        },
        503: {
            "loading": "The model is still loading; try again soon",
            "stopping": "The server is stopping; try another one",
            "engine_down": "The engine is down",
            "too_many_connections": "The server has all the connections that it takes; use fewer",
        },
    }
)
"""By status and code, what a real server says in such a case; the first code of a status is its usual one."""

_PARAMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "out_of_range": "temperature",
        "wrong_type": "temperature",
        "missing": "model",
        "unknown_model": "model",
        "media_type": "Content-Type",
        "prompt_too_long": "prompt",
        "invalid_token_id": "prompt",
    }
)
"""What such an answer blames."""
_ASKED: Final = " (this answer was asked of the mock)"


def fault(wanted: Failure, retry_after_s: int) -> Problem:
    """The error answer with the headers that the contract documents for it.

    Args:
        wanted: a status of ``FAULTS``, and one of its codes or any other.
        retry_after_s: what Retry-After says, where it belongs to the status.
    """
    codes = FAULTS[wanted.status]
    code = next(iter(codes)) if wanted.code is None else wanted.code
    message = wanted.message or codes.get(code, next(iter(codes.values()))) + _ASKED
    headers: dict[str, str] = {}
    if wanted.status in (429, 503):
        headers["Retry-After"] = str(retry_after_s)
    elif wanted.status == 401:
        headers = (_MISSING_KEY if code == "missing_api_key" else _WRONG_KEY).headers
    elif wanted.status == 405:
        headers["Allow"] = "GET, POST"
    elif wanted.status in (400, 408, 431):
        headers["Connection"] = "close"
    return Problem(wanted.status, code, message, _PARAMS.get(code), headers=headers)
