"""Reads error bodies of either form and says what is wrong with one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from tools.conform.replies import shown
from tools.conform.wire import Exchange

TYPES: Final = {
    401: "AuthenticationError", 403: "AuthenticationError", 404: "NotFoundError", 405: "NotFoundError",
    413: "Input Validation Error", 415: "Input Validation Error", 422: "Input Validation Error",
    424: "Generation Error", 429: "Service Unavailable", 500: "Incomplete Generation", 503: "Service Unavailable",
}  # fmt: skip
"""Which error_type goes with which status: the contract's table."""

MOST_BYTES: Final = 4000
"""Of an error: one sentence, a path and a code; more repeats the request."""


@dataclass(frozen=True)
class ErrorBody:
    """An error, whichever form it had."""

    message: str
    type: Any
    param: Any
    code: Any
    nested: bool
    """In OpenAI's form."""


def read_error(exchange: Exchange) -> ErrorBody | None:
    """The error, None where the body has neither form."""
    try:
        found = json.loads(exchange.got.body)
        nested = isinstance(found["error"], dict)
        inner = found["error"] if nested else found
        names = ("message", "type", "param", "code") if nested else ("error", "error_type", "param", "code")
        message, kind, param, code = (inner[name] for name in names)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return ErrorBody(message, kind, param, code, nested) if isinstance(message, str) else None


def faults_of_form(exchange: Exchange, status: int, code: str | None, nested: bool | None) -> str | None:
    """What is wrong with an error's body, apart from the member that it names; None where nothing is.

    Args:
        code: the one that it must have; None for any.
        nested: the form that this server uses; None for either.
    """
    error = read_error(exchange)
    if exchange.got.kind != "application/json":
        return f"an error is application/json, not {exchange.got.kind or 'without a type'}"
    if error is None:
        return f"the body has none of the two forms of an error: {shown(exchange.got.body)}"
    if nested is not None and error.nested != nested:
        return "the error has another form than this server's other errors"
    due = TYPES.get(status)
    if error.type != due:
        return f"the error type of a {status} is {due!r}, not {error.type!r}"
    if not isinstance(error.code, str) or not error.code:
        return f"code is {error.code!r}, not a text"
    if code is not None and error.code != code:
        return f"code is {error.code!r}, not {code!r}"
    if len(exchange.got.body) > MOST_BYTES:
        return f"the error has {len(exchange.got.body)} bytes; what was given is shown up to 100 characters"
    if len(error.message.split()) < 3 or "Traceback" in error.message:
        return f"the message is no sentence: {error.message[:100]!r}"
    return None
