"""Judges records one after the other, and counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import jiter

from generated.operations import WIRE, Wire
from generated.rules import Deployment
from tools.check.limits import MOST_BREACHES, MOST_REQUESTS
from tools.check.record import Record, Unreadable
from tools.laws.answers import Answers, lowered
from tools.laws.breach import Breach
from tools.laws.requests import Read, Requests
from tools.laws.routes import host_of
from tools.laws.table import broken

Endpoint = Literal["chat", "completions"]
ENDPOINTS: Final[dict[Endpoint, Wire]] = {
    "chat": WIRE["create_chat_completion"],
    "completions": WIRE["create_completion"],
}
_LINE: Final = re.compile(r"\bline (\d+), column \d+")


@dataclass(frozen=True, slots=True)
class Finding:
    """A breach and where it was found."""

    source: str
    line: int
    request: int
    """Which request of all, from 1."""
    side: Literal["request", "answer"]
    breach: Breach


@dataclass(slots=True)
class Counts:
    """How much was read."""

    requests: int = 0
    answers: int = 0
    others: int = 0
    """Requests to other paths than the contract's, which are not judged."""
    at_fault: int = 0
    """Requests that have a breach, or whose answers have."""
    judged: list[tuple[str, int]] = field(default_factory=list)
    """File and line of each request."""


class Checker:
    """Judges the requests of a client, and the answers of the servers that it talks to, each held to its own form."""

    def __init__(self, deployment: Deployment, endpoint: Endpoint | None = None) -> None:
        self._requests = Requests(deployment)
        self._answers: dict[str, Answers] = {}
        """By the server's address, or the file where there is none."""
        self._endpoint = endpoint
        self._told = 0
        self.counts = Counts()

    def findings(self, records: Iterable[Record | Unreadable]) -> Iterator[Finding | Unreadable]:
        """What is wrong with each record, in their order."""
        for record in records:
            found = [record] if isinstance(record, Unreadable) else self._all(record)
            yield from found
            self._told += len(found)
            if self._told >= MOST_BREACHES or self.counts.requests >= MOST_REQUESTS:
                reason = f"nothing is read after {MOST_BREACHES} breaches or {MOST_REQUESTS} requests"
                yield Unreadable(record.source, record.line, f"{reason} (MOST_BREACHES, MOST_REQUESTS)")
                return

    def _all(self, record: Record) -> Sequence[Finding | Unreadable]:
        try:
            read = self._read(record)
        except Unreadable as error:
            return [error]
        if read is None:
            self.counts.others += 1
            return []
        self.counts.requests += 1
        self.counts.judged.append((record.source, record.line))
        found = [*self._of_request(record, read), *self._of_answer(record, read)]
        self.counts.at_fault += bool(found)
        return found

    def _read(self, record: Record) -> Read | None:
        """Judge the request; None where it is for none of the contract's paths.

        Raises:
            Unreadable: nothing says which endpoint it is for.
        """
        if record.target is not None:
            read = self._requests.read(record.method, record.target, record.body, record.headers)
            if read.wire is not None or read.breaches:
                return read
            if _endpoint_of(record.body) is None:  # OPTIONS, too, which has no body
                return None
            message = f"{record.method} {record.target[:200]} is no path of the contract"
            return Read(None, [broken("not_found", None, message)], None)
        endpoint = self._endpoint or _endpoint_of(record.body, broken_is="chat")
        if endpoint is None:
            reason = "the body has neither messages nor prompt; say with --endpoint what it is for"
            raise Unreadable(record.source, record.line, reason)
        return self._requests.judge(ENDPOINTS[endpoint], record.body, record.headers)

    def _of_request(self, record: Record, read: Read) -> Iterator[Finding]:
        for breach in read.breaches:
            line = record.line_of(breach.field)
            place = _LINE.search(breach.message) if record.in_place and breach.law == "json_invalid" else None
            line += int(place[1]) - 1 if place else 0
            yield Finding(record.source, line, self.counts.requests, "request", breach)

    def _of_answer(self, record: Record, read: Read) -> Iterator[Finding]:
        answer = record.answer
        if answer is None or read.asked is None:
            return
        self.counts.answers += 1
        server = self._answers.setdefault(host_of(record.target or "") or record.source, Answers())
        if answer.body is None:
            found = server.head(read.asked, answer.status, lowered(answer.headers))
        else:
            found = server.breaches(read.asked, answer.status, answer.headers, answer.body)
        for breach in found:
            yield Finding(record.source, answer.line, self.counts.requests, "answer", breach)


def _endpoint_of(raw: bytes, broken_is: Endpoint | None = None) -> Endpoint | None:
    """The endpoint that a body is for, by its members; ``broken_is``: the one of what is no object at all."""
    try:
        body: Any = jiter.from_json(raw, allow_inf_nan=True)
    except ValueError:
        return broken_is
    if not isinstance(body, dict):
        return broken_is
    return "chat" if "messages" in body else "completions" if "prompt" in body else None
