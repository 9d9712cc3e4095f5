"""The OpenAPI 3.0.3 form of the published document, for tools that do not read 3.1."""

from __future__ import annotations

from typing import Any

_NOTE = """\
> **This is the 3.0 form, derived from the 3.1 document beside it.** OpenAPI 3.0 cannot express all of that: which keys
> an object may not have (`propertyNames`) is said in text alone, a member of several types is `oneOf`, only the first
> example of a member is kept, and cross-field rules are in text, as in 3.1.
"""
_DROPPED = frozenset({"propertyNames"})
_NULL = {"type": "string", "nullable": True, "enum": [None]}
"""3.0 has no type null, and ``nullable`` means nothing where there is no type beside it."""
_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


def older(document: dict[str, Any]) -> dict[str, Any]:
    """The same document in OpenAPI 3.0.3; the argument is left as it is."""
    made: dict[str, Any] = {**document, "openapi": "3.0.3"}
    info = {key: value for key, value in document["info"].items() if key != "summary"}
    made["info"] = {**info, "description": f"{_NOTE}\n{info['description']}"}
    made["paths"] = _schemas_in(document["paths"])
    components = {key: _schemas_in(value) for key, value in document["components"].items() if not key.startswith("x-")}
    components["schemas"] = {name: schema(node) for name, node in document["components"]["schemas"].items()}
    rules = {key: value for key, value in document["components"].items() if key.startswith("x-")}
    made["components"] = {**components, **rules}
    return made


def _schemas_in(node: Any) -> Any:
    """A copy of a part of the document outside ``components.schemas``, every schema in it converted."""
    if isinstance(node, list):
        return [_schemas_in(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: schema(value) if key == "schema" else value if key == "value" else _schemas_in(value)
        for key, value in node.items()
    }


def schema(node: dict[str, Any]) -> dict[str, Any]:
    """One schema in the keywords of 3.0."""
    made = {key: value for key, value in node.items() if key not in _DROPPED}
    for key in ("properties", "additionalProperties", "items", "not"):
        if isinstance(made.get(key), dict):
            inner: dict[str, Any] = made[key]
            made[key] = {k: schema(v) for k, v in inner.items()} if key == "properties" else schema(inner)
    _convert_union(made)
    _convert_type(made)
    for exclusive, plain in _BOUNDS:
        if exclusive in made:
            made[plain], made[exclusive] = made[exclusive], True
    if "const" in made:
        made["enum"] = [made.pop("const")]
    if "examples" in made:
        made["example"] = made.pop("examples")[0]
    if "$ref" in made and len(made) > 1:  # what stands beside a reference counts for nothing in 3.0
        made = {**{key: value for key, value in made.items() if key != "$ref"}, "allOf": [{"$ref": made["$ref"]}]}
    return made


def _convert_union(made: dict[str, Any]) -> None:
    """A union with null: a part that has a type takes null in, so that no two parts overlap."""
    for word in (word for word in ("oneOf", "anyOf") if word in made):
        parts = [schema(part) for part in made[word] if part != {"type": "null"}]
        typed = next((part for part in parts if "type" in part), None)
        if len(parts) < len(made[word]) and typed is not None:
            typed["nullable"] = True
        elif len(parts) < len(made[word]):
            parts.append(dict(_NULL))
        made[word] = parts


def _convert_type(made: dict[str, Any]) -> None:
    kinds = made.get("type")
    if not isinstance(kinds, list):
        return
    rest = [kind for kind in kinds if kind != "null"]
    if len(rest) < len(kinds):
        made["nullable"] = True
    made["type"] = rest[0]
