"""Compares two versions of the contract: what differs, what that does, and the request or answer that shows it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tools.diff.answers import Answers
from tools.diff.change import Change, Effect
from tools.diff.operations import compare_operations, routes
from tools.diff.requests import Requests
from tools.diff.rules import compare_rules
from tools.diff.shapes import compare_models, model_pairs
from tools.diff.version import Version
from tools.generate.shapes import Operation

DRAWN = 200
"""Random requests of each operation, and random answers of each schema, in each version."""


@dataclass
class Report:
    """All changes between two versions."""

    old: str
    new: str
    changes: list[Change] = field(default_factory=list)
    requests: int = 0
    """Requests that were judged by both."""
    answers: int = 0
    """Answers of the new version that were judged by the old one."""

    def of(self, effect: Effect) -> list[Change]:
        """The changes that have one effect."""
        return [change for change in self.changes if change.effect is effect]

    @property
    def breaking(self) -> bool:
        """Whether any change breaks something."""
        return bool(self.of(Effect.BREAKING))


def compare(old: Version, new: Version, drawn: int = DRAWN) -> Report:
    """Everything that differs, with its effect; what differs nowhere in a body is not asked for its meaning."""
    report = Report(old.name, new.name)
    found = list(compare_operations(old, new))
    before, after = routes(old), routes(new)
    both = [(before[route], after[route]) for route in before if route in after]
    for pair in both:
        found += _requests(old, new, pair, drawn, report)
    found += _answers(old, new, both, drawn, report)
    report.changes = _merged(found)
    return report


def _requests(
    old: Version, new: Version, pair: tuple[Operation, Operation], drawn: int, report: Report
) -> list[Change]:
    roots = pair[0].request, pair[1].request
    if roots[0] is None or roots[1] is None:
        return []
    names = roots[0], roots[1]
    changes = list(compare_models("request", old, new, names))
    for models in model_pairs(old, new, names):
        changes += compare_rules(old, new, models)
    changes = _merged(changes)
    if changes:
        requests = Requests(old, new, pair, changes)
        requests.run(drawn)
        report.requests += requests.tried
        for change in changes:
            change.operations = [requests.route]
    return changes


def _answers(
    old: Version, new: Version, both: list[tuple[Operation, Operation]], drawn: int, report: Report
) -> list[Change]:
    """Each pair of answer schemas once, however many operations and statuses have it."""
    used: dict[tuple[str, str], list[str]] = {}
    found: list[Change] = []
    for mine, other in both:
        others = {(answer.status, answer.media): answer for answer in other.answers}
        for answer in mine.answers:
            at = f"{mine.method.upper()} {mine.path} {answer.status}"
            twin = others.get((answer.status, answer.media))
            if twin is None:
                continue
            for names in _paired(answer.models, twin.models):
                used.setdefault(names, []).append(at)
            if len(answer.models) != len(twin.models):
                more = len(twin.models) > len(answer.models)
                shown = ", ".join(answer.models) or None, ", ".join(twin.models) or None
                found.append(
                    Change("answer", at, "schema", *shown, more, not more, [at], twin.models[0] if more else "")
                )
    for names, places in used.items():
        changes = list(compare_models("answer", old, new, names))
        for change in changes:
            change.model, change.operations = names[1], list(places)
        if changes:
            answers = Answers(old, new, names, places[0], changes)
            answers.run(drawn)
            report.answers += answers.tried
            found += answers.changes
    return found


def _paired(mine: tuple[str, ...], others: tuple[str, ...]) -> list[tuple[str, str]]:
    """Alternatives that belong together: those of one name, then the others in their order."""
    same = [(name, name) for name in mine if name in others]
    left = [name for name in mine if name not in others], [name for name in others if name not in mine]
    return [*same, *zip(*left, strict=False)]


def _merged(changes: list[Change]) -> list[Change]:
    """One change for what several operations share, with the smallest of their examples."""
    found: dict[str, Change] = {}
    for change in changes:
        key = json.dumps(
            [change.side, change.where, change.keyword, change.old, change.new, change.line_new], default=str
        )
        known = found.setdefault(key, change)
        if known is not change:
            known.operations += [name for name in change.operations if name not in known.operations]
            for slot in ("breaks", "relaxes", "tells"):
                if getattr(known, slot) is None:
                    setattr(known, slot, getattr(change, slot))
    return list(found.values())
