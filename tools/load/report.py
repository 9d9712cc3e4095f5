"""What a comparison found: a small table, the doubts about it, and everything as JSON."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tools.load.cases import Case
from tools.load.figures import FIGURES, Figures, Ratio, medians, ratio
from tools.load.host import changed_speed
from tools.load.limits import PEAK_BY, Limits, limit_line
from tools.load.rounds import Patience, Turn

_MISSING = "–"
START = "start"
"""The name under which start-up times are listed beside the cases."""


@dataclass(slots=True)
class Comparison:
    """Everything that was measured."""

    servers: list[str]
    """The first is compared with each of the others."""
    cases: list[Case]
    rounds: int
    patience: Patience
    turns: list[Turn] = field(default_factory=list)
    starts: dict[str, list[Figures]] = field(default_factory=dict)
    """Per server: the cold start and the warm ones."""
    memory_mb: dict[str, float] = field(default_factory=dict)
    """Per server, at the end."""
    limits: Limits | None = None
    """Of the first server, where its model's weights are at hand."""

    def of(self, server: str, case: str) -> list[Figures]:
        """The figures of each round, in order; empty for a round without a result."""
        found = {turn.round: turn.figures for turn in self.turns if (turn.server, turn.case) == (server, case)}
        return [found.get(number, {}) for number in range(self.rounds)]

    def ratios(self, case: str, figure: str) -> list[Ratio | None]:
        """The first server against each of the others, in order."""
        first, *others = self.servers
        return [ratio(figure, self.of(first, case), self.of(other, case)) for other in others]

    def kept(self, server: str, case: Case) -> float | None:
        """The share of its tokens per second that a server keeps beside the case's neighbour, round by round.

        None where the same case without the neighbour was not measured.
        """
        found = ratio("output_tok_s", self.of(server, case.name), self.of(server, case.name.partition("+")[0]))
        return found.median if found else None


def table(found: Comparison) -> str:
    """Medians per server, and how many times better the first one is."""
    first, *others = found.servers
    rows = [["", "", *found.servers, *(f"{first} : {other}" for other in others)]]
    for case in found.cases:
        middle = {server: medians(found.of(server, case.name)) for server in found.servers}
        for index, figure in enumerate(case.figures):
            row = [case.name if index == 0 else "", FIGURES[figure].title]
            row += [_number(middle[server].get(figure)) for server in found.servers]
            rows.append(row + [_ratio(value) for value in found.ratios(case.name, figure)])
        if case.neighbour_cores:
            kept = [found.kept(server, case) for server in found.servers]
            row = ["", "of undisturbed tok/s", *(f"{share:.0%}" if share else _MISSING for share in kept)]
            rows.append(row + [""] * len(others))
    starts = {server: medians(found.starts.get(server, [])) for server in found.servers}
    ends = {server: {"memory_mb": mb} for server, mb in found.memory_mb.items() if mb}
    for name, values in (("cold_s", starts), ("warm_s", starts), ("memory_mb", ends)):
        if any(name in figures for figures in values.values()):
            single = [ratio(name, [values.get(first, {})], [values.get(other, {})]) for other in others]
            row = [START if name == "cold_s" else "", FIGURES[name].title]
            row += [_number(values.get(server, {}).get(name)) for server in found.servers]
            rows.append(row + [f"{value.median:.2f}x" if value else _MISSING for value in single])
    return _aligned(rows)


def doubts(found: Comparison) -> list[str]:
    """One sentence for each thing that makes a figure worth less."""
    said = []
    limit = found.patience.below_cores
    for case in found.cases:
        for server in found.servers:
            turns = [turn for turn in found.turns if (turn.server, turn.case) == (server, case.name)]
            where = f"{server}, {case.name}"
            noisy = [turn for turn in turns if turn.noisy]
            if noisy:
                worst = max(turn.usage.disturbance for turn in noisy)
                said.append(
                    f"{where}: noisy in {len(noisy)} of {len(turns)} rounds "
                    f"(others used up to {worst:.2f} cores, {limit:g} are allowed)."
                )
            failures = [failure for turn in turns for failure in turn.failures]
            if failures:
                said.append(f"{where}: {len(failures)} requests failed, the first with: {failures[0]}")
            if short := sum(turn.short for turn in turns):
                said.append(f"{where}: {short} answers were shorter than asked for.")
            if uncounted := sum(turn.uncounted for turn in turns):
                said.append(f"{where}: the server did not count tokens; events were counted in {uncounted} answers.")
        flips = [number for number in range(found.rounds) if changed_speed(_speeds(found, case.name, number))]
        if flips:
            numbers = ", ".join(str(number + 1) for number in flips)
            said.append(f"{case.name}: the host read memory at different speeds within round {numbers}.")
    return said


def speed_line(found: Comparison) -> str:
    """The host's memory speed over the whole run."""
    speeds = [speed for turn in found.turns for speed in turn.memory_gb_s]
    if not speeds:
        return ""
    return (
        f"Memory read by all cores beside the turns: median {statistics.median(speeds):.1f} GB/s, "
        f"{min(speeds):.1f} to {max(speeds):.1f}."
    )


def distance(found: Comparison) -> list[str]:
    """How far the first server is from the limits of the machine, one line a case that says it."""
    if found.limits is None:
        return []
    first = found.servers[0]
    lines = [
        limit_line(found.limits, case, [turn for turn in found.turns if (turn.server, turn.case) == (first, case.name)])
        for case in found.cases
    ]
    said = [f"  {line}" for line in lines if line]
    if not said:
        return []
    peak = f"{found.limits.peak_gflop_s:.0f} GFLOP/s ({PEAK_BY})"
    weights = f"{found.limits.weight_bytes / 1e6:.0f} MB of weights at the memory speed beside each turn"
    return [f"{first} and the limits, the longer of {weights} and of products at {peak}:", *said]


def text(found: Comparison) -> str:
    """The whole report."""
    lines = [table(found), ""]
    if len(found.servers) > 1:
        lines.append(
            f"Medians of {found.rounds} alternating rounds. Ratios: above 1 {found.servers[0]} is better; "
            "the median of the rounds' own ratios, and their range."
        )
    lines += [line for line in (speed_line(found), *distance(found)) if line]
    doubted = doubts(found)
    lines += [f"! {doubt}" for doubt in doubted] or [
        f"Others used less than {found.patience.below_cores:g} cores in every turn."
    ]
    return "\n".join(lines)


def as_json(found: Comparison, settings: dict[str, Any]) -> dict[str, Any]:
    """Everything, each turn included."""
    first, *others = found.servers
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"system": platform.platform(), "processor": _processor(), "python": platform.python_version()},
        "settings": settings,
        "servers": found.servers,
        "cases": [asdict(case) for case in found.cases],
        "medians": {
            case.name: {server: medians(found.of(server, case.name)) for server in found.servers}
            for case in found.cases
        },
        "ratios": {
            case.name: {
                f"{first} : {other}": {
                    figure: asdict(value)
                    for figure in FIGURES
                    if (value := ratio(figure, found.of(first, case.name), found.of(other, case.name)))
                }
                for other in others
            }
            for case in found.cases
        },
        "starts": found.starts,
        "memory_mb": found.memory_mb,
        "limits": asdict(found.limits) if found.limits else None,
        "distance": distance(found),
        "doubts": doubts(found),
        "turns": [asdict(turn) for turn in found.turns],
    }


def _speeds(found: Comparison, case: str, number: int) -> list[float]:
    return [speed for turn in found.turns if (turn.case, turn.round) == (case, number) for speed in turn.memory_gb_s]


def _number(value: float | None) -> str:
    if value is None:
        return _MISSING
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: Ratio | None) -> str:
    return f"{value.median:.2f}x ({value.least:.2f}-{value.most:.2f})" if value else _MISSING


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()
