"""Holds the diff to what requests and answers say that it has not drawn itself, over random mutations of the spec."""

from __future__ import annotations

import argparse
import gc
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from spec_mutations import KINDS, Mutation, mutate

from tools.contract.invalid import invalid_requests
from tools.contract.strategy import valid_requests
from tools.contract.values import expand
from tools.diff.answers import fault
from tools.diff.change import Effect
from tools.diff.compare import Report, compare
from tools.diff.outcome import outcome
from tools.diff.version import Version, version_of
from tools.generate.document import Document, SpecError
from tools.generate.load import load
from tools.generate.shapes import Contract, Shape, allowed_texts, refused_values

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "spec" / "openapi.yaml"
SHARES = {"create_chat_completion": 0.5, "create_completion": 0.35, "count_tokens": 0.15}
"""Operation to its share of the generated requests."""
DEPLOYMENTS: tuple[Mapping[str, Any], ...] = ({}, {"features": ["pd", "reasoning", "mtp"]}, {"model_type": "deepseek"})


@dataclass(frozen=True)
class Asked:
    """A request and what the old version said of it."""

    operation: str
    deployment: Mapping[str, Any]
    body: Any
    code: str
    param: str | None


@dataclass
class Finding:
    """One mutation, what the diff said, and what requests and answers showed."""

    mutation: Mutation
    report: Report
    shown: Counter[str] = field(default_factory=Counter)
    first: dict[str, Any] = field(default_factory=dict)

    @property
    def unsound(self) -> list[str]:
        """Verdicts that changed although the diff has no change of that class."""
        effects = {change.effect for change in self.report.changes}
        wrong = []
        if self.shown["refused now"] and Effect.BREAKING not in effects:
            wrong.append("refused now")
        if self.shown["unexpected answer"] and Effect.BREAKING not in effects:
            wrong.append("unexpected answer")
        if self.shown["accepted now"] and not {Effect.BREAKING, Effect.RELAXATION} & effects:
            wrong.append("accepted now")
        if self.shown["told otherwise"] and not effects:
            wrong.append("told otherwise")
        return wrong


def population(old: Version, count: int, number: int) -> list[Asked]:
    """The corpus and ``count`` generated requests, half of them invalid in one place."""
    cases = [case for operation in old.contract.operations for case in old.corpus(operation)]
    found: list[tuple[str, Mapping[str, Any], Any]] = [(c.operation, c.deployment, expand(c.body)) for c in cases]
    known = [operation.id for operation in old.contract.operations if operation.request]
    shares = {name: share for name, share in SHARES.items() if name in known} or dict.fromkeys(known, 1 / len(known))
    for operation, share in shares.items():
        for words in DEPLOYMENTS:
            server = old.deployment(words)
            each = int(count * share / len(DEPLOYMENTS) / 2)
            valid = valid_requests(operation, server, contract=old.contract, package=old.package)
            broken = invalid_requests(operation, server, contract=old.contract, package=old.package)
            for strategy in (valid, broken.map(lambda wrong: wrong.body)):
                found += [(operation, words, body) for body in draws(strategy, each, number)]
    requests = {operation.id: operation.request for operation in old.contract.operations}
    asked = []
    for operation, words, body in found:
        said = outcome(old, str(requests[operation]), body, old.deployment(words))
        asked.append(Asked(operation, words, body, said.code, said.param))
    return asked


def draws(strategy: st.SearchStrategy[Any], count: int, number: int) -> list[Any]:
    """``count`` draws of a strategy, the same for the same number."""
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=max(1, count), database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )  # fmt: skip
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found[:count]


def random_value(contract: Contract, shape: Shape, draw: random.Random) -> Any:
    """A value that a shape allows, mostly far from its bounds."""
    if shape.nullable and draw.random() < 0.2:
        return None
    branch = draw.choice(shape.branches)
    limits, kind = branch.limits, branch.kind
    if kind == "object":
        return random_answer(contract, branch.model, draw) if branch.model else {}
    if kind == "list":
        size = draw.randint(limits.get("minItems", 0), limits.get("minItems", 0) + 2)
        return [random_value(contract, branch.items, draw) if branch.items else "x" for _ in range(size)]
    if kind == "string":
        known = allowed_texts(limits)
        if known:
            return draw.choice(known)
        examples = [text for text in branch.examples if isinstance(text, str)]
        return (
            draw.choice(examples)
            if examples
            else "x" * draw.randint(limits.get("minLength", 0), limits.get("maxLength", 9))
        )
    if kind == "boolean":
        return limits.get("const", draw.random() < 0.5)
    if kind == "any":
        return "anything"
    low, high = limits.get("minimum", limits.get("exclusiveMinimum", -50)), limits.get("maximum", 50)
    low, high = max(low, -(2**40)), min(max(high, low), 2**40)
    if kind == "integer":
        value = draw.choice([int(low) + 1, int(high), draw.randint(int(low), max(int(low), int(high)))])
        return value if value not in refused_values(limits) else value + 1
    return draw.choice([draw.uniform(low, high), float(high)])


def random_answer(contract: Contract, model: str, draw: random.Random) -> dict[str, Any]:
    """An object of a model, optional members now and then left out."""
    return {
        member.name: random_value(contract, member.shape, draw)
        for member in contract.models[model].members.values()
        if member.required or draw.random() < 0.6
    }


def _roots(contract: Contract) -> set[str]:
    """Models that are whole answers."""
    return {name for operation in contract.operations for answer in operation.answers for name in answer.models}


def judged(old: Version, asked: list[Asked], mutation: Mutation, answers: int, drawn: int) -> Finding | None:
    """Compare a spec with its mutation, and hold the report to the population; None where it cannot be generated."""
    try:
        new = version_of(Document("mutant", mutation.data))
    except SpecError:
        return None
    try:
        try:
            finding = Finding(mutation, compare(old, new, drawn))
        except Exception as error:
            error.add_note(f"mutation: {mutation.kind}: {mutation.what}")
            raise
        requests = {operation.id: operation.request for operation in new.contract.operations}
        for one in asked:
            said = outcome(new, str(requests[one.operation]), one.body, new.deployment(one.deployment))
            if (said.code, said.param) != (one.code, one.param):
                word = "refused now" if not one.code else "accepted now" if not said.code else "told otherwise"
                finding.shown[word] += 1
                finding.first.setdefault(word, (one, said))
        draw = random.Random(mutation.what)
        names = sorted(_roots(old.contract) & _roots(new.contract))
        for index in range(answers):
            model = names[index % len(names)]
            body = random_answer(new.contract, model, draw)
            if fault(new, model, body) is None and fault(old, model, body) is not None:
                finding.shown["unexpected answer"] += 1
                finding.first.setdefault("unexpected answer", (model, body))
        return finding
    finally:
        if new.package.name != old.package.name:
            new.close()
        gc.collect()


def findings(first: int, count: int, requests: int, drawn: int, spec: Path = SPEC) -> Iterator[Finding]:
    """The findings of so many mutations that can be generated, from a seed on."""
    document = load(spec)
    old = version_of(document)
    asked = population(old, requests, first)
    number = first
    found = 0
    while found < count:
        mutation = mutate(document.data, number)
        finding = judged(old, asked, mutation, requests, drawn) if mutation is not None else None
        number += 1
        if finding is not None:
            found += 1
            yield finding


@dataclass
class Tally:
    """Counts over many findings."""

    mutations: int = 0
    unsound: int = 0
    said: int = 0
    shown: int = 0
    kinds: set[str] = field(default_factory=set)

    def add(self, finding: Finding) -> str:
        """Count a finding; returns what is to be looked at in it."""
        breaking = finding.report.of(Effect.BREAKING)
        proven = any(change.breaks is not None for change in breaking)
        self.mutations += 1
        self.unsound += bool(finding.unsound)
        self.said += bool(breaking)
        self.shown += proven
        self.kinds.add(finding.mutation.kind)
        return "UNSOUND" if finding.unsound else "not shown" if breaking and not proven else ""

    def __str__(self) -> str:
        return (
            f"{self.mutations} mutations of {len(self.kinds)} of {len(KINDS)} kinds: {self.unsound} unsound; breaking "
            f"said of {self.said}, shown by an example that was run {self.shown} times: precision "
            f"{self.shown / max(1, self.said):.3f}"
        )


def main() -> int:
    """Print what the diff said of each mutation, where it was wrong, and its precision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--requests", type=int, default=2000, help="and so many answers")
    parser.add_argument("--drawn", type=int, default=100, help="by the diff itself")
    parser.add_argument("--spec", type=Path, default=SPEC)
    options = parser.parse_args()
    tally = Tally()
    for finding in findings(options.seed, options.mutations, options.requests, options.drawn, options.spec):
        mark = tally.add(finding)
        effects = ",".join(str(change.effect) for change in finding.report.changes) or "nothing"
        done = finding.mutation
        print(f"{tally.mutations} {done.kind}: {done.what[:300]} => {effects} {dict(finding.shown)} {mark}", flush=True)
        for word in finding.unsound:
            print(f"    {word}: {str(finding.first[word])[:600]}")
    print(tally)
    return 1 if tally.unsound else 0


if __name__ == "__main__":
    sys.exit(main())
