"""Which schemas answers can be held to: the rest is refused by its path, at once, and without a crash."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.schema_check import SchemaCheck, SchemaLimits, SchemaRefused
from handlers.schema_worker import answer
from tests.cpu_cost import least_cpu_s

S = {"type": "string"}


def held(schema: Any, *, closed: bool = False, arguments: bool = False) -> Any:
    """The schema for the grammar library."""
    return SchemaCheck(SchemaLimits()).held(schema, closed=closed, arguments=arguments)


def made(schema: Any, *, examples: bool = False, **asked: bool) -> dict[str, Any]:
    """The worker's answer."""
    sent = {"schema": schema, "param": "p", "closed": False, "arguments": False, **asked}
    return answer(
        {"limits": asdict(SchemaLimits()), "rules": "start: schema_0", "schemas": [sent], "examples": examples}
    )


REFUSED: list[tuple[Any, str]] = [
    ({"type": "array", "uniqueItems": True}, ".uniqueItems"),
    ({"not": S}, ".not"),
    ({"if": S, "then": S}, ".if"),
    ({"type": "array", "contains": S}, ".contains"),
    ({"type": "object", "dependentRequired": {"a": ["b"]}}, ".dependentRequired"),
    ({"type": "object", "dependentSchemas": {"a": S}}, ".dependentSchemas"),
    ({"type": "object", "dependencies": {"a": ["b"]}}, ".dependencies"),
    ({"type": "object", "propertyNames": S}, ".propertyNames"),
    ({"type": "object", "unevaluatedProperties": False}, ".unevaluatedProperties"),
    ({"type": "object", "properties": {"a": {"type": "string", "nullable": True}}}, ".properties.a.nullable"),
    ({"type": "string", "maxlength": 3}, ".maxlength"),
    ({"$ref": "#"}, ".$ref"),
    ({"$ref": "https://example.com/s.json"}, ".$ref"),
    ({"$ref": "other.json#/a"}, ".$ref"),
    ({"$ref": "#/$defs/missing"}, ".$ref"),
    ({"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}, ".$defs.a.items.$ref"),
    ({"$defs": {"a": {"anyOf": [S, {"$ref": "#/properties/x"}]}}, "properties": {"x": {"$ref": "#/$defs/a"}}}, None),
    ({"$dynamicRef": "#a"}, ".$dynamicRef"),
    ({"type": "object", "properties": {"a": {"$id": "http://x/y"}}}, ".properties.a.$id"),
    ({"$schema": "http://json-schema.org/draft-04/schema#"}, ".$schema"),
    ({"type": "array", "items": [S]}, ".items"),
    ({"type": "string", "pattern": "(?<=x)*"}, ".pattern"),
    ({"type": "string", "pattern": "(?=x)y"}, ".pattern"),
    ({"type": "string", "pattern": "(a)\\1"}, ".pattern"),
    ({"type": "string", "pattern": "^+a"}, ".pattern"),
    ({"type": "string", "pattern": "(((("}, ".pattern"),
    ({"type": "string", "pattern": "a" * 1001}, ".pattern"),
    ({"type": "string", "format": "idn-email"}, ".format"),
    ({"type": "number", "multipleOf": 0.01}, ".multipleOf"),
    ({"type": "integer", "multipleOf": 1000003}, ".multipleOf"),
    ({"type": "integer", "minimum": 5, "maximum": 4}, ""),
    ({"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 6}, ""),
    ({"type": "number", "minimum": "1"}, ".minimum"),
    ({"const": 2**53 + 1}, ".const"),
    ({"const": float("inf")}, ".const"),
    ({"enum": ["x"] * 1001}, ".enum"),
    ({"type": "object", "minProperties": 2, "additionalProperties": True}, ".minProperties"),
    ({"properties": {"a": 5}}, ".properties.a"),
    ({"anyOf": []}, ".anyOf"),
    ({"type": "object", "properties": {f"p{index}": S for index in range(1001)}}, ".properties"),
    ({"type": "object", "required": [f"p{index}" for index in range(1001)]}, ".required"),
]


@pytest.mark.parametrize(("schema", "path"), REFUSED)
def test_what_no_grammar_holds_is_refused_by_its_path(schema: Any, path: str | None) -> None:
    """Nothing is dropped in silence, and nothing is fetched; None: the path is one of a circle's."""
    with pytest.raises(SchemaRefused) as caught:
        held(schema)
    assert caught.value.path == path if path is not None else caught.value.path.endswith(".$ref")


def test_schemas_inside_each_other_have_a_limit() -> None:
    """The 33rd level is refused."""
    schema: dict[str, Any] = S
    for _ in range(32):
        schema = {"type": "array", "items": schema}
    with pytest.raises(SchemaRefused, match="deeper than 32"):
        held(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"type": 5},
        {"type": "object", "required": "a"},
        {"type": "string", "minLength": -1},
        {"type": "object", "required": ["b"], "properties": {"a": S}, "additionalProperties": False},
        {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        {"allOf": [{"type": "integer"}, {"type": "string"}]},
    ],
)
def test_what_is_no_schema_or_has_no_answer_is_refused(schema: Any) -> None:
    """By the metaschema, or by the grammar library."""
    assert made(schema)["refused"].startswith("p")


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": S}, "$ref": "#/definitions/a"},
        {"title": "t", "description": "d", "examples": [1], "x-order": 3, "$comment": "c", "default": 1, **S},
        {"type": "array", "uniqueItems": False, "items": {"$ref": "#/$defs/a~1b"}, "$defs": {"a/b": S}},
        {"type": "integer", "format": "int64", "minimum": -(2**63), "maximum": 2**63 - 1},
        {"type": ["string", "null"], "format": "date"},
        {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        {"type": "string", "maxLength": 10**9},
        {"type": "array", "minItems": 1, "maxItems": 10**6},
        {"$defs": {**{f"d{i}": {"properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}}} for i in range(20)}, "d20": S}},
    ],
)
def test_usual_schemas_are_held(schema: Any) -> None:
    """Annotations, drafts that differ in nothing used, sizes that cost a grammar nothing."""
    assert "grammar" in made(schema)


def test_a_strict_object_has_no_other_members() -> None:
    """One that says nothing of them; one that says something keeps its own, and parts of allOf are left open."""
    inside = {"type": "object", "properties": {"a": {"type": "object"}, "b": {"additionalProperties": True}}}
    closed = held({**inside, "allOf": [{"properties": {}}]}, closed=True)
    assert "additionalProperties" not in closed
    assert "additionalProperties" not in closed["allOf"][0]
    closed = held(inside, closed=True)
    assert closed["additionalProperties"] is closed["properties"]["a"]["additionalProperties"] is False
    assert closed["properties"]["b"]["additionalProperties"] is True
    assert "additionalProperties" not in held({"type": "object"})


def test_arguments_are_an_object() -> None:
    """A function's schema that forgets to say so means it; one that says otherwise is refused."""
    assert held({"properties": {}}, arguments=True)["type"] == "object"
    with pytest.raises(SchemaRefused, match=r"\.type must be object"):
        held({"type": "array"}, arguments=True)


@pytest.mark.parametrize(
    ("schema", "low", "high"),
    [
        ({"minimum": 0.5, "maximum": 9.5}, 1, 9),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 10}, 1, 9),
        ({"minimum": 2**60 + 1, "maximum": 2**62 + 1}, 2**60 + 1024, 2**62),
        ({}, -9_200_000_000_000_000_000, 9_200_000_000_000_000_000),
    ],
)
def test_integers_get_bounds_that_a_double_holds(schema: Any, low: int, high: int) -> None:
    """Inclusive ones, rounded inwards; without an own one, 64 bits."""
    found = held({"type": "integer", **schema})
    assert (found["minimum"], found["maximum"]) == (low, high)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^((a{0,100}){0,100}){0,100}$"},
        {"type": "string", "pattern": "(.*a.{30})|(.*b.{31})|(.*c.{32})"},
        {"type": "array", "items": {"type": "array", "minItems": 10**6, "items": S}, "minItems": 10**6},
        {"allOf": [{"anyOf": [{"properties": {f"p{i}{j}": S}} for j in range(3)]} for i in range(10)]},
        {"enum": [f"value{index}" for index in range(1000)]},
        {"type": "object", "properties": {f"p{index}": {"type": "integer"} for index in range(1000)}},
        {"type": "object", "properties": {f"p{index}": {"type": "integer", "minimum": index} for index in range(300)}},
    ],
)
def test_what_is_made_to_explode_is_answered_soon(schema: Any) -> None:
    """Held or refused; the time is the worker's limit with room for a busy machine."""
    assert made(schema).keys() & {"grammar", "refused"}
    assert least_cpu_s(lambda: made(schema)) < 1.0


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(allow_nan=False), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "anyOf",
                    "required",
                    "enum",
                    "minimum",
                    "multipleOf",
                    "$ref",
                    "format",
                    "pattern",
                    "minItems",
                    "allOf",
                    "const",
                    "$defs",
                    "additionalProperties",
                    "prefixItems",
                    "minLength",
                ]
            ),
            st.one_of(inner, st.sampled_from(["object", "array", "string", "integer", "#/$defs/a", "date"])),
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(schema=JSON.filter(lambda value: isinstance(value, dict)), examples=st.booleans(), closed=st.booleans())
def test_no_schema_crashes_the_worker(schema: Any, examples: bool, closed: bool) -> None:
    """Whatever a client sends: a grammar, or a sentence that names the member."""
    found = made(schema, examples=examples, closed=closed)
    assert json.dumps(found)
    assert "grammar" in found or found["refused"].startswith(found["param"])


def test_examples_are_valid_or_refused() -> None:
    """For engines that are told their words."""
    assert made({"properties": {"a": S}, "required": ["a"]}, examples=True)["examples"] == [{"a": ""}]
    refused = made({"type": "string", "pattern": "^[a-z]{9}$"}, examples=True)
    assert (refused["param"], refused["refused"]) == ("p", "p asks for more than this mock can make up")
