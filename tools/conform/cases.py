"""The corpus as requests to one server: each body with what the contract says of it under the server's own profile."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from generated.rules import Deployment
from tools.conform.asking import Ask
from tools.conform.errors import read_error
from tools.conform.sides import SIDES, Side
from tools.conform.wire import Exchange
from tools.contract.corpus import Case, load_corpus
from tools.contract.package import Judge, Package, Verdict
from tools.contract.values import expand

CORPUS: Final = Path(__file__).resolve().parents[2] / "generated" / "corpus.json"
HUGE_BYTES: Final = 16 * 1024
"""A larger body is sent only to a server that refuses values outside smaller bounds."""
_FREE: Final = frozenset({"max_tokens", "max_completion_tokens"})
"""What a case about them must not get from us."""


@dataclass(frozen=True)
class Try:
    """One case, ready to be sent."""

    case: Case
    side: Side
    verdict: Verdict
    stream: bool = False

    @property
    def accepted(self) -> bool:
        """Whether the contract accepts it."""
        return not self.verdict.code

    @cached_property
    def body(self) -> Any:
        """The request's body, but for the model's name."""
        body = expand(self.case.body)
        if isinstance(body, dict) and self.stream:
            body = {**body, "stream": True}
        if isinstance(body, dict) and not _FREE & set(body):
            body = {**body, "max_tokens": 1}  # a server that lets a fault through is not kept busy with it
        return body

    @property
    def long(self) -> bool:
        """Whether the request may generate for long: its stream is left after the first event."""
        if not isinstance(self.body, dict):
            return False
        most = [self.body[name] for name in _FREE if name in self.body]
        return any(type(number) is not int or not 0 < number <= 16 for number in most)

    @property
    def huge(self) -> bool:
        """Whether it is much to send, and to work on."""
        return len(json.dumps(self.body)) > HUGE_BYTES

    def send(self, ask: Ask) -> Exchange:
        """The exchange with a server."""
        body = self.body
        if isinstance(body, dict) and body.get("model") == "mock":
            body = {**body, "model": ask.target.model}
        if self.long:
            return ask.post(self.side, {**body, "stream": True}, first_event=True)
        return ask.post(self.side, body)


class Cases:
    """All cases of the two endpoints for one deployment, judged once."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._judges = {side: Judge(Package("generated"), side.model) for side in SIDES}
        self._cases = load_corpus(CORPUS)

    def verdict(self, side: Side, body: Any) -> Verdict:
        """What the contract says of a body."""
        return self._judges[side].verdict(body, self.deployment)

    def of(self, side: Side, wanted: Callable[[Case], bool], *, stream: bool = False) -> list[Try]:
        """The cases that fit, but those of another deployment; with ``stream`` each asks for a stream."""
        found = []
        for case in self._cases:
            if case.operation != side.operation or not wanted(case) or not self._fits(case.deployment):
                continue
            made = Try(case, side, Verdict(), stream)
            body = made.body if stream else expand(case.body)
            found.append(replace(made, verdict=self.verdict(side, body)))
        return found

    def subjects(self, side: Side, *groups: str) -> list[str]:
        """What the cases of these groups are about."""
        return list(
            dict.fromkeys(
                case.subject
                for case in self._cases
                if case.operation == side.operation and case.group in groups and self._fits(case.deployment)
            )
        )

    def _fits(self, needed: Mapping[str, Any]) -> bool:
        server = self.deployment
        family = needed.get("model_type", "")
        form = bool(needed.get("openai_form", server.openai_form))
        return (
            set(needed.get("features", ())) <= server.features
            and family in ("", server.model_type)
            and form == server.openai_form
        )


_CANNOT: Final = frozenset(
    {"unsupported", "unsupported_media", "media_forbidden", "media_unreachable", "media_invalid", "media_too_large"}
)
"""What a model or a deployment cannot do; no server has the media that requests for a test name."""


def limit_of_deployment(tried: Try, exchange: Exchange) -> str | None:
    """Why an accepted request may be refused all the same; None where it may not.

    These are the contract's own exceptions: what a deployment's size, model or engine cannot do is refused by name.
    """
    error = read_error(exchange)
    if error is None:
        return None
    code, param, status = error.code, error.param, exchange.got.status
    if status == 424 and code == "prompt_too_long" and tried.huge:
        return "the prompt is longer than this deployment's"
    if status == 424 and code == "invalid_token_id" and param == "prompt" and tried.case.subject == "prompt[]":
        return "the id is outside the vocabulary"
    if status == 422 and code == "template_error" and tried.huge:
        return "the template takes longer than this deployment allows"
    if status == 422 and code in _CANNOT and isinstance(param, str) and param:
        return f"this deployment cannot carry out {param}"
    if status == 422 and code == "out_of_range" and param in ("n", "best_of") and "maxN" in error.message:
        return "more choices than this deployment's maxN"
    if status == 422 and tried.case.subject == "model" and code == "unknown_model":
        return "the model is not deployed"
    return None
