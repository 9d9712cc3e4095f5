"""How laws ask a server: requests by their members, each answer read, kept for other laws, and paid for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from generated.rules import PLAIN, Deployment
from tools.conform import features
from tools.conform.budget import Budget, prompt_estimate
from tools.conform.errors import read_error
from tools.conform.law import Skip
from tools.conform.replies import Reply, read
from tools.conform.sides import SIDES, Side
from tools.conform.wire import JSON, Exchange, Sent, Transport

Made = TypeVar("Made")
_PLAIN_TOKENS: Final = 64
"""What an answer without max_tokens is taken to cost."""

_NO_ENDPOINT: Final = frozenset({404, 405, 501})


@dataclass(frozen=True)
class Target:
    """The server under test, and what was said about it."""

    model: str
    base_path: str = "/v1"
    deployment: Deployment = PLAIN
    seed: int = 1


@dataclass
class Kept:
    """Answers by request; laws that ask the same get the same answer, and threads wait for one that is on its way."""

    answers: dict[tuple[Sent, int], Exchange] = field(default_factory=dict)
    locks: dict[tuple[Sent, int], threading.Lock] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: tuple[Sent, int], make: Callable[[], Exchange]) -> Exchange:
        """The kept answer, or a new one."""
        with self.guard:
            lock = self.locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self.answers:
                self.answers[key] = make()
            return self.answers[key]


class Ask:
    """One attempt at the laws: its answers are its own, the budget is everybody's."""

    def __init__(self, transport: Transport, target: Target, budget: Budget, before: Ask | None = None) -> None:
        self.target = target
        self._transport, self._budget, self._kept = transport, budget, Kept()
        self._memory: dict[Any, Any] = {}
        self._before = before

    def again(self) -> Ask:
        """Another attempt, with answers of its own."""
        return Ask(self._transport, self.target, self._budget, self)

    def only_again(self, exchanges: Iterable[Exchange]) -> Ask:
        """This attempt for a law whose requests stand alone: those of these exchanges are sent again, the others are
        answered as they were before."""
        return _Repeating(self, frozenset(exchange.sent for exchange in exchanges))

    def memo(self, key: Any, make: Callable[[], Made]) -> Made:
        """What ``make`` gave when this key was first asked for: for judgements that several laws share."""
        if key not in self._memory:
            self._memory[key] = make()
        found: Made = self._memory[key]
        return found

    # --- requests ---------------------------------------------------------------------------------------------------

    def body(self, side: Side, fields: Mapping[str, Any]) -> dict[str, Any]:
        """A request's members: the smallest request with these over it, at most 16 tokens unless they say."""
        return {**side.body(self.target.model), "max_tokens": 16, **fields}

    # Any, since a member of ``fields`` that is unpacked could be meant.
    def reply(self, side: Side, *, again: Any = 0, req_id: Any = None, **fields: Any) -> Reply:
        """A whole or streamed answer that has to be 200. Raises Unanswered, Skip or UsedUp.

        ``again``: which of several equal requests this is.
        """
        return read(self.post(side, self.body(side, fields), again=again, req_id=req_id))

    def post(
        self,
        side: Side,
        body: Mapping[str, Any],
        *,
        again: int = 0,
        req_id: str | None = None,
        first_event: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Exchange:
        """Any exchange with one of the two endpoints."""
        sent_headers = [("Content-Type", JSON), *([("req-id", req_id)] if req_id is not None else [])]
        sent_headers += (headers or {}).items()
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        sent = Sent("POST", self.target.base_path + side.path, data, tuple(sent_headers), first_event)
        return self.send(sent, _cost(body) + prompt_estimate(data), again=again)

    def send(self, sent: Sent, tokens: int = _PLAIN_TOKENS, *, again: int = 0) -> Exchange:
        """Any exchange; ``tokens`` is what it may cost at most."""
        return self._kept.get((sent, again), lambda: self._paid(sent, tokens))

    def before(self) -> Ask:
        """The attempt before this one; itself where it is the first."""
        return self._before or self

    def get(self, path: str) -> Exchange:
        """GET of a path from the root."""
        return self.send(Sent("GET", path, headers=()), 0)

    def _paid(self, sent: Sent, tokens: int) -> Exchange:
        self._budget.reserve(tokens)
        exchange = self._transport.exchange(sent)
        self._budget.settle(tokens, exchange)
        return exchange

    # --- what the server offers -------------------------------------------------------------------------------------

    def lacks(self, side: Side, feature: str) -> str | None:
        """Why a feature is not there; None where it is."""
        if feature == features.OWN_SEED:
            return "a mock takes one seed where none is sent" if self.is_mock else None
        if feature == features.FAULTS:
            return None if self._fails_on_demand(side) else "only a mock fails on demand (X-Mock)"
        if feature == features.TOKENIZER:
            return None if self.count_tokens("a") is not None else "there is no POST /v1/tokenizer"
        if feature == features.REFUSES:
            return self._lets_through(side)
        if not features.offered_on(side, feature):
            return f"{side.name} has no {feature}"
        got = self.post(side, features.probe_body(side, feature, self.target.model)).got
        if feature == features.BASIC:
            return f"there is no POST {side.path}" if got.status in _NO_ENDPOINT else None
        if got.status == 200:
            return None
        return f"{feature} is not offered: {got.status or got.fault} to a request with nothing else"

    def need(self, side: Side, *names: str) -> None:
        """Raises Skip for the first feature that is not there."""
        for name in names:
            if (reason := self.lacks(side, name)) is not None:
                raise Skip(reason)

    @property
    def is_mock(self) -> bool:
        """Whether the server says that it is a mock."""
        found = self.json_of(f"/v2/models/{self.target.model}/config") or {}
        return found.get("model_instance_type") == "StandardMock"

    @property
    def nested_errors(self) -> bool | None:
        """Whether its errors have OpenAI's form; None where they have neither."""
        for side in SIDES:
            error = read_error(self.post(side, {}))
            if error is not None:
                return error.nested
        return None

    def json_of(self, path: str) -> dict[str, Any] | None:
        """The object that a GET gives, None where it gives none."""
        got = self.get(path).got
        try:
            found = json.loads(got.body) if got.status == 200 else None
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def count_tokens(self, text: str) -> int | None:
        """What the server's tokenizer makes of a text, None where it does not tell."""
        data = json.dumps({"inputs": text}).encode()
        got = self.send(Sent("POST", "/v1/tokenizer", data), 0).got
        try:
            found = json.loads(got.body)["token_number"] if got.status == 200 else None
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        return found if type(found) is int else None

    def _fails_on_demand(self, side: Side) -> bool:
        if not self.is_mock:
            return False
        body = features.probe_body(side, features.BASIC, self.target.model)
        return self.post(side, body, headers={features.MOCK_HEADER: "status=429"}).got.status == 429

    def _lets_through(self, side: Side) -> str | None:
        outside = [{"temperature": -1}, {"max_tokens": 0}, {"top_p": 2}]
        for fields in outside:
            body = {**side.body(self.target.model, "hello"), "max_tokens": 1, **fields}
            if not 400 <= self.post(side, body).got.status < 500:
                return "values outside small bounds are let through, so huge ones would be worked on"
        return None


class _Repeating(Ask):
    """See ``Ask.only_again``."""

    def __init__(self, ask: Ask, fresh: frozenset[Sent]) -> None:
        super().__init__(ask._transport, ask.target, ask._budget, ask._before)
        self._ask, self._fresh = ask, fresh

    def send(self, sent: Sent, tokens: int = _PLAIN_TOKENS, *, again: int = 0) -> Exchange:
        """From this attempt where it is to be sent again, else from the one before."""
        ask = self._ask if sent in self._fresh else self._ask.before()
        return ask.send(sent, tokens, again=again)


def _cost(body: Mapping[str, Any]) -> int:
    """Tokens that a request may generate."""
    most = body.get("max_tokens") or body.get("max_completion_tokens")
    one = most if type(most) is int and 0 < most <= 100_000 else _PLAIN_TOKENS
    counts = [body.get(name) for name in ("n", "best_of")]
    return one * max([count for count in counts if type(count) is int and 0 < count <= 8192] or [1])
