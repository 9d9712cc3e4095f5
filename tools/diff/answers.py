"""Finds the answers that show what a change does: valid in the new version, judged as a reader of the old one does."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from tools.contract.search import ABSENT, concrete, place
from tools.contract.values import base, boundary, compress, minimal
from tools.diff.change import Change, Example
from tools.diff.requests import pattern, shown
from tools.diff.shapes import VALUES, Spot, is_inner, spots
from tools.diff.version import Version
from tools.generate.fields import words

SEED: Final = 1
MOST_AT_ONCE: Final = 4
"""Members of a random answer that are something else than at their smallest."""


@dataclass
class Answers:
    """The answers of one model under two versions, and the changes that they may show."""

    old: Version
    new: Version
    models: tuple[str, str]
    at: str
    """An operation and a status that they belong to."""
    changes: list[Change]
    tried: int = 0

    def run(self, drawn: int) -> None:
        """Judge answers of the new version by the old one; then what was promised and is gone."""
        for body in bodies(self.new, self.models[1], drawn):
            self.judge(body)
        for change in (change for change in self.changes if change.keyword == "member" and change.new is None):
            if change.breaks is None:
                self._taken_away(change)

    def judge(self, body: Any) -> None:
        """Ask a reader of the old version about an answer of the new one."""
        if not accepts(self.new, self.models[1], body):
            return
        self.tried += 1
        refusal = fault(self.old, self.models[0], body)
        if refusal is None:
            return
        where, message = refusal
        example = Example(self.at, compress(body), "was not to be expected", message, "unexpected")
        change = self._change(where)
        if change.breaks is None or len(json.dumps(example.body)) < len(json.dumps(change.breaks.body)):
            change.breaks = example

    def _taken_away(self, change: Change) -> None:
        """An old answer with a member that no answer of the new version is said to have."""
        spot = spots(self.old, self.models[0])[change.where]
        value = minimal(spot.shape, self.old.contract)
        body = place(
            self.old.contract, self.models[0], base(self.models[0], self.old.contract), concrete(change.where), value
        )
        if accepts(self.old, self.models[0], body):
            after = f"{change.where} is no longer promised"
            change.breaks = Example(self.at, compress(body), f"{change.where} may be there", after, "missing")

    def _change(self, where: str) -> Change:
        exact = [change for change in self.changes if change.where == where]
        exact += [c for c in self.changes if c.where.endswith(VALUES) and where.startswith(c.where[:-1])]
        near = [c for c in self.changes if where.startswith((f"{c.where}.", f"{c.where}[]"))]
        near += [c for c in self.changes if c.where.startswith((f"{where}.", f"{where}[]"))]
        narrowing = [change for change in exact if change.narrows]
        for found in (*narrowing, *exact, *near):
            return found
        made = Change(
            "answer",
            where,
            "verdict",
            None,
            None,
            narrows=True,
            widens=False,
            operations=[self.at],
            model=self.models[1],
        )
        self.changes.append(made)
        return made


def accepts(version: Version, model: str, body: Any) -> bool:
    """Whether a version's schema allows an answer."""
    return fault(version, model, body) is None


def fault(version: Version, model: str, body: Any) -> tuple[str, str] | None:
    """The pattern of the member that a version's schema does not expect, with a sentence; None where all is well."""
    problems = version.package.module("problems")
    try:
        getattr(version.package.module("models"), model).model_validate(body)
    except ValidationError as error:
        location = error.errors(include_url=False, include_input=False)[0]["loc"]
        path = tuple(key for key in location if not problems.is_tag(key))
        name = problems.render_path(path)
        places = spots(version, model)
        known = places.get(pattern(name)) or places.get(pattern(name).rpartition(".")[0] + VALUES)
        given = problems.value_at(body, path)
        there = f"{name} is {shown(given)}" if given is not None else f"{name} is null or not there"
        return pattern(name), f"{there}; a reader was promised {_promise(known)}"
    return None


def _promise(spot: Spot | None) -> str:
    return words(spot.shape) if spot is not None else "something else"


def bodies(version: Version, model: str, count: int) -> Iterator[dict[str, Any]]:
    """Answers of a model: the smallest, each value at each place, members left out, and ``count`` random ones.

    Some may be invalid as a whole; ask ``accepts``.
    """
    contract = version.contract
    smallest = base(model, contract)
    places: list[tuple[str, list[Any]]] = []
    for name, spot in spots(version, model).items():
        values = [value.value for value in boundary(spot.shape, contract) if not value.code]
        if spot.shape.of("number"):
            values += [value + 0.5 for value in values if type(value) is int]
        if not spot.member.required and not is_inner(name):
            values.append(ABSENT)
        if name.endswith(VALUES):
            name, values = name.removesuffix(VALUES), [{"x": value} for value in values]
        places += [(name, values)] if values else []
    yield smallest
    yield from (place(contract, model, smallest, concrete(name), v) for name, values in places for v in values)
    source = random.Random(SEED)
    for _ in range(count):
        body = smallest
        for name, values in source.sample(places, min(len(places), source.randint(1, MOST_AT_ONCE))):
            body = place(contract, model, body, concrete(name), source.choice(values))
        yield body
