"""Emits fields.py and defaults.py: what each field of a request may be, in words, and the documented defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.generate.rules import snake
from tools.generate.shapes import Branch, Contract, Shape
from tools.generate.write import render


def fields_source(contract: Contract) -> str:
    """The text of fields.py, not yet formatted: path pattern to words and JSON types, per request model."""
    tables = []
    for name in contract.requests:
        rows = [
            (repr(pattern), repr(words(shape)), repr(tuple(branch.kind for branch in shape.branches)))
            for pattern, _, shape in contract.walk(name)
        ]
        forms = [
            (repr(pattern), repr(words(openai_shape(shape))))
            for pattern, _, shape in contract.walk(name)
            if shape.openai_form
        ]
        tables.append({"name": repr(name), "rows": rows, "forms": forms})
    return render("fields.py.j2", tables=tables)


def defaults_source(contract: Contract) -> str:
    """The text of defaults.py, not yet formatted."""
    tables = []
    for name in contract.reach(contract.requests):
        model = contract.models[name]
        rows = [(m.name, repr(m.schema["default"])) for m in model.members.values() if "default" in m.schema]
        if rows:
            tables.append({"name": name, "rows": rows})
    return render("defaults.py.j2", tables=tables)


def openai_shape(shape: Shape) -> Shape:
    """The shape with the limits that hold where the deployment answers in OpenAI's form."""
    branches = tuple(
        Branch(b.kind, shape.openai_form or {}, b.model, b.items, b.free_form, b.examples) for b in shape.branches
    )
    return Shape(branches, shape.nullable, shape.where)


def words(shape: Shape) -> str:
    """What a value may be, as it stands in an error message: "an integer from 1 to 8192, or null"."""
    parts = [_branch(branch) for branch in shape.branches] + (["null"] if shape.nullable else [])
    return ", or ".join(dict.fromkeys(parts))


def _branch(branch: Branch) -> str:
    limits = branch.limits
    if branch.kind == "boolean":
        return str(limits["const"]).lower() if "const" in limits else "true or false"
    if branch.kind == "string":
        return _string(limits)
    if branch.kind in ("integer", "number"):
        return _number(branch.kind, limits)
    if branch.kind == "list":
        inner = (
            f", each {words(branch.items)}" if branch.items is not None and not branch.items.branches[0].model else ""
        )
        return f"a {_length(limits, 'minItems', 'maxItems', 'list', 'items')}{inner}"
    if branch.kind == "object":
        refused = (limits.get("propertyNames") or {}).get("not", {}).get("enum", ())
        return "an object" + (f" without the keys {', '.join(refused)}" if refused else "")
    return "any value"


def _string(limits: Mapping[str, Any]) -> str:
    if "const" in limits:
        return f'the text "{limits["const"]}"'
    if "enum" in limits:
        known = ", ".join(f'"{value}"' for value in limits["enum"] if value is not None)
        return f"one of {known}" + (" in any letter case" if limits.get("x-ignore-case") else "")
    text = f"a {_length(limits, 'minLength', 'maxLength', 'string', 'characters')}"
    return text + (f" that matches {limits['pattern']}" if "pattern" in limits else "")


def _length(limits: Mapping[str, Any], low: str, high: str, what: str, unit: str) -> str:
    least, most = limits.get(low, 0), limits.get(high)
    if most is not None:
        return f"{what} of {least} to {most} {unit}"
    return what if not least else f"non-empty {what}" if least == 1 else f"{what} of {least} or more {unit}"


def _number(kind: str, limits: Mapping[str, Any]) -> str:
    name = "an integer" if kind == "integer" else "a number"
    ends = []
    if "minimum" in limits and "maximum" in limits:
        ends.append(f"from {limits['minimum']} to {limits['maximum']}")
    else:
        phrases = {"minimum": "at least", "exclusiveMinimum": "greater than", "maximum": "at most",
                   "exclusiveMaximum": "less than"}  # fmt: skip
        ends += [f"{phrase} {limits[word]}" for word, phrase in phrases.items() if word in limits]
    banned = limits.get("not") or {}
    values = list(banned["enum"]) if "enum" in banned else [banned["const"]] if "const" in banned else []
    but = f" but not {', '.join(map(str, values))}" if values else ""
    return f"{name} {' and '.join(ends)}{but}".rstrip()


def constant(name: str) -> str:
    """ChatCompletionRequest becomes CHAT_COMPLETION_REQUEST."""
    return snake(name).upper()
