# Written by `mindspec generate` from tools/contract/values.py; do not edit.
"""Boundary values: for a shape, values just inside it and just outside, each outside one with the code it must get."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .shapes import Branch, Contract, Shape, allowed_texts, refused_keys, refused_values

_SAMPLES: dict[tuple[str, ...], tuple[Any, ...]] = {
    ("string",): ("x", "1", "true"), ("integer", "number"): (5, 0, 1), ("number",): (1.5,), ("boolean",): (True,),
    ("list",): ([],), ("object",): ({},),
}  # fmt: skip
"""Values to send where none of the JSON types before them is allowed."""
_MISSES = ("a b", "a\n", "<x>", "[x]", "é", "", "!", "0", "x")
SHORT = 4096
"""Longer strings and lists are tried as boundary values, not as companions of others."""


@dataclass(frozen=True)
class Value:
    """A value to try, and the code that its refusal must have (empty: it must be accepted)."""

    value: Any
    code: str = ""
    below: tuple[str, ...] = ()
    """The way from the field to what is blamed, where that lies deeper."""


def boundary(shape: Shape, contract: Contract) -> list[Value]:
    """Values of a field at both sides of each limit, wrong types and null."""
    found = [Value(example) for example in shape.examples if example is not None]
    for branch in shape.branches:
        found += _VALUES[branch.kind](branch, contract)
    found.append(Value(None, "" if shape.nullable else "wrong_type"))
    for kinds, samples in _SAMPLES.items():
        if not {*kinds, "any"} & set(shape.kinds):
            found += [Value(sample, "wrong_type") for sample in samples]
    return list({repr(value.value): value for value in reversed(found)}.values())[::-1]


def minimal(shape: Shape, contract: Contract) -> Any:
    """A small valid value of a shape."""
    return _minimal(shape.branches[0], contract)


def _minimal(branch: Branch, contract: Contract) -> Any:
    if branch.kind == "object":
        return base(branch.model, contract) if branch.model else {}
    if branch.kind == "list":
        item = minimal(branch.items, contract) if branch.items is not None else "x"
        length = max(1, int(branch.limits.get("minItems", 1)))
        return [item] * min(length, int(branch.limits.get("maxItems", length)))
    good = [value.value for value in _VALUES[branch.kind](branch, contract) if not value.code]
    return next(iter([*branch.examples, *good]), "x")


def base(model: str, contract: Contract) -> dict[str, Any]:
    """The smallest valid instance of a model: its x-base, or its required members at their smallest."""
    known = contract.models[model]
    if "x-base" in known.schema:
        return dict(expand(known.schema["x-base"]))
    return {member.name: minimal(member.shape, contract) for member in known.members.values() if member.required}


def instance(branch: Branch, contract: Contract) -> Any:
    """A small valid value of one branch of a union."""
    return _minimal(branch, contract)


def with_text(shape: Shape, contract: Contract, text: str) -> Iterator[Any]:
    """Small values of a shape that hold a given text in one place; a long one is cut over the items of a list."""
    for branch in shape.branches:
        limits, most = branch.limits, int(branch.limits.get("maxLength", len(text)))
        if branch.kind == "string" and not {"enum", "const"} & set(limits):
            if int(limits.get("minLength", 0)) <= len(text) <= most and _fits(text, limits):
                yield text
        elif branch.kind == "list" and branch.items is not None:
            item = branch.items.of("string")
            most = int(item.limits.get("maxLength", len(text))) if item is not None else len(text)
            if len(text) > most:
                yield [text[:most], text[most:]]
            yield from ([value] for value in with_text(branch.items, contract, text))
        elif branch.model:
            start = base(branch.model, contract)
            for member in contract.models[branch.model].members.values():
                yield from ({**start, member.name: inner} for inner in with_text(member.shape, contract, text))


def _numbers(branch: Branch, contract: Contract) -> Iterator[Value]:
    limits, whole, refused = branch.limits, branch.kind == "integer", refused_values(branch.limits)
    for word in (word for word in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum") if word in limits):
        bound, outward = limits[word], 1 if "ax" in word else -1
        nearer = bound - outward if whole else math.nextafter(bound, -outward * math.inf)
        farther = bound + outward if whole else math.nextafter(bound, outward * math.inf)
        inner, outer = (nearer, bound) if "exclusive" in word else (bound, farther)
        yield Value(outer, "out_of_range")
        near = [inner, inner - outward] if whole else [inner]
        if abs(inner) < 2**53 and float(inner).is_integer():
            near += [float(inner) if whole else int(inner)]
        yield from (Value(value) for value in near if value not in refused)
    for value in refused:
        yield from (Value(value, "out_of_range"), Value(value - 1), Value(value + 1))
    if whole:
        yield Value(1.5, "wrong_type")
    if "x-unbounded" in limits:
        yield from map(Value, (1, 2.0, 0, -1, 2**31, -(2**31) - 1, 2**64))
    if limits.get("minimum", limits.get("exclusiveMinimum", 1)) < 1 < limits.get("maximum", 1):
        yield from map(Value, (1, 2) if whole and limits["maximum"] > 2 else (1,) if whole else (0.7, 1))


def _strings(branch: Branch, contract: Contract) -> Iterator[Value]:
    limits, known = branch.limits, allowed_texts(branch.limits)
    if known:
        free = "" if limits.get("x-ignore-case") else "out_of_range"
        yield from (*map(Value, known), Value(known[0].upper(), free), Value(known[-1].title(), free))
        yield from (Value(text, "out_of_range") for text in (known[0] + "x", "", known[0] + "\n"))
        return
    least, most = int(limits.get("minLength", 0)), int(limits.get("maxLength", 0))
    letters = [letter for letter in ("x", "你", "😀") if _fits(letter * max(1, least), limits)]
    for letter in letters[:1]:
        yield from (Value(letter * length) for length in (max(1, least), least))
    for letter in (letters[:1] + letters[2:]) if most else ():
        yield from (Value(letter * most), Value(letter * (most + 1), "too_long"))
    if least > 0:
        yield Value("x" * (least - 1), "out_of_range")
    misses = [text for text in _MISSES if len(text) >= least and not _fits(text, limits)]
    yield from (Value(text, "out_of_range") for text in misses[:4])


def _fits(text: str, limits: Mapping[str, Any]) -> bool:
    """Whether a text matches the pattern, with ``$`` meaning the very end as in JSON Schema."""
    return "pattern" not in limits or re.search(re.sub(r"\$$", r"\\Z", limits["pattern"]), text) is not None


def _lists(branch: Branch, contract: Contract) -> Iterator[Value]:
    least, most = int(branch.limits.get("minItems", 0)), branch.limits.get("maxItems")
    item = minimal(branch.items, contract) if branch.items is not None else "x"
    lengths = [length for length in (max(1, least), least, max(2, least)) if most is None or length <= most]
    yield from (Value([item] * length) for length in dict.fromkeys(lengths))
    if least > 0:
        yield Value([item] * (least - 1), "out_of_range")
    if most is not None:
        yield Value([item] * int(most))
        yield Value([item] * (int(most) + 1), "too_long")


def _objects(branch: Branch, contract: Contract) -> Iterator[Value]:
    yield Value(_minimal(branch, contract))
    yield from (Value({key: 1}, "out_of_range", (key,)) for key in refused_keys(branch.limits))
    if branch.free_form:
        yield from (Value({"anything": inner}) for inner in (None, [1, {"deep": None}], "x"))


_BOTH = (True, False)
_VALUES: dict[str, Any] = {
    "string": _strings, "integer": _numbers, "number": _numbers, "list": _lists, "object": _objects,
    "boolean": lambda branch, contract: map(Value, [branch.limits["const"]] if "const" in branch.limits else _BOTH),
    "any": lambda branch, contract: map(Value, ["x", 1, {}]),
}  # fmt: skip


def expand(value: Any) -> Any:
    """Plain data with every ``{"repeat": x, "times": n}`` written out: a string n times, or a list of n items."""
    if isinstance(value, Mapping):
        if set(value) == {"repeat", "times"} and isinstance(value["times"], int):
            unit = expand(value["repeat"])
            return unit * value["times"] if isinstance(unit, str) else [unit] * value["times"]
        return {key: expand(inner) for key, inner in value.items()}
    return [expand(inner) for inner in value] if isinstance(value, list) else value


def compress(value: Any) -> Any:
    """The opposite of expand: long strings and lists of one repeated unit become repeat and times."""
    if isinstance(value, dict):
        return {key: compress(inner) for key, inner in value.items()}
    if isinstance(value, str) and len(value) > 80 and value == value[0] * len(value):
        return {"repeat": value[0], "times": len(value)}
    if isinstance(value, list):
        if len(value) > 20 and all(item == value[0] for item in value):
            return {"repeat": compress(value[0]), "times": len(value)}
        return [compress(inner) for inner in value]
    return value
