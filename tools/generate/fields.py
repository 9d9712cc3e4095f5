"""Emits fields.py and defaults.py: what each field of a request may be, in words, and the documented defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.generate.shapes import Branch, Contract, Shape, allowed_texts, openai_shape, refused_keys, refused_values
from tools.generate.write import render

_PHRASES = {"minimum": "at least", "exclusiveMinimum": "greater than", "maximum": "at most",
            "exclusiveMaximum": "less than"}  # fmt: skip


def fields_source(contract: Contract) -> str:
    """The text of fields.py, not yet formatted: path pattern to words and JSON types, per request model."""
    walks = {name: [(pattern, shape) for pattern, _, shape in contract.walk(name)] for name in contract.requests}
    forms = {name: [(key, openai_shape(s)) for key, s in rows if s.openai_form] for name, rows in walks.items()}
    return render(
        "fields.py.j2",
        fields={name: {pattern: words(shape) for pattern, shape in rows} for name, rows in walks.items()},
        forms={name: {pattern: words(shape) for pattern, shape in rows} for name, rows in forms.items()},
        kinds={name: {pattern: shape.kinds for pattern, shape in rows} for name, rows in walks.items()},
    )


def defaults_source(contract: Contract) -> str:
    """The text of defaults.py, not yet formatted."""
    models = [contract.models[name] for name in contract.reach(contract.requests)]
    tables = {model.name: {member.name: member.schema["default"] for member in model.members.values()
                           if "default" in member.schema} for model in models}  # fmt: skip
    return render("defaults.py.j2", tables={name: rows for name, rows in tables.items() if rows})


def words(shape: Shape) -> str:
    """What a value may be, as it stands in an error message: "an integer from 1 to 8192, or null"."""
    parts = [_branch(branch) for branch in shape.branches] + (["null"] if shape.nullable else [])
    return ", or ".join(dict.fromkeys(parts))


def _branch(branch: Branch) -> str:
    kind, limits = branch.kind, branch.limits
    if kind == "boolean":
        return str(limits["const"]).lower() if "const" in limits else "true or false"
    if kind == "string":
        return _string(limits)
    if kind in ("integer", "number"):
        return _number(f"a{'n' if kind == 'integer' else ''} {kind}", limits)
    if kind == "list":
        plain = branch.items is not None and not branch.items.branches[0].model
        inner = f", each {words(branch.items)}" if plain and branch.items is not None else ""
        return f"a {_length(limits, 'minItems', 'maxItems', 'list', 'items')}{inner}"
    refused = ", ".join(refused_keys(limits))
    return ("an object" + (f" without the keys {refused}" if refused else "")) if kind == "object" else "any value"


def _string(limits: Mapping[str, Any]) -> str:
    known = ", ".join(f'"{value}"' for value in allowed_texts(limits))
    if known:
        case = " in any letter case" if limits.get("x-ignore-case") else ""
        return f"{'one of' if 'enum' in limits else 'the text'} {known}{case}"
    text = f"a {_length(limits, 'minLength', 'maxLength', 'string', 'characters')}"
    return text + (f" that matches {limits['pattern']}" if "pattern" in limits else "")


def _length(limits: Mapping[str, Any], low: str, high: str, what: str, unit: str) -> str:
    least, most = limits.get(low, 0), limits.get(high)
    if most is not None:
        return f"{what} of {least} to {most} {unit}"
    return what if not least else f"non-empty {what}" if least == 1 else f"{what} of {least} or more {unit}"


def _number(name: str, limits: Mapping[str, Any]) -> str:
    ends = [f"{phrase} {limits[word]}" for word, phrase in _PHRASES.items() if word in limits]
    if {"minimum", "maximum"} <= set(limits):
        ends = [f"from {limits['minimum']} to {limits['maximum']}"]
    values = ", ".join(map(str, refused_values(limits)))
    return f"{name} {' and '.join(ends)}{f' but not {values}' if values else ''}".rstrip()
