"""Finds the requests that show what a change does: each is judged by both versions, and belongs to one change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools.contract.search import Owner, Search
from tools.contract.values import SHORT, base, compress, expand
from tools.diff.change import Change, Example
from tools.diff.outcome import Outcome, changed, outcome
from tools.diff.version import Version
from tools.generate.shapes import Operation, Rule

MOST_ASSIGNMENTS: Final = 3000
"""Values that are tried for the members that a changed rule reads."""
Words = Mapping[str, Any]
"""A deployment as plain data."""


@dataclass
class Requests:
    """The requests of one operation under two versions, and the changes that they may show."""

    old: Version
    new: Version
    operations: tuple[Operation, Operation]
    changes: list[Change]
    tried: int = 0
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.models = tuple(operation.request or "" for operation in self.operations)
        self.route = f"{self.operations[0].method.upper()} {self.operations[0].path}"

    def run(self, drawn: int) -> None:
        """Judge the corpora of both versions, the neighbourhood of changed rules, and ``drawn`` requests of each."""
        for version, operation in zip((self.old, self.new), self.operations, strict=True):
            for case in version.corpus(operation):
                self.judge(expand(case.body), case.deployment)
                for words in self.deployments(profiles=False):
                    self.judge(expand(case.body), {**case.deployment, **words})
        for body, words in self._near_rules():
            self.judge(body, words)
        self._drawn(drawn)

    def deployments(self, profiles: bool = True) -> list[Words]:
        """Deployments besides the plain one under which a change may show."""
        keywords = {change.keyword for change in self.changes}
        found: list[Words] = []
        if keywords & {"member", "x-free-form", "type"}:
            found.append({"strict_unknown": True})
        if "x-openai-form" in keywords:
            found.append({"openai_form": True})
        found += [{"relaxed_rules": [change.where]} for change in self.changes if change.keyword == "relaxable"]
        if profiles:
            named = {change.where for change in self.changes if change.keyword in ("rule", "profile")}
            found += [dict(rule.profile) for rule in self._rules(named) if rule.profile]
        return [json.loads(text) for text in dict.fromkeys(json.dumps(words, sort_keys=True) for words in found)]

    def judge(self, body: Any, words: Words) -> None:
        """Ask both versions, and give what differs to the change that it shows."""
        key = json.dumps([compress(body), dict(words)], sort_keys=True, ensure_ascii=False)
        if key in self.seen:
            return
        self.seen.add(key)
        self.tried += 1
        before, after = (
            outcome(version, model, body, version.deployment(words))
            for version, model in zip((self.old, self.new), self.models, strict=True)
        )
        if before.code and not after.code:
            self._keep("relaxes", before, before, after, body, words)
        elif after.code and not before.code:
            # What was ignored nobody could count on.
            self._keep("tells" if before.ignored else "breaks", after, before, after, body, words)
        elif before.code and (before.code, before.param) != (after.code, after.param):
            self._keep("tells", after, before, after, body, words)
        elif not before.code:
            for path, was, now in changed(before.meaning, after.meaning):
                self._means(path, was, now, body, words)

    def _keep(self, slot: str, telling: Outcome, before: Outcome, after: Outcome, body: Any, words: Words) -> None:
        other = before if telling is after else after
        change = (
            self._fitting(telling.code, telling.param)
            or self._fitting(other.code, other.param)
            or self._made(telling.param or telling.code)
        )
        example = Example(self.route, compress(body), said(before), said(after), after.code, words)
        _shorter(change, slot, example)

    def _means(self, path: str, was: Any, now: Any, body: Any, words: Words) -> None:
        change = self._fitting("", path) or self._made(path)
        example = Example(
            self.route, compress(body), f"accepted, {path} is {shown(was)}",
            f"accepted, {path} is {shown(now)}" if now is not None else f"accepted, {path} is ignored", "", words,
        )  # fmt: skip
        _shorter(change, "breaks", example)

    def _made(self, where: str) -> Change:
        """A change of its own for what belongs to none."""
        made = Change("request", where, "verdict", None, None, narrows=False, widens=False, operations=[self.route])
        self.changes.append(made)
        return made

    def _fitting(self, code: str, param: str | None) -> Change | None:
        """The change that a refusal, or a value at a path, belongs to."""
        if not code and not param:
            return None
        path = pattern(param or "")
        rules = [c for c in self.changes if c.where == code and c.keyword in ("rule", "relaxable", "profile", "fields")]
        if rules:
            return rules[0]
        if "-" in code:  # a rule that is itself the same: a normalisation or another member brought it about
            members = self._reads(code)
            near = [c for c in self.changes if c.keyword == "x-normalize" and c.where in members]
            near += [c for c in self.changes if c.where in members or c.where.rstrip("[]") in members]
            if near:
                return near[0]
        best = [c for c in self.changes if c.where == path]
        best += [c for c in self.changes if c.where and _within(path, c.where)]
        best += [c for c in self.changes if c.where and _within(c.where, path)]
        best += [c for c in self.changes if c.keyword in ("x-normalize", "x-validations")]
        return self._by_code(best, path, code) if best else None

    @staticmethod
    def _by_code(found: list[Change], path: str, code: str) -> Change:
        """Of several changes at one place the one that such a code comes of."""
        there = [change for change in found if change.where == path]
        wanted = {
            "wrong_type": ("type", "x-normalize"), "missing": ("required", "member"), "unknown_field": ("member",),
            "too_long": ("maxLength", "maxItems"), "": ("default", "x-normalize", "member"),
        }.get(code, ())  # fmt: skip
        fitting = [change for change in there if change.keyword in wanted]
        others = [change for change in there if change.keyword not in ("default", "type", "required")]
        return next(iter([*fitting, *others, *there, *found]))

    def _rules(self, names: set[str]) -> Iterator[Rule]:
        for version in (self.old, self.new):
            for model in version.contract.models.values():
                yield from (rule for rule in model.rules if rule.id in names)

    def _reads(self, name: str) -> set[str]:
        """The members that a rule reads, in either version."""
        found: set[str] = set()
        for version, model in zip((self.old, self.new), self.models, strict=True):
            search = version.search(model)
            for owner in search.owners():
                for rule in search.contract.models[owner.model].rules:
                    if rule.id == name:
                        found |= set(search.compile(owner.model, rule).fields)
        return found

    def _near_rules(self) -> Iterator[tuple[Any, Words]]:
        """Values around every rule that changed, and around those that read a member which is normalised otherwise."""
        named = {change.where for change in self.changes if change.keyword in ("rule", "relaxable")}
        touched = {
            c.where.rpartition(".")[2].rstrip("[]")
            for c in self.changes
            if c.keyword in ("x-normalize", "type", "required")
        }
        for version, model in zip((self.old, self.new), self.models, strict=True):
            search = version.search(model)
            for owner in search.owners():
                for rule in search.contract.models[owner.model].rules:
                    reads = set(search.compile(owner.model, rule).fields)
                    if rule.id in named or reads & touched:
                        most = MOST_ASSIGNMENTS if rule.id in named else MOST_ASSIGNMENTS // 20
                        yield from self._around(search, owner, rule, most)

    def _around(self, search: Search, owner: Owner, rule: Rule, most: int) -> Iterator[tuple[Any, Words]]:
        places = [rule.profile] if rule.profile else [{}]
        places += [words for words in self.deployments(profiles=False) if "relaxed_rules" in words]
        start = base(owner.model, search.contract)
        for index, (_, changed_members) in enumerate(search.assignments(owner.model, rule, start)):
            if index >= most:
                return
            if index < most // 10 or len(str(changed_members)) < SHORT:
                body = search.put(search.start(), owner.path, changed_members)
                yield from ((body, words) for words in places)

    def _drawn(self, count: int) -> None:
        """Random requests that are valid in one of the versions."""
        from tools.diff.draw import drawn

        for version, operation in zip((self.old, self.new), self.operations, strict=True):
            for words in [{}, *self.deployments()]:
                share = count if not words else max(10, count // 10)
                for body in drawn(version, operation.id, version.deployment(words), share):
                    self.judge(body, words)


def pattern(param: str) -> str:
    """``messages[0].role`` as ``messages[].role``."""
    return re.sub(r"\[\d+\]", "[]", param)


def said(found: Outcome) -> str:
    """An outcome in words."""
    if not found.code:
        return "accepted" + (f", {', '.join(found.ignored[:3])} ignored" if found.ignored else "")
    return f"refused, {found.code}: {found.message}"


def shown(value: Any) -> str:
    """A value, cut."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _within(path: str, where: str) -> bool:
    return path == where or path.startswith((f"{where}.", f"{where}[]"))


def _shorter(change: Change, slot: str, example: Example) -> None:
    """Keep the example that shows most: a refusal rather than another meaning, then the smallest."""
    known: Example | None = getattr(change, slot)
    if known is None or _rank(example) < _rank(known):
        setattr(change, slot, example)


def _rank(example: Example) -> tuple[bool, int, int]:
    size = len(json.dumps(example.body)) + 20 * len(example.deployment)
    return not example.code, size, len(example.after)
