# Written by `mindspec generate` from tools/contract/corpus.py; do not edit.
"""The corpus: boundary cases of every field and witnesses of every rule, as whole request bodies with verdicts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path as FilePath
from typing import Any

from .package import Judge, Package
from .search import ABSENT, Owner, Path, Search, concrete, get, render_path
from .values import Value, boundary, compress, expand
from .shapes import Contract, Rule, openai_shape


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


def dump(cases: list[Case], spec_version: str) -> str:
    """The text of corpus.json: its version, then one case a line, empty members left out.

    The version is the spec's with a hash of the cases, so that two corpora of one version are equal.
    """
    entries = [
        {key: value for key, value in asdict(case).items() if key == "body" or value not in ("", None, {})}
        for case in cases
    ]
    lines = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in entries)
    version = f"{spec_version}+{hashlib.sha256(lines.encode()).hexdigest()[:12]}"
    note = "Generated from the spec; do not edit. {repeat, times} stands for a long string or list."
    return f'{{"note": {json.dumps(note)},\n "version": {json.dumps(version)},\n "cases": [\n{lines}\n]}}\n'


def build(contract: Contract, package: Package) -> tuple[list[Case], list[str]]:
    """All cases, each body once; and what the models get wrong (a fault of the generator or of the spec)."""
    cases: dict[str, Case] = {}
    wrong: list[str] = []
    for operation in contract.operations:
        if operation.request is None:
            continue
        search = Search(contract, Judge(package, operation.request))
        for case in corpus_of(operation.id, search):
            key = json.dumps([case.operation, case.body, dict(case.deployment)], sort_keys=True)
            verdict = search.judge.verdict(expand(case.body), package.deployment(**case.deployment))
            if key not in cases and (verdict.code, verdict.param) != (case.code, case.param):
                said, due = verdict.code or "no error", case.code or "no error"
                wrong.append(f"{case.subject}: {key[:200]} gives {said} at {verdict.param}, not {due} at {case.param}")
            cases.setdefault(key, case)
    return list(cases.values()), wrong


def corpus_of(operation: str, search: Search) -> list[Case]:
    """The cases of one operation, as the spec has them; nobody has asked the models yet."""
    return list(_Builder(operation, search).cases())


@dataclass(frozen=True)
class _Builder:
    """Builds the cases of one operation: field by field, then rule by rule."""

    operation: str
    search: Search

    def cases(self) -> Iterator[Case]:
        for pattern, member, shape in self.search.contract.walk(self.search.judge.request):
            removable = member.required and not pattern.endswith("[]")
            yield from self.field(pattern, boundary(shape, self.search.contract), {}, removable)
            if shape.openai_form:
                other = boundary(openai_shape(shape), self.search.contract)
                yield from self.field(pattern, other, {"openai_form": True}, False)
        for owner in self.search.owners():
            for rule in self.search.contract.models[owner.model].rules:
                yield from self.rule(owner, rule)

    def case(
        self, group: str, subject: str, body: Any, profile: Mapping[str, Any], code: str = "", blamed: Path = ()
    ) -> Case:
        return Case(self.operation, group, subject, compress(body), code, render_path(blamed) or None, profile)

    def field(self, pattern: str, values: list[Value], profile: Mapping[str, Any], removable: bool) -> Iterator[Case]:
        """The values inside, each with the companions that it needs; then the others in the place of a good one."""
        search, path = self.search, concrete(pattern)
        server, sound = search.judge.package.deployment(**profile), search.start()
        for value in (value for value in values if not value.code):
            placed = search.put(search.start(), path, value.value)
            good = search.repair(placed, path, server)
            if good is None and search.judge.broken(placed, server) is None:
                good = placed  # a field is at fault, which build() reports unless the deployment allows it
            if good is not None:
                sound = good if get(sound, path) is None else sound
                yield self.case("inside", pattern, good, profile)
        for value in (value for value in values if value.code):
            bad = search.put(sound, path, value.value)
            yield self.case("outside", pattern, bad, profile, value.code, (*path, *value.below))
        if removable:
            yield self.case("outside", pattern, search.put(sound, path, ABSENT), profile, "missing", path)

    def rule(self, owner: Owner, rule: Rule) -> Iterator[Case]:
        """The accepted example and edge; the smallest witness, or the refused example where no search finds one."""
        search, server = self.search, self.search.judge.package.deployment(**rule.profile)
        examples = search.contract.document.at(rule.where)
        for body in (search.example(owner, examples["example_ok"]), *search.edges(owner, rule)):
            yield self.case("rule-ok", rule.id, body, rule.profile)
        bad = search.witness(owner, rule, server) or search.example(owner, examples["example_bad"])
        yield self.case("rule-bad", rule.id, bad, rule.profile, rule.id, (*owner.path, *rule.fields[0].split(".")))
