"""A small value for a JSON schema, for engines that are told what to answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_MAX_DEPTH: Final = 40
_EMPTY: Final[Mapping[str, Any]] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "array": [],
    "object": {},
    "null": None,
}


def smallest(schema: Any) -> Any:
    """A small value: the const, the default, the first of an enum, else an empty one with what is required of it.

    It is no schema solver: whether the value is valid has to be checked.
    """
    return _smallest(schema, schema, 0)


def _smallest(schema: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return {}
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key] and "properties" not in schema:
            return _smallest(schema[key][0], root, depth + 1)
    if isinstance(schema.get("$ref"), str):
        return _smallest(_pointed(root, schema["$ref"]), root, depth + 1)
    kind = schema.get("type", "object")
    if isinstance(kind, list):
        kind = kind[0] if kind else "object"
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "string":
        length = schema.get("minLength")
        return "a" * length if isinstance(length, int) and length <= 1000 else ""
    if kind == "array":
        return _array(schema, root, depth)
    if kind == "object":
        return _object(schema, root, depth)
    return _EMPTY.get(kind, {}) if isinstance(kind, str) else {}


def _number(schema: Mapping[str, Any]) -> int | float:
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(low, int | float) and low > 0:
        multiple = schema.get("multipleOf")
        return -(-low // multiple) * multiple if isinstance(multiple, int) and multiple > 0 else low
    return high if isinstance(high, int | float) and high < 0 else 0


def _array(schema: Mapping[str, Any], root: Any, depth: int) -> list[Any]:
    least = schema.get("minItems")
    prefix = schema.get("prefixItems")
    listed: list[Any] = prefix if isinstance(prefix, list) else []
    count = least if isinstance(least, int) and least <= 1000 else 0
    return [
        _smallest(listed[index] if index < len(listed) else schema.get("items", {}), root, depth + 1)
        for index in range(count)
    ]


def _object(schema: Mapping[str, Any], root: Any, depth: int) -> dict[str, Any]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return {}
    names = [name for name in dict.fromkeys(required) if isinstance(name, str)]
    return {name: _smallest(properties.get(name, {}), root, depth + 1) for name in names}


def _pointed(root: Any, reference: str) -> Any:
    """What a local reference points to; None for nothing."""
    found = root
    for part in reference.removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(key)
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found
