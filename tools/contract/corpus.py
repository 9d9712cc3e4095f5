"""The corpus: boundary cases of every field and witnesses of every rule, as whole request bodies with verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path as FilePath
from typing import Any

from tools.contract.package import Judge, Package
from tools.contract.search import ABSENT, Owner, Path, Search, concrete
from tools.contract.values import Value, boundary, compress, expand
from tools.generate.fields import openai_shape
from tools.generate.shapes import Contract, Rule, Shape


@dataclass(frozen=True)
class Case:
    """One request body and what the contract says about it."""

    operation: str
    group: str
    """``inside``, ``outside``, ``rule-ok`` or ``rule-bad``."""
    subject: str
    """The path pattern of the field, or the rule's id, that the case is about."""
    body: Any
    code: str = ""
    """Empty: the body is accepted."""
    param: str | None = None
    deployment: Mapping[str, Any] = field(default_factory=dict)
    """The profile that the case needs, as arguments of a Deployment."""

    @property
    def accepted(self) -> bool:
        """Whether the contract accepts the body."""
        return not self.code


def load_corpus(path: FilePath) -> list[Case]:
    """Read corpus.json; bodies stay compressed, see :func:`expand`."""
    return [Case(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))["cases"]]


def dump(cases: list[Case]) -> str:
    """The text of corpus.json: one case a line, empty members left out."""
    lines = []
    for case in cases:
        entry = {key: value for key, value in asdict(case).items() if value not in ("", None, {}) or key == "body"}
        lines.append("  " + json.dumps(entry, ensure_ascii=False))
    head = json.dumps("Generated from the spec; do not edit. {repeat, times} stands for a long string or list.")
    return '{"note": ' + head + ',\n "cases": [\n' + ",\n".join(lines) + "\n]}\n"


def build(contract: Contract, package: Package) -> tuple[list[Case], list[str]]:
    """All cases, and what the models get wrong (each a fault of the generator or of the spec).

    A rule's cases come from the owner of the rule; a rule without a witness is a finding of lint and has none here.
    """
    cases: dict[str, Case] = {}
    wrong: list[str] = []
    for operation in contract.operations:
        if operation.request is None:
            continue
        search = Search(contract, Judge(package, operation.request))
        for case in [*_fields(operation.id, search), *_rules(operation.id, search)]:
            key = json.dumps([case.operation, case.body, dict(case.deployment)], sort_keys=True)
            if key in cases:
                continue
            cases[key] = case
            server = package.deployment(**case.deployment)
            verdict = search.judge.verdict(expand(case.body), server)
            if (verdict.code, verdict.param) != (case.code, case.param):
                said, due = verdict.code or "no error", case.code or "no error"
                wrong.append(f"{case.subject}: {key[:200]} gives {said} at {verdict.param}, not {due} at {case.param}")
    return list(cases.values()), wrong


def _fields(operation: str, search: Search) -> Iterator[Case]:
    contract = search.contract
    for pattern, member, shape in contract.walk(search.judge.request):
        path = concrete(pattern)
        yield from _field(operation, search, pattern, path, boundary(shape, contract), {})
        if shape.openai_form:
            other = boundary(openai_shape(shape), contract)
            yield from _field(operation, search, pattern, path, other, {"openai_form": True})
        if member.required and not pattern.endswith("[]"):
            body = _with(search, path, None, shape)
            yield Case(
                operation, "outside", pattern, compress(search.put(body, path, ABSENT)), "missing", _render(path)
            )


def _with(search: Search, path: Path, value: Any, shape: Shape) -> dict[str, Any]:
    """A valid request that has the path, to take a wrong value there."""
    for try_ in boundary(shape, search.contract):
        if not try_.code and try_.value is not None:
            body = search.repair(search.put(search.start(), path, try_.value), path)
            if body is not None:
                return body
    return search.start()


def _field(
    operation: str, search: Search, pattern: str, path: Path, values: list[Value], profile: Mapping[str, Any]
) -> Iterator[Case]:
    server = search.judge.package.deployment(**profile)
    body: dict[str, Any] | None = None
    for value in (value for value in values if not value.code):
        placed = search.put(search.start(), path, value.value)
        good = search.repair(placed, path, server)
        if good is None and search.judge.broken(placed, server) is None:
            good = placed  # the models refuse what the spec allows: build() reports it
        if good is not None:
            body = body or (good if value.value is not None else None)
            yield Case(operation, "inside", pattern, compress(good), "", None, profile)
    for value in (value for value in values if value.code):
        bad = search.put(body or search.start(), path, value.value)
        blamed = _render((*path, *value.below))
        yield Case(operation, "outside", pattern, compress(bad), value.code, blamed, profile)


def _rules(operation: str, search: Search) -> Iterator[Case]:
    for owner in search.owners():
        for rule in search.contract.models[owner.model].rules:
            yield from rule_cases(operation, search, owner, rule)


def rule_cases(operation: str, search: Search, owner: Owner, rule: Rule) -> Iterator[Case]:
    """The rule's accepted example, and its smallest witness (or its refused example where no search finds one)."""
    server = search.judge.package.deployment(**rule.profile)
    examples = search.contract.document.at(rule.where)
    good, bad = search.example(owner, examples["example_ok"]), search.example(owner, examples["example_bad"])
    yield Case(operation, "rule-ok", rule.id, compress(good), "", None, rule.profile)
    for body in search.edges(owner, rule):
        yield Case(operation, "rule-ok", rule.id, compress(body), "", None, rule.profile)
    found = search.witness(owner, rule, server) or bad
    blamed = _render((*owner.path, *rule.fields[0].split(".")))
    yield Case(operation, "rule-bad", rule.id, compress(found), rule.id, blamed, rule.profile)


def _render(path: Path) -> str:
    """A path as errors name it."""
    return "".join(
        f"[{key}]" if isinstance(key, int) else f".{key}" if index else key for index, key in enumerate(path)
    )
