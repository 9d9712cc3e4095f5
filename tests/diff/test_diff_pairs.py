"""Prepared changes of a small spec: each is classed right, and each breaking one is shown by an example."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.contract.values import expand
from tools.diff.answers import accepts, fault
from tools.diff.change import Change, Effect
from tools.diff.compare import Report, compare
from tools.diff.outcome import changed, outcome
from tools.diff.version import Version, version_of
from tools.generate.load import parse

BASE = (Path(__file__).resolve().parent / "base.yaml").read_text(encoding="utf-8")
BREAKING, RELAXATION, NOTICE = Effect.BREAKING, Effect.RELAXATION, Effect.NOTICE
LOUD = """        loud:
          type: [boolean, 'null']
          description: Whether one may hear it.
          x-source: ruling
"""
RULE = """    green-excludes-frame:
      rule: '!has(self.colour) || self.colour != "green" || !has(self.frame)'
      message: green has no frame
      fields: [frame, colour]
      example_ok: {colour: green}
      example_bad: {colour: green, frame: {}}
"""
SNOW = """    snow-excludes-coats:
      rule: '!("snow" in server.features) || !has(self.coats)'
      message: one coat in the snow
      fields: [coats]
      profile: {features: [snow]}
      example_ok: {}
      example_bad: {coats: 1}
"""
LIST = "      x-validations:\n"
OF_RULES = "  x-rules:\n"
MINUTES = "        minutes: {type: integer, minimum: 0, maximum: 600, description: Time it took., x-source: ruling}\n"
SIZE = MINUTES.replace("minutes", "size")
COATS = "          minimum: 1\n          maximum: 8\n"


@dataclass(frozen=True)
class Pair:
    """What is replaced in the base, and what the diff has to say: effect, place, keyword."""

    name: str
    edits: tuple[tuple[str, str], ...]
    said: tuple[tuple[Effect, str, str], ...]
    code: str = ""
    """What the breaking example is now refused with."""


def pair(name: str, old: str, new: str, *said: tuple[Effect, str, str], code: str = "") -> Pair:
    return Pair(name, ((old, new),), said, code)


def listed(rule: str, name: str) -> tuple[tuple[str, str], ...]:
    """The edits that add a rule."""
    return (OF_RULES, OF_RULES + rule), (LIST, f"{LIST}        - {{$ref: '#/components/x-rules/{name}'}}\n")


PAIRS = [
    pair("a maximum lowered", COATS, COATS.replace("8", "7"), (BREAKING, "coats", "maximum"), code="out_of_range"),
    pair("a maximum raised", COATS, COATS.replace("8", "9"), (RELAXATION, "coats", "maximum")),
    pair("an open bound closed", "exclusiveMinimum: 0", "minimum: 0", (RELAXATION, "hours", "exclusiveMinimum"),
         (RELAXATION, "hours", "minimum")),
    pair("an enum value lost", "[red, green, gold, null]", "[red, gold, null]", (BREAKING, "colour", "enum"),
         code="out_of_range"),
    pair("an enum value won", "[red, green, gold, null]", "[red, green, gold, blue, null]",
         (RELAXATION, "colour", "enum")),
    pair("null lost", "type: [number, 'null']", "type: number", (BREAKING, "hours", "type"), code="wrong_type"),
    pair("a type widened", "          type: [integer, 'null']\n          minimum: 1",
         "          type: [number, 'null']\n          minimum: 1", (RELAXATION, "coats", "type")),
    pair("a member made required", "required: [wall]", "required: [wall, hours]", (BREAKING, "hours", "required"),
         code="missing"),
    pair("an optional member added", "        colour:\n", LOUD + "        colour:\n", (RELAXATION, "loud", "member")),
    Pair("a required member added",
         (("        colour:\n", LOUD + "        colour:\n"), ("required: [wall]", "required: [wall, loud]"),
          ("x-base: {wall: north}", "x-base: {wall: north, loud: true}")),
         ((BREAKING, "loud", "member"),), "missing"),
    pair("a nested member removed", "x-base: {width: 1}\n      properties:\n        width:",
         "x-base: {depth: 1}\n      properties:\n        depth:", (BREAKING, "frame.width", "member"),
         (RELAXATION, "frame.depth", "member")),
    Pair("a rule added", listed(RULE, "green-excludes-frame"), ((BREAKING, "green-excludes-frame", "rule"),),
         "green-excludes-frame"),
    Pair("a rule of a profile added", listed(SNOW, "snow-excludes-coats"),
         ((BREAKING, "snow-excludes-coats", "rule"),), "snow-excludes-coats"),
    pair("a rule removed", "        - {$ref: '#/components/x-rules/coats-need-time'}\n", "",
         (RELAXATION, "coats-need-time", "rule")),
    pair("a rule tightened", "self.hours >= 1.0", "self.hours >= 2.0", (BREAKING, "coats-need-time", "rule"),
         code="coats-need-time"),
    pair("a rule loosened", "self.coats <= 2", "self.coats <= 3", (RELAXATION, "coats-need-time", "rule")),
    pair("a rule no longer relaxable", "      relaxable: true\n", "", (BREAKING, "gold-excludes-coats", "relaxable"),
         code="gold-excludes-coats"),
    pair("a default changed", "default: 1", "default: 2", (BREAKING, "coats", "default")),
    pair("a normalisation removed", "      x-normalize:\n        - {kind: empty-is-null, field: notes}\n", "",
         (BREAKING, "notes", "x-normalize"), code="rain-excludes-notes"),
    pair("a message changed", "message: gold has one coat", "message: gold has a single coat",
         (NOTICE, "gold-excludes-coats", "message")),
    pair("a query parameter removed", "      parameters:\n        - {name: hurry, in: query, required: false, schema: "
         "{type: string}}\n", "", (BREAKING, "POST /v1/paint", "query parameter hurry")),
    pair("an operation moved", "  /v1/paints:\n", "  /v2/paints:\n", (BREAKING, "GET /v1/paints", "operation"),
         (RELAXATION, "GET /v2/paints", "operation")),
    pair("an answer's enum won a value", "enum: [wet, dry]", "enum: [wet, dry, lost]", (BREAKING, "state", "enum")),
    pair("an answer's enum lost a value", "enum: [wet, dry]", "enum: [dry]", (NOTICE, "state", "enum")),
    pair("an answer's range widened", "maximum: 600", "maximum: 900", (BREAKING, "minutes", "maximum")),
    pair("an answer's range narrowed", "maximum: 600", "maximum: 60", (NOTICE, "minutes", "maximum")),
    pair("an answer's key optional", "required: [id, state]", "required: [id]", (BREAKING, "state", "required")),
    pair("an answer's key nullable", "id: {type: string,", "id: {type: [string, 'null'],", (BREAKING, "id", "type")),
    pair("an answer's key removed", MINUTES, "", (BREAKING, "minutes", "member")),
    pair("an answer's key added", MINUTES, MINUTES + SIZE, (NOTICE, "size", "member")),
    pair("the values of an answer's map widened", "maximum: 99", "maximum: 100", (BREAKING, "parts.*", "maximum")),
    pair("an answer's header removed", "            X-Smell:\n", "            X-Scent:\n",
         (BREAKING, "answers 200", "header"), (NOTICE, "answers 200", "header")),
    pair("a key asked for", "paths:\n", "security: [{Key: []}]\npaths:\n", (BREAKING, "authentication", "security")),
    pair("only a description", "How many layers.", "How many layers of paint."),
    Pair("only a schema's name", (("schemas/Frame", "schemas/Border"), ("    Frame:\n", "    Border:\n")), ()),
]  # fmt: skip


@pytest.fixture(scope="module")
def base() -> Version:
    """The version that every pair starts from."""
    return version_of(parse(BASE, "base.yaml"))


def edited(edits: tuple[tuple[str, str], ...]) -> Version:
    """The base with texts replaced; each must be there once."""
    text = BASE
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return version_of(parse(text, "new.yaml"))


@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case.name)
def test_a_change_is_classed_right_and_its_break_is_shown(case: Pair, base: Version) -> None:
    """The effects, no more and no fewer; what breaks worked before, and no longer does."""
    new = edited(case.edits)
    report = compare(base, new, 40)
    assert [(change.effect, change.where, change.keyword) for change in _sorted(report)] == sorted(case.said)
    for change in report.of(BREAKING):
        if change.side == "operation":
            assert change.keyword != "operation" or change.breaks is not None
        else:
            shows(change, base, new, case.code)
    assert report.breaking == any(effect is BREAKING for effect, _, _ in case.said)


def _sorted(report: Report) -> list[Change]:
    return sorted(report.changes, key=lambda change: (change.effect, change.where, change.keyword))


def shows(change: Change, old: Version, new: Version, code: str) -> None:
    """The example does what it is said to do, asked here once more."""
    example = change.breaks
    assert example is not None
    body = expand(example.body)
    if change.side == "answer":
        taken = change.keyword == "member"
        assert taken or (accepts(new, "Painting", body) and fault(old, "Painting", body) is not None)
        return
    before, after = (asked(version, body, dict(example.deployment)) for version in (old, new))
    assert before.code == ""
    if code:
        assert after.code == code
    else:
        assert after.code == "unknown_field" or list(changed(before.meaning, after.meaning))


def asked(version: Version, body: Any, words: dict[str, Any]) -> Any:
    return outcome(version, "PaintRequest", body, version.deployment(words))
