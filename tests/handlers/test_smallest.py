"""The smallest value of a schema, which the mock answers with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from handlers.smallest import smallest


def obj(member: Any, **more: Any) -> dict[str, Any]:
    """A schema of an object that must have the member "a"."""
    return {"type": "object", "properties": {"a": member}, "required": ["a"], **more}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (obj({"const": "é"}), {"a": "é"}),
        (obj({"enum": [5, 6]}), {"a": 5}),
        (obj({"type": "string", "default": "d"}), {"a": "d"}),
        ({**obj({"type": "array"}), "required": ["a", 3]}, {"a": []}),
        ({"type": "object", "properties": {"a": {"type": ["null"]}}}, {}),
        (obj({"type": "string", "minLength": 3}), {"a": "aaa"}),
        (obj({"type": "array", "minItems": 2, "items": {"type": "integer", "minimum": 7}}), {"a": [7, 7]}),
        (obj({"type": "array", "minItems": 2, "prefixItems": [{"const": 1}, {"const": 2}]}), {"a": [1, 2]}),
        (obj({"type": "integer", "minimum": 7, "multipleOf": 5}), {"a": 10}),
        (obj({"type": "number", "minimum": -9, "maximum": -2.5}), {"a": -2.5}),
        (obj({"anyOf": [{"const": 1}, {"const": 2}]}), {"a": 1}),
        (obj({"$ref": "#/$defs/x~1y"}, **{"$defs": {"x/y": {"const": 3}}}), {"a": 3}),
    ],
)
def test_required_properties_get_their_plainest_value(schema: dict[str, Any], value: Any) -> None:
    """const, the first of enum, the default, or the least that the type's keywords ask for."""
    assert smallest(schema) == value


class CountingSchema(Mapping[str, Any]):
    """A schema of strings that counts how often it is read."""

    def __init__(self) -> None:
        self.reads = 0

    def __getitem__(self, key: str) -> Any:
        self.reads += key == "type"
        return {"type": "string"}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["type"])

    def __len__(self) -> int:
        return 1


def test_a_name_that_is_required_many_times_is_made_once() -> None:
    """Else eight levels of a thousand equal names would be made 1000 to the power of eight times."""
    inner = CountingSchema()

    made = smallest({"type": "object", "properties": {"a": inner}, "required": ["a"] * 1000})

    assert (made, inner.reads) == ({"a": ""}, 1)
