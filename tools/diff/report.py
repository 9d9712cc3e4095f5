"""The report of a comparison: as text, as Markdown for a pull request, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tools.diff.change import Change, Effect, Example
from tools.diff.compare import Report

MOST_OPERATIONS: Final = 3
"""Operations that are named one by one."""
_CUT: Final = 160
_KEPT: Final = 20
"""Characters that are shown before the place where two texts differ."""
_HEADINGS: Final = {
    Effect.BREAKING: "Breaking",
    Effect.RELAXATION: "Relaxations: refused before, accepted now",
    Effect.NOTICE: "To know",
}


def render(report: Report, form: str) -> str:
    """The report as ``text``, ``markdown`` or ``json``."""
    return {"text": _text, "markdown": _markdown, "json": _json}[form](report)


def summary(report: Report) -> str:
    """One sentence: how many changes of which effect, and how many requests and answers were judged."""
    if not report.changes:
        return "no request and no answer is judged otherwise"
    counts = [len(report.of(effect)) for effect in Effect]
    names = [
        f"{counts[0]} breaking",
        f"{counts[1]} relaxation{'s' * (counts[1] != 1)}",
        f"{counts[2]} notice{'s' * (counts[2] != 1)}",
    ]
    return f"{', '.join(names)}; {report.requests:,} requests and {report.answers:,} answers judged by both"


def _text(report: Report) -> str:
    lines = [f"{report.old} -> {report.new}: {summary(report)}"]
    for effect in Effect:
        for change in report.of(effect):
            lines += ["", f"{effect.upper()}  {_title(change)}", f"  {_place(change, report)}"]
            lines += [f"  {line}" for line in _shown(change)]
    return "\n".join(lines) + "\n"


def _shown(change: Change) -> Iterator[str]:
    """The example of a change, as lines of text."""
    if change.note:
        yield change.note
    example = change.example
    if example is None:
        if not change.proven and change.side != "operation":
            yield "no request or answer was found that shows it; look at it"
        return
    what = "answer" if change.side == "answer" else "request"
    yield f"{what:8}{_body(example)}{_deployed(example)}"
    yield f"{'before':8}{example.before}"
    yield f"{'now':8}{example.after}"


def _title(change: Change) -> str:
    if change.keyword in ("member", "operation", "rule") and (change.old is None or change.new is None):
        word = "added" if change.old is None else "removed"
        return f"{change.where}: {change.keyword} {word} ({_value(change.new if change.old is None else change.old)})"
    if change.keyword == "verdict":
        return f"{change.where}: judged otherwise"
    old, new = _where_they_differ(change.old, change.new)
    return f"{change.where}: {change.keyword} {_value(old)} -> {_value(new)}"


def _where_they_differ(old: Any, new: Any) -> tuple[Any, Any]:
    """Two long texts without most of what they begin with in common."""
    if not (isinstance(old, str) and isinstance(new, str)) or max(len(old), len(new)) <= _CUT // 2:
        return old, new
    pairs = enumerate(zip(old, new, strict=False))
    common = next((index for index, (a, b) in pairs if a != b), min(len(old), len(new)))
    start = max(0, old.rfind(" ", 0, max(0, common - _KEPT)))
    return (f"...{old[start:]}", f"...{new[start:]}") if start else (old, new)


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _CUT else f"{text[: _CUT - 3]}..."


def _place(change: Change, report: Report) -> str:
    names = change.operations[:MOST_OPERATIONS]
    more = len(change.operations) - len(names)
    text = ", ".join(names) + (f" and {more} more" if more else "")
    model = f" ({change.model})" if change.model else ""
    at = (
        f"{report.new}:{change.line_new}"
        if change.line_new
        else f"{report.old}:{change.line_old}"
        if change.line_old
        else ""
    )
    side = "answers of " if change.side == "answer" else ""
    return f"{side}{text}{model}" + (f", {at}" if at else "")


def _body(example: Example) -> str:
    return json.dumps(example.body, ensure_ascii=False) if example.body is not None else "(no body)"


def _deployed(example: Example) -> str:
    words = ", ".join(f"{key} {_value(value)}" for key, value in example.deployment.items())
    return f"  under {words}" if words else ""


def _markdown(report: Report) -> str:
    lines = [f"## Contract: {summary(report)}", "", f"`{report.old}` → `{report.new}`"]
    for effect in Effect:
        changes = report.of(effect)
        if changes:
            lines += ["", f"### {_HEADINGS[effect]}"]
        for change in changes:
            title = _escaped(_title(change)).replace(" -> ", " → ")
            lines += ["", f"**{title}**  ", _escaped(_place(change, report))]
            lines += ["", _escaped(change.note)] if change.note else []
            lines += _fenced(change)
    return "\n".join(lines) + "\n"


def _fenced(change: Change) -> list[str]:
    example = change.example
    if example is None:
        known = change.proven or change.side == "operation"
        return [] if known else ["", "No request or answer was found that shows it; look at it."]
    body = _body(example)
    shown = (
        ["", "```json", body if len(body) <= 2000 else f"{body[:1997]}...", "```"] if example.body is not None else []
    )
    under = f"Under{_escaped(_deployed(example).replace('  under', ''))}. " if example.deployment else ""
    return [*shown, "", f"{under}Before: {_escaped(example.before)}  ", f"Now: {_escaped(example.after)}"]


def _escaped(text: str) -> str:
    """Text in which Markdown sees no marks."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<|" else letter for letter in text)


def _json(report: Report) -> str:
    data = {
        "old": report.old,
        "new": report.new,
        "breaking": report.breaking,
        "requests": report.requests,
        "answers": report.answers,
        "changes": [_row(change) for effect in Effect for change in report.of(effect)],
    }
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def _row(change: Change) -> dict[str, Any]:
    example = change.example
    shown = None if example is None else {
        "at": example.at, "body": example.body, "before": example.before, "now": example.after, "code": example.code,
        "deployment": dict(example.deployment),
    }  # fmt: skip
    return {
        "effect": change.effect, "side": change.side, "where": change.where, "keyword": change.keyword,
        "old": change.old, "new": change.new, "operations": change.operations, "schema": change.model,
        "line_old": change.line_old, "line_new": change.line_new, "shown": change.proven, "note": change.note,
        "example": shown,
    }  # fmt: skip
