"""Judges a request as it goes over the wire: its path, its headers, its bytes, and then its body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from generated.operations import Wire
from generated.problems import SHOWN_CHARACTERS
from generated.rules import PLAIN, Deployment
from handlers import errors, strict_json
from handlers.limits import is_json
from handlers.settings import Settings
from tools.laws.asked import Asked, asked
from tools.laws.bodies import judge_body
from tools.laws.breach import Breach
from tools.laws.routes import Routes
from tools.laws.table import broken


def _settings() -> Settings:
    return Settings(model_name="")


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a request may be; what a deployment takes unless it is configured otherwise."""

    body_bytes: int = field(default_factory=lambda: _settings().max_request_bytes)
    json: strict_json.JsonLimits = field(default_factory=lambda: _settings().json_limits())


@dataclass(frozen=True, slots=True)
class Read:
    """One request, read and judged."""

    wire: Wire | None
    """Its operation; None where it is for none of the contract's."""
    breaches: list[Breach]
    asked: Asked | None
    """What its answer has to obey; None without an operation."""


class Requests:
    """Judges the requests for one deployment."""

    def __init__(self, deployment: Deployment = PLAIN, limits: Limits | None = None) -> None:
        self._deployment = deployment
        self._limits = limits if limits is not None else Limits()
        self._routes = Routes()

    def read(self, method: str, target: str, raw: bytes, headers: Mapping[str, str] | None = None) -> Read:
        """Judge a request by its path or address. One that is for no operation has no breaches and no ``wire``."""
        found = self._routes.find(method, target)
        if isinstance(found, Breach):
            return Read(None, [found], None)
        return Read(None, [], None) if found is None else self.judge(found, raw, headers)

    def breaches(
        self, operation: Wire | str, raw: bytes, headers: Mapping[str, str] | None = None, method: str = "POST"
    ) -> list[Breach]:
        """Every breach of a request; ``operation``: one of ``generated.operations.WIRE``, or a path or address."""
        if isinstance(operation, str):
            return self.read(method, operation, raw, headers).breaches
        return self.judge(operation, raw, headers).breaches

    def judge(self, wire: Wire, raw: bytes, headers: Mapping[str, str] | None = None) -> Read:
        """Judge a request whose operation is known. Headers may have names in any letter case."""
        known = {name.lower(): value for name, value in (headers or {}).items()}
        if wire.request is None:
            return Read(wire, [], asked(wire, None, known))
        found = _of_headers(known)
        if len(raw) > self._limits.body_bytes:
            message = f"the body has {len(raw)} bytes; at most {self._limits.body_bytes} are taken"
            return Read(wire, [*found, broken("body_too_large", None, message)], Asked(wire))
        try:
            strict_json.check_shape(raw, self._limits.json)
            body = strict_json.parse(raw)
        except errors.Problem as problem:
            return Read(wire, [*found, _told(problem.code or "", None, problem.message)], Asked(wire))
        model, breaches = judge_body(wire, body, self._deployment)
        found += breaches
        return Read(wire, found, asked(wire, model, known) if not found else Asked(wire))


def _of_headers(headers: Mapping[str, str]) -> list[Breach]:
    """What is wrong with the body's headers."""
    found = []
    given = headers.get("content-type", "")
    if not is_json(given.encode("utf-8", "replace")):
        message = f"Content-Type is {_cut(given)}; it must be application/json"
        found.append(broken("media_type", "Content-Type", message))
    given = headers.get("content-encoding", "")
    if given.strip().lower() not in ("", "identity"):
        message = f"Content-Encoding is {_cut(given)}; a body must be sent as it is"
        found.append(broken("media_type", "Content-Encoding", message))
    return found


def _told(code: str, field_name: str | None, message: str) -> Breach:
    return broken(code, field_name, message[:1].lower() + message[1:])


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
