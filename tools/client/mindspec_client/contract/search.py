# Written by `mindspec generate` from tools/contract/search.py; do not edit.
"""Finds requests: a value in its place with the companions it needs, and the smallest that breaks one rule alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any, Final

from .package import Judge
from .values import SHORT, base, boundary, compress, expand, instance, with_text
from .cel import Compiled, compile_rule
from .shapes import Contract, Member, Rule, Shape

Path = tuple[str | int, ...]
ABSENT: Final = object()
"""In an assignment: leave the member out."""
DEEPEST = 3
"""How many members a search changes at most."""
LONG = 100
"""A number in a rule from which on it is taken for a length of text."""
MOST_STATES = 4000
"""Requests that a repair tries at one depth."""


def concrete(pattern: str) -> Path:
    """``messages[].role`` as a path to the first item: ("messages", 0, "role")."""
    path: list[str | int] = []
    for part in pattern.split("."):
        name, *lists = part.split("[]")
        path += [name, *[0] * len(lists)]
    return tuple(path)


def render_path(path: Path) -> str:
    """A path as errors name it: messages[0].role."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


def get(body: Any, path: Path) -> Any:
    """The value at a path, None where there is none."""
    for key in path:
        known = body if isinstance(body, dict) else dict(enumerate(body if isinstance(body, list) else ()))
        body = known.get(key)
    return body


def place(contract: Contract, model: str, node: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy of an object with a value put at a path; parents that are missing are built at their smallest."""
    key, rest = str(path[0]), path[1:]
    if not rest:
        return {name: inner for name, inner in {**node, key: value}.items() if inner is not ABSENT}
    shape = contract.models[model].members[key].shape
    return {**node, key: _place_in(contract, shape, node.get(key), rest, value)}


def _place_in(contract: Contract, shape: Shape, node: Any, path: Path, value: Any) -> Any:
    if isinstance(path[0], int):
        branch = shape.of("list")
        if branch is None or branch.items is None:
            raise KeyError(path)
        items = list(node) if isinstance(node, list) and node else list(instance(branch, contract))
        inner = value if len(path) == 1 else _place_in(contract, branch.items, items[path[0]], path[1:], value)
        return [*items[: path[0]], inner, *items[path[0] + 1 :]]
    known = [branch for branch in shape.branches if branch.model and path[0] in contract.models[branch.model].members]
    start = node if isinstance(node, dict) else base(known[0].model, contract)
    return place(contract, known[0].model, start, path, value)


@dataclass(frozen=True)
class Owner:
    """An object in a request that has rules: its model and its path, () for the request itself."""

    model: str
    path: Path


@dataclass
class Search:
    """Searches in the requests of one model, judged by freshly generated code."""

    contract: Contract
    judge: Judge
    compiled: dict[tuple[str, str], Compiled] = field(default_factory=dict)
    known: dict[tuple[str, str, str, bool], list[Any]] = field(default_factory=dict)

    def owners(self) -> list[Owner]:
        """The request and the first place of every model below it that has rules, deepest first."""
        found = {self.judge.request: Owner(self.judge.request, ())}
        for pattern, _, shape in self.contract.walk(self.judge.request):
            for model in (branch.model for branch in shape.branches if branch.model):
                if self.contract.models[model].rules:
                    found.setdefault(model, Owner(model, concrete(pattern)))
        return list(found.values())[::-1]

    def start(self) -> dict[str, Any]:
        """The smallest valid request."""
        return base(self.judge.request, self.contract)

    def put(self, body: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
        """The body with a value at a path (the whole body for the empty path)."""
        return place(self.contract, self.judge.request, body, path, value) if path else value

    def compile(self, model: str, rule: Rule) -> Compiled:
        """The rule's compiled form, kept."""
        if (model, rule.id) not in self.compiled:
            self.compiled[model, rule.id] = compile_rule(rule.cel, self.contract, model)
        return self.compiled[model, rule.id]

    def options(self, model: str, rule: Rule, name: str, long: bool = False) -> list[Any]:
        """Values worth trying for a member that a rule reads: its boundaries, and what the rule's literals suggest.

        Each once, short ones first. Null is left out, since ABSENT says the same; long strings come only if asked for.
        """
        if (model, rule.id, name, long) not in self.known:
            found: dict[str, Any] = {}
            for value in self._tries(self.contract.models[model].members[name], self.compile(model, rule), long):
                text = "" if value is ABSENT else json.dumps(compress(value), sort_keys=True)
                if value is not None and (long or value is ABSENT or len(str(value)) <= SHORT):
                    found.setdefault(text, value)
            self.known[model, rule.id, name, long] = [found[text] for text in sorted(found, key=lambda t: (len(t), t))]
        return self.known[model, rule.id, name, long]

    def _tries(self, member: Member, rule: Compiled, long: bool) -> Iterator[Any]:
        shape, lengths = member.shape, [number for number in rule.numbers if long and number >= LONG]
        yield from [] if member.required else [ABSENT]
        yield from (value.value for value in boundary(shape, self.contract) if not value.code)
        yield from rule.texts if shape.of("string") else ()
        if shape.of("integer") or shape.of("number"):
            yield from (number + step for number in rule.numbers for step in (0, 1))
        for length in (1, *lengths, *(length + 1 for length in lengths)):
            yield from with_text(shape, self.contract, "x" * length)

    def assignments(self, model: str, rule: Rule, start: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Changed copies of an object, over the members that the rule reads; few changes first."""
        names = self.compile(model, rule).fields
        for count in range(DEEPEST + 1):
            for chosen in combinations(names, count):
                for values in product(*(self.options(model, rule, name, count == 1) for name in chosen)):
                    changed = {**start, **dict(zip(chosen, values, strict=True))}
                    if all(start.get(name, ABSENT) is not value for name, value in zip(chosen, values, strict=True)):
                        yield count, {name: value for name, value in changed.items() if value is not ABSENT}

    def repair(self, body: dict[str, Any], path: Path, deployment: Any = None) -> dict[str, Any] | None:
        """The body with the fewest other members changed so that no rule is broken; the value at the path stays.

        None where a field is at fault, or where no few changes help.
        """
        states, value = [body], get(body, path)
        for _ in range(DEEPEST + 1):
            following: list[dict[str, Any]] = []
            for state in states:
                broken = self.judge.broken(state, deployment)
                if broken == []:
                    return state
                if broken and len(following) < MOST_STATES:
                    following += self.changes(state, broken[0][0], broken[0][1], path, value)
            states = following
        return None

    def changes(
        self, body: dict[str, Any], rule_id: str, owner: Path, path: Path, value: Any
    ) -> Iterator[dict[str, Any]]:
        """The body with one member that a broken rule reads set to something else, but nothing at or above the path."""
        models = [place.model for place in self.owners() if len(place.path) == len(owner)]
        rules = [(model, rule) for model in models for rule in self.contract.models[model].rules if rule.id == rule_id]
        for model, rule in rules:
            for name in self.compile(model, rule).fields:
                tries = self.options(model, rule, name)
                if isinstance(value, str) and len(value) < SHORT:
                    tries = [*tries, *with_text(self.contract.models[model].members[name].shape, self.contract, value)]
                if (*owner, name) != path[: len(owner) + 1]:
                    yield from (self.put(body, (*owner, name), try_) for try_ in tries)

    def witness(self, owner: Owner, rule: Rule, deployment: Any) -> dict[str, Any] | None:
        """The smallest request that breaks this rule and no other: fewest members changed, then shortest text."""
        best: tuple[int, int, dict[str, Any]] | None = None
        for count, changed in self.assignments(owner.model, rule, base(owner.model, self.contract)):
            if best is not None and count > best[0]:
                break
            body = self.put(self.start(), owner.path, changed)
            if self.judge.broken(body, deployment) == [(rule.id, owner.path)]:
                size = len(json.dumps(compress(body)))
                best = (count, size, body) if best is None or size < best[1] else best
        return best[2] if best is not None else None

    def edges(self, owner: Owner, rule: Rule) -> Iterator[dict[str, Any]]:
        """Accepted requests with text of exactly a length that the rule names."""
        compiled, start = self.compile(owner.model, rule), base(owner.model, self.contract)
        for length, name in product([number for number in compiled.numbers if number >= LONG], compiled.fields):
            shape = self.contract.models[owner.model].members[name].shape
            for value in with_text(shape, self.contract, "x" * length):
                body = self.put(self.start(), owner.path, {**start, name: value})
                if self.judge.broken(body) == []:
                    yield body

    def example(self, owner: Owner, members: dict[str, Any]) -> dict[str, Any]:
        """A request around an example of a rule: its members merged over the owner's smallest instance."""
        return self.put(self.start(), owner.path, {**base(owner.model, self.contract), **expand(members)})
