"""The report of a run: scores by group, every finding with its curl, as text, JSON or JUnit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tools.conform.curl import CurlWriter
from tools.conform.law import Finding, Outcome
from tools.conform.replies import shown
from tools.junit import Case, junit_xml

_STATUSES: Final = ("pass", "fail", "flaky", "skip")


@dataclass(frozen=True)
class Report:
    """What a run found."""

    url: str
    """Of the server, with the base path."""
    model: str
    outcomes: Sequence[Outcome]
    curl: CurlWriter
    requests: int
    tokens: int
    seconds: float

    @property
    def broken(self) -> list[Outcome]:
        """Laws that failed, always or sometimes."""
        return [outcome for outcome in self.outcomes if outcome.status in ("fail", "flaky")]

    def counts(self, group: str | None = None) -> Counter[str]:
        """Outcomes by status, of a group or of all."""
        return Counter(o.status for o in self.outcomes if group is None or o.law.group == group)

    @property
    def groups(self) -> list[str]:
        """In order."""
        return list(dict.fromkeys(outcome.law.group for outcome in self.outcomes))


def score(counts: Counter[str]) -> str:
    """Laws that were kept, of those that were tried."""
    tried = counts["pass"] + counts["fail"] + counts["flaky"]
    return f"{100 * counts['pass'] / tried:.1f} %" if tried else "-"


def text(report: Report, most_findings: int) -> str:
    """For people: what is broken, with a few findings of each law, then the scores."""
    lines = [f"{report.url}, model {report.model}"]
    for outcome in report.broken:
        tries = f", {outcome.failed} of {outcome.tries}" if outcome.status == "flaky" else ""
        lines += [
            "",
            f"{outcome.status.upper()} {outcome.law.id}{tries}: {outcome.law.sentence} [{outcome.law.source}]",
        ]
        for finding in outcome.findings[:most_findings]:
            lines.append(f"  - {finding.message}")
            lines += [f"    {report.curl.command(exchange.sent)}" for exchange in finding.exchanges]
        if len(outcome.findings) > most_findings:
            lines.append(f"  and {len(outcome.findings) - most_findings} more")
    skipped = Counter(outcome.reason for outcome in report.outcomes if outcome.status == "skip")
    if skipped:
        lines += ["", "Skipped:"] + [f"  {count:>4}  {reason}" for reason, count in skipped.most_common()]
    width = max(map(len, [*report.groups, "group"]))
    lines += ["", f"{'group':<{width}} {'score':>8} " + " ".join(f"{status:>5}" for status in _STATUSES)]
    for group in [*report.groups, None]:
        counts = report.counts(group)
        numbers = " ".join(f"{counts[status]:>5}" for status in _STATUSES)
        lines.append(f"{group or 'all':<{width}} {score(counts):>8} {numbers}")
    lines += ["", f"{report.requests} requests, {report.tokens} tokens, {report.seconds:.0f} s"]
    return "\n".join(lines) + "\n"


def as_json(report: Report) -> str:
    """For programs: every law with its findings; each finding with its requests as curl and the answers' beginnings."""
    totals = report.counts()
    made = {
        "url": report.url,
        "model": report.model,
        "score": score(totals),
        "counts": {status: totals[status] for status in _STATUSES},
        "groups": {
            group: {"score": score(counts), **{status: counts[status] for status in _STATUSES}}
            for group in report.groups
            for counts in [report.counts(group)]
        },
        "requests": report.requests,
        "tokens": report.tokens,
        "seconds": round(report.seconds, 1),
        "laws": [_law(report, outcome) for outcome in report.outcomes],
    }
    return json.dumps(made, ensure_ascii=True, indent=1) + "\n"


def _law(report: Report, outcome: Outcome) -> dict[str, Any]:
    law = outcome.law
    made: dict[str, Any] = {"id": law.id, "sentence": law.sentence, "source": law.source, "status": outcome.status}
    if outcome.reason:
        made["reason"] = outcome.reason
    if outcome.findings:
        made["failed"], made["tries"] = outcome.failed, outcome.tries
        made["findings"] = [_finding(report, finding) for finding in outcome.findings]
    return made


def _finding(report: Report, finding: Finding) -> dict[str, Any]:
    return {
        "message": finding.message,
        "requests": [
            {
                "curl": report.curl.command(exchange.sent),
                "status": exchange.got.status,
                "fault": exchange.got.fault,
                "answer": shown(exchange.got.body, 300),
            }
            for exchange in finding.exchanges
        ],
    }


def junit(report: Report) -> str:
    """For CI: a suite a group, a case a law; flaky laws are failures that say so."""
    return junit_xml("mindspec conform", [_case(report, outcome) for outcome in report.outcomes])


def _case(report: Report, outcome: Outcome) -> Case:
    suite, name = outcome.law.group, outcome.law.id
    if outcome.status == "skip":
        return Case(suite, name, skipped=outcome.reason)
    if outcome.status == "pass":
        return Case(suite, name)
    first = outcome.findings[0].message if outcome.findings else ""
    return Case(suite, name, kind=outcome.status, failure=first, details="\n".join(_shown(report, outcome)))


def _shown(report: Report, outcome: Outcome) -> list[str]:
    lines = [outcome.law.sentence, f"{outcome.failed} of {outcome.tries} tries failed"]
    for finding in outcome.findings:
        lines += [finding.message, *(report.curl.command(exchange.sent) for exchange in finding.exchanges)]
    return lines
