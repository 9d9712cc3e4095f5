"""Transports of the conformance tests: the mock in this process, and a fault planted in front of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from in_process import InProcessApp

from tools.conform.replies import event_data
from tools.conform.wire import Exchange, Got, Sent, Transport

Json = dict[str, Any]


class MockTransport:
    """Hands requests to an application without a socket."""

    def __init__(self, app: InProcessApp) -> None:
        self._app = app

    def exchange(self, sent: Sent) -> Exchange:
        """See ``Transport``."""
        answer = self._app.request(sent.method, sent.path, content=sent.body, headers=dict(sent.headers))
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Exchange(sent, Got(answer.status_code, headers, answer.content))


@dataclass(frozen=True)
class Fault:
    """What a faulty server does otherwise; each part sees the request as the client sent it."""

    request: Callable[[Json], Json | None] | None = None
    """Another request, None for the same."""
    answer: Callable[[Json, Json], None] | None = None
    """Changes a whole answer in place: request, answer."""
    event: Callable[[Json, Json], None] | None = None
    """Changes an event in place: request, event."""
    raw: Callable[[Sent, Got], Got] | None = None


class Faulty:
    """A transport with a fault planted."""

    def __init__(self, transport: Transport, fault: Fault) -> None:
        self._transport, self._fault = transport, fault

    def exchange(self, sent: Sent) -> Exchange:
        """See ``Transport``."""
        fault, given = self._fault, parsed(sent.body)
        passed = sent
        if fault.request is not None and given is not None and (other := fault.request(dict(given))) is not None:
            passed = replace(sent, body=json.dumps(other).encode())
        got = self._transport.exchange(passed).got
        if got.status == 200 and given is not None:
            got = self._twisted(given, got)
        if fault.raw is not None:
            got = fault.raw(sent, got)
        return Exchange(sent, got)

    def _twisted(self, given: Json, got: Got) -> Got:
        if got.kind == "text/event-stream" and self._fault.event is not None:
            made = b""
            for data in event_data(got.body):
                if data != b"[DONE]":
                    event = json.loads(data)
                    self._fault.event(given, event)
                    data = json.dumps(event, ensure_ascii=False).encode()
                made += b"data: " + data + b"\n\n"
            return replace(got, body=made)
        if got.kind == "application/json" and self._fault.answer is not None:
            answer = json.loads(got.body)
            self._fault.answer(given, answer)
            return replace(got, body=json.dumps(answer, ensure_ascii=False).encode())
        return got


def parsed(body: bytes) -> Json | None:
    """A request's members, None where it is no JSON object."""
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
