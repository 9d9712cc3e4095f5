"""Finds requests: a value in its place with the companions it needs, and the smallest that breaks one rule alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any, Final

from tools.contract.package import Judge
from tools.contract.values import SHORT, base, boundary, compress, expand, instance, with_text
from tools.generate.cel import Compiled, compile_rule
from tools.generate.shapes import Contract, Rule, Shape

Path = tuple[str | int, ...]
ABSENT: Final = object()
"""In an assignment: leave the member out."""
DEEPEST = 3
"""How many members a search changes at most."""
MOST_STATES = 4000
"""Requests that a repair tries at one depth."""


def concrete(pattern: str) -> Path:
    """``messages[].role`` as a path to the first item: ("messages", 0, "role")."""
    path: list[str | int] = []
    for part in pattern.split("."):
        name, *lists = part.split("[]")
        path += [name, *[0] * len(lists)]
    return tuple(path)


def get(body: Any, path: Path) -> Any:
    """The value at a path, None where there is none."""
    for key in path:
        try:
            body = body[key]
        except (KeyError, IndexError, TypeError):
            return None
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
    fits = isinstance(node, dict) and shape.branch(node) is known[0]
    start = node if fits else base(known[0].model, contract)
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
    known: dict[tuple[str, str, str], list[Any]] = field(default_factory=dict)

    def owners(self) -> list[Owner]:
        """The request and the first place of every model below it that has rules, deepest first."""
        found = [Owner(self.judge.request, ())]
        for pattern, _, shape in self.contract.walk(self.judge.request):
            for branch in shape.branches:
                if branch.model and self.contract.models[branch.model].rules:
                    found += (
                        [] if branch.model in {o.model for o in found} else [Owner(branch.model, concrete(pattern))]
                    )
        return found[::-1]

    def start(self) -> dict[str, Any]:
        """The smallest valid request."""
        return base(self.judge.request, self.contract)

    def put(self, body: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
        """The body with a value at a path (the whole body for the empty path)."""
        return place(self.contract, self.judge.request, body, path, value) if path else value

    def compile(self, model: str, rule: Rule) -> Compiled:
        """The rule's compiled form, kept."""
        key = (model, rule.id)
        if key not in self.compiled:
            self.compiled[key] = compile_rule(rule.cel, self.contract, model)
        return self.compiled[key]

    def options(self, model: str, rule: Rule, name: str, long: bool = False) -> list[Any]:
        """Values worth trying for a member that a rule reads: its boundaries, and what the rule's literals suggest."""
        key = (model, f"{rule.id} {long}", name)
        if key not in self.known:
            self.known[key] = list(self._options(model, rule, name, long))
        return self.known[key]

    def _options(self, model: str, rule: Rule, name: str, long: bool) -> Iterator[Any]:
        member, compiled = self.contract.models[model].members[name], self.compile(model, rule)
        tries = [] if member.required else [ABSENT]
        tries += [value.value for value in boundary(member.shape, self.contract) if not value.code]
        tries += list(compiled.texts) if member.shape.of("string") else []
        if member.shape.of("integer") or member.shape.of("number"):
            tries += [number + step for number in compiled.numbers for step in (0, 1)]
        lengths = [n + step for n in compiled.numbers if n >= 100 for step in (0, 1)] if long else []
        for length in (1, *lengths):
            tries += list(with_text(member.shape, self.contract, "x" * length))
        yield from self._distinct(tries, long)

    @staticmethod
    def _distinct(tries: list[Any], long: bool) -> list[Any]:
        """Each value once, short ones first; null is what ABSENT says already."""
        found: dict[str, Any] = {}
        for value in tries:
            text = "absent" if value is ABSENT else json.dumps(compress(value), sort_keys=True)
            large = value is not ABSENT and value is not None and len(str(value)) > SHORT
            if value is not None and (long or not large):
                found.setdefault(text, value)
        return [found[text] for text in sorted(found, key=lambda text: (text != "absent", len(text), text))]

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
        """The body with one member that a broken rule reads set to something else."""
        for place_ in self.owners():
            rules = {rule.id: rule for rule in self.contract.models[place_.model].rules}
            if rule_id not in rules or len(place_.path) != len(owner):
                continue
            for name in self.compile(place_.model, rules[rule_id]).fields:
                target = (*owner, name)
                if target != path[: len(target)]:
                    tries = self.options(place_.model, rules[rule_id], name)
                    if isinstance(value, str) and len(value) < SHORT:
                        member = self.contract.models[place_.model].members[name]
                        tries = [*tries, *with_text(member.shape, self.contract, value)]
                    yield from (self.put(body, target, try_) for try_ in tries)

    def witness(self, owner: Owner, rule: Rule, deployment: Any) -> dict[str, Any] | None:
        """The smallest request that breaks this rule and no other: fewest members changed, then shortest text."""
        wanted = [(rule.id, owner.path)]
        start = base(owner.model, self.contract)
        best: tuple[int, int, dict[str, Any]] | None = None
        for count, changed in self.assignments(owner.model, rule, start):
            if best is not None and count > best[0]:
                break
            body = self.put(self.start(), owner.path, changed)
            if self.judge.broken(body, deployment) == wanted:
                size = len(json.dumps(compress(body)))
                best = (count, size, body) if best is None or size < best[1] else best
        return best[2] if best is not None else None

    def edges(self, owner: Owner, rule: Rule) -> Iterator[dict[str, Any]]:
        """Accepted requests with text of exactly a length that the rule names."""
        compiled, start = self.compile(owner.model, rule), base(owner.model, self.contract)
        for length, name in product([number for number in compiled.numbers if number >= 100], compiled.fields):
            shape = self.contract.models[owner.model].members[name].shape
            for value in with_text(shape, self.contract, "x" * length):
                body = self.put(self.start(), owner.path, {**start, name: value})
                if self.judge.broken(body) == []:
                    yield body

    def example(self, owner: Owner, members: dict[str, Any]) -> dict[str, Any]:
        """A request around an example of a rule: its members merged over the owner's smallest instance."""
        return self.put(self.start(), owner.path, {**base(owner.model, self.contract), **expand(members)})
