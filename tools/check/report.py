"""Writes what was found: text in groups, JSON, or JUnit XML."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from tools.check.findings import Counts, Finding
from tools.check.record import Unreadable
from tools.junit import Case, junit_xml

MOST_PLACES: Final = 12
"""Places that the text names of one group; the other forms name all."""
_INDEX: Final = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Report:
    """All that one run found."""

    counts: Counts
    findings: Sequence[Finding]
    unreadable: Sequence[Unreadable]

    @property
    def code(self) -> int:
        """0: all is well; 1: something breaks the contract; 2: something could not be read."""
        return 2 if self.unreadable else 1 if self.findings else 0


def groups(findings: Sequence[Finding]) -> dict[tuple[str, str, str], list[Finding]]:
    """Findings by side, law and field, indices aside; the most frequent first."""
    found: dict[tuple[str, str, str], list[Finding]] = {}
    for one in findings:
        key = (one.side, one.breach.law, _INDEX.sub("[]", one.breach.field or ""))
        found.setdefault(key, []).append(one)
    return dict(sorted(found.items(), key=lambda entry: -len(entry[1])))


def text(report: Report) -> str:
    """For people: one paragraph for each group, then the counts."""
    lines: list[str] = []
    for (side, law, where), found in groups(report.findings).items():
        first = found[0].breach
        times = "once" if len(found) == 1 else f"{len(found)} times"
        places = list(dict.fromkeys(f"{one.source}:{one.line}" for one in found))
        more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
        lines += [
            f"{law}{f' at {where}' if where else ''}, {times}{'' if side == 'request' else ', in answers'}",
            f"  {first.message}",
            f"  {first.remedy}",
            f"  {', '.join(places[:MOST_PLACES])}{more}",
            "",
        ]
    return "\n".join([*lines, summary(report)]) + "\n"


def summary(report: Report) -> str:
    """The counts in one line."""
    counts = report.counts
    parts = [_number(counts.requests, "request")]
    if counts.answers:
        parts.append(_number(counts.answers, "answer"))
    if counts.others:
        parts.append(f"{_number(counts.others, 'other request')} not judged")
    told = f"{_number(len(report.findings), 'breach', 'breaches')} in {_number(counts.at_fault, 'request')}"
    unread = f"; {_number(len(report.unreadable), 'place')} could not be read" if report.unreadable else ""
    return f"{', '.join(parts)}: {told if report.findings else 'no breach'}{unread}"


def as_json(report: Report) -> str:
    """For programs: every breach with its place, the groups and the counts."""
    counts = report.counts
    document = {
        "version": 1,
        "requests": counts.requests,
        "answers": counts.answers,
        "others": counts.others,
        "requests_at_fault": counts.at_fault,
        "breaches": [
            {"file": one.source, "line": one.line, "request": one.request, "side": one.side, **asdict(one.breach)}
            for one in report.findings
        ],
        "groups": [
            {"side": side, "law": law, "field": where or None, "count": len(found)}
            for (side, law, where), found in groups(report.findings).items()
        ],
        "unreadable": [{"file": one.source, "line": one.line, "reason": one.reason} for one in report.unreadable],
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def junit(report: Report) -> str:
    """For CI servers: a suite for each file; a case for each request without a breach, and for each breach."""
    found: dict[int, list[Finding]] = {}
    for one in report.findings:
        found.setdefault(one.request, []).append(one)
    cases: list[Case] = []
    for number, (source, line) in enumerate(report.counts.judged, 1):
        for one in found.get(number, ()):
            breach = one.breach
            details = f"{source}:{one.line}\n{breach.message}\n{breach.remedy}"
            name = f"line {one.line}: {breach.law}{f' at {breach.field}' if breach.field else ''}"
            cases.append(Case(source, name, kind=breach.law, failure=breach.message, details=details))
        if number not in found:
            cases.append(Case(source, f"line {line}"))
    for lost in report.unreadable:
        name = "file" if lost.line is None else f"line {lost.line}"
        cases.append(Case(lost.source, name, kind="unreadable", error=lost.reason))
    return junit_xml("mindspec check", cases)


def _number(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
