"""Finds every breach of a request: all members at fault, and all rules that can be judged beside them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from generated.base import ContractModel, unknown
from generated.operations import Wire
from generated.problems import SHOWN_CHARACTERS, Problem, broken_rule, explain, render_path
from generated.rules import NORMALISERS, PLAIN, Deployment, Path, Rule
from handlers import errors, strict_json
from handlers.limits import is_json
from handlers.settings import Settings
from tools.laws.asked import Asked, asked
from tools.laws.breach import Breach
from tools.laws.repair import put_accepted, take_out
from tools.laws.routes import Routes
from tools.laws.table import broken

MOST_BREACHES: Final = 100
"""Breaches that are told of one request; those after them are not looked for."""


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
        self._fields_only = Deployment(openai_form=deployment.openai_form, fields_only=True)

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
        try:
            model: ContractModel = wire.request.model_validate(body, context=self._deployment)
        except ValidationError:
            return Read(wire, [*found, *self._all(wire, wire.request, body)], Asked(wire))
        return Read(wire, found, asked(wire, model, known) if not found else Asked(wire))

    def _all(self, wire: Wire, model: type[ContractModel], body: Any) -> list[Breach]:
        """The members at fault one after the other, each taken out before the next look; then the rules."""
        found: list[Breach] = []
        faults: list[Path] = []
        whole = copy.deepcopy(body)
        checked: ContractModel | None = None
        for _ in range(2 * MOST_BREACHES):
            try:
                checked = model.model_validate(whole, context=self._fields_only)
                break
            except ValidationError as error:
                problem = explain(error, whole, model.__name__, self._deployment)
            mended = problem.path in faults
            if not mended:
                found.append(_of_field(problem))
                faults.append(problem.path)
            if not problem.path or len(found) >= MOST_BREACHES:
                return found
            if mended or problem.code == "missing" or isinstance(problem.path[-1], int):
                if not put_accepted(whole, problem.path, wire.operation_id):
                    return found
            else:
                take_out(whole, problem.path)
        if checked is None:
            return found
        found += self._unknown(checked, MOST_BREACHES - len(found))
        return found + self._rules(checked, faults, body, MOST_BREACHES - len(found))

    def _unknown(self, checked: ContractModel, most: int) -> list[Breach]:
        if not self._deployment.strict_unknown:
            return []
        names = [_cut(render_path(path)) for path, _ in zip(unknown(checked), range(most), strict=False)]
        return [broken("unknown_field", name, f"{name} is not a field of this API") for name in names]

    def _rules(self, checked: ContractModel, faults: list[Path], body: Any, most: int) -> list[Breach]:
        """Broken rules that look at no member at fault, whose right value nobody knows."""
        server = self._deployment
        if type(checked).__name__ in NORMALISERS:
            NORMALISERS[type(checked).__name__](checked, server)
        found: list[Breach] = []
        for rule, owner in checked.broken(server):
            relaxed = rule.relaxable and rule.id in server.relaxed_rules
            if len(found) < most and not relaxed and not any(_looks_at(rule, owner, fault) for fault in faults):
                path = (*owner, *rule.fields[0].split("."))
                problem = broken_rule(rule.id, rule.message, rule.fields, path, body)
                found.append(Breach(rule.id, problem.param, problem.message, _rule_remedy(rule)))
        return found


def _looks_at(rule: Rule, owner: Path, fault: Path) -> bool:
    """Whether a fault lies in what a rule looks at, or around it."""
    for member in rule.reads:
        seen: Path = (*owner, member)
        shared = min(len(seen), len(fault))
        if seen[:shared] == fault[:shared]:
            return True
    return False


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


def _of_field(problem: Problem) -> Breach:
    remedy = f"Send {problem.allowed}." if problem.allowed else "Leave it out."
    return Breach(problem.code, problem.param, problem.message, remedy)


def _told(code: str, field_name: str | None, message: str) -> Breach:
    return broken(code, field_name, message[:1].lower() + message[1:])


def _rule_remedy(rule: Rule) -> str:
    names = rule.fields[0] if len(rule.fields) == 1 else f"{', '.join(rule.fields[:-1])} or {rule.fields[-1]}"
    example = f"; {rule.accepted} is accepted" if rule.accepted and '"repeat"' not in rule.accepted else ""
    return f"Change {names}{example}."


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
