"""What differs between the rules and normalisations of two versions of a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tools.diff.change import Change
from tools.diff.shapes import line
from tools.diff.version import Version
from tools.generate.shapes import Model, Rule


def compare_rules(old: Version, new: Version, models: tuple[Model, Model]) -> Iterator[Change]:
    """Rules that came, went or changed, and normalisations."""
    before, after = ({rule.id: rule for rule in model.rules} for model in models)
    for name, rule in before.items():
        where = line(old, rule.where)
        if name not in after:
            yield Change("request", name, "rule", rule.message, None, narrows=False, widens=True, line_old=where)
            continue
        for change in _rule(rule, after[name]):
            change.line_old, change.line_new = where, line(new, after[name].where)
            yield change
    for name, rule in after.items():
        if name not in before:
            where = line(new, rule.where)
            yield Change("request", name, "rule", None, rule.message, narrows=True, widens=False, line_new=where)
    kept = [name for name in before if name in after], [name for name in after if name in before]
    if kept[0] != kept[1]:
        note = "a request that breaks several rules may be told another one first"
        mine, other = (", ".join(names) for names in kept)
        yield Change("request", models[1].name, "x-validations", mine, other, narrows=False, widens=False, note=note)
    yield from _steps(old, new, models)


def _steps(old: Version, new: Version, models: tuple[Model, Model]) -> Iterator[Change]:
    """Normalisations that came, went or moved; what they do only a request shows."""
    mine, others = ([json.dumps(step, ensure_ascii=False) for step in model.normalise] for model in models)
    if mine == others:
        return
    lines = [line(version, (*model.where, "x-normalize")) for version, model in zip((old, new), models, strict=True)]
    lost, won = [step for step in mine if step not in others], [step for step in others if step not in mine]
    fields = dict.fromkeys(str(json.loads(step).get("field")) for step in (*lost, *won))
    for field in fields or [models[1].name]:
        before, after = (_about(field, steps) for steps in ((lost, won) if fields else (mine, others)))
        yield Change(
            "request", field, "x-normalize", before, after, True, True, line_old=lines[0], line_new=lines[1]
        )  # fmt: skip


def _about(field: str, steps: list[str]) -> str | None:
    """The steps that are about a member, else all of them."""
    return ", ".join(step for step in steps if json.loads(step).get("field") == field) or ", ".join(steps) or None


def _rule(old: Rule, new: Rule) -> Iterator[Change]:
    if old.cel != new.cel:
        yield Change("request", old.id, "rule", old.cel, new.cel, narrows=True, widens=True)
    if old.relaxable != new.relaxable:
        lost = old.relaxable
        yield Change("request", old.id, "relaxable", lost, new.relaxable, narrows=lost, widens=not lost)
    if old.message != new.message:
        yield Change("request", old.id, "message", old.message, new.message, narrows=False, widens=False)
    if old.fields != new.fields:
        note = "refusals name another param" if old.fields[0] != new.fields[0] else ""
        before, after = (", ".join(fields) for fields in (old.fields, new.fields))
        yield Change("request", old.id, "fields", before, after, narrows=False, widens=False, note=note)
