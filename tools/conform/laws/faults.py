"""Failures on demand, which a mock offers: errors in mid-stream, and errors that no request of a test brings about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tools.conform.asking import Ask
from tools.conform.errors import TYPES, faults_of_form
from tools.conform.features import FAULTS, MOCK_HEADER
from tools.conform.law import Finding, Law, Tier, both
from tools.conform.replies import event_data, shown
from tools.conform.sides import Side
from tools.conform.wire import Exchange


def _told(ask: Ask, side: Side, wish: str, **fields: Any) -> Exchange:
    """A request whose answer is to fail in a certain way."""
    body = ask.body(side, {"max_tokens": 12, "temperature": 0, **fields})
    return ask.post(side, body, headers={MOCK_HEADER: wish})


def _in_stream(ask: Ask, side: Side) -> Iterator[Finding]:
    for count, fields in ((1, {}), (4, {}), (4, {"n": 2, "temperature": 1.0})):
        exchange = _told(ask, side, f"error-after={count}", stream=True, ignore_eos=True, **fields)
        if (wrong := _end_of_failed(exchange)) is not None:
            yield Finding(f"a stream that fails after {count} tokens: {wrong}", (exchange,))


def _end_of_failed(exchange: Exchange) -> str | None:
    """The last event is the error, then comes the end mark; no choice has finished."""
    got = exchange.got
    if got.status != 200 or got.kind != "text/event-stream" or got.fault:
        return f"answered {got.status} {got.kind} {got.fault}"
    *events, last = event_data(got.body) or [b""]
    if last != b"[DONE]" or not got.body.endswith(b"\n\n"):
        return f"it ends with {shown(last)}, not with [DONE]"
    if not events:
        return "there is no event"
    read = [json.loads(data) for data in events]
    error, said = read[-1].get("error"), read[-1].get("error_type")
    if not isinstance(error, dict) or [*error] != ["message", "type", "param", "code"]:
        return f"the last event is no error: {shown(events[-1])}"
    if error["type"] != said or said not in TYPES.values():
        return f"its type is {error['type']!r} and its error_type {said!r}"
    if any("error" in event for event in read[:-1]):
        return "there are several errors"
    if any(choice.get("finish_reason") is not None for event in read[:-1] for choice in event.get("choices", [])):
        return "a choice has a finish_reason before the error"
    return None if len(read) > 1 else "no token came before the error"


def _whole(ask: Ask, side: Side) -> Iterator[Finding]:
    for fields in ({"stream": False}, {"use_beam_search": True, "n": 2, "stream": True}):
        exchange = _told(ask, side, "error-after=2", ignore_eos=True, **fields)
        if exchange.got.status not in (500, 503):
            yield Finding(f"a whole answer that fails is a {exchange.got.status}, not 500 or 503", (exchange,))
        elif (wrong := faults_of_form(exchange, exchange.got.status, None, ask.nested_errors)) is not None:
            yield Finding(wrong, (exchange,))


def _statuses(ask: Ask, side: Side) -> Iterator[Finding]:
    for status in (401, 413, 415, 422, 424, 429, 500, 503):
        for fields in ({}, {"stream": True}):
            exchange = _told(ask, side, f"status={status}", **fields)
            if exchange.got.status != status:
                yield Finding(f"a {status} is a {exchange.got.status}", (exchange,))
            elif (wrong := faults_of_form(exchange, status, None, ask.nested_errors)) is not None:
                yield Finding(f"a {status}: {wrong}", (exchange,))


def _retry_after(ask: Ask, side: Side) -> Iterator[Finding]:
    for status in (429, 503):
        exchange = _told(ask, side, f"status={status}")
        if exchange.got.status == status and not exchange.got.headers.get("retry-after", "").isdigit():
            yield Finding(f"a {status} does not say in Retry-After when to come back", (exchange,))


LAWS: Final[list[Law]] = [
    *both("faults.in-stream", "A failure after the first token is one error event, then [DONE]; no choice finishes.",
          "errors", _in_stream, (FAULTS, "stream", "ignore_eos"), Tier.FORM),
    *both("faults.whole", "A whole answer that fails is an error, and so are beams, which come whole.", "errors",
        _whole,
          (FAULTS, "beams"), Tier.FORM),
    *both("faults.statuses", "Each error status has its type and form, also for a stream.", "errors", _statuses,
          (FAULTS,), Tier.FORM),
    *both("faults.retry-after", "429 and 503 say when to come back.", "errors, Retry-After", _retry_after, (FAULTS,),
          Tier.FORM),
]  # fmt: skip
