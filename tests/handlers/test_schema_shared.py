"""Equal schemas are said once, and the same values stay valid."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_schema_laws import SCHEMAS, VALUES, grammar_of

from handlers.schema_check import SchemaCheck, SchemaLimits, SchemaRefused
from handlers.schema_shared import shared
from tests.grammar_walk import Walker

WALKER = Walker()
INTEGER: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 9}
S: dict[str, Any] = {"type": "string"}
REPEATED = st.lists(SCHEMAS, min_size=1, max_size=2).flatmap(
    lambda known: st.fixed_dictionaries(
        {
            "properties": st.dictionaries(st.sampled_from("abcd"), st.sampled_from(known), min_size=2),
            "items": st.sampled_from(known),
            "prefixItems": st.lists(st.sampled_from(known), min_size=1, max_size=2),
        }
    )
)
"""Schemas of objects and arrays in which a few others stand at several places."""


def test_equal_schemas_stand_once() -> None:
    """Wherever one may stand; what stands once stays in its place."""
    schema = {
        "properties": {
            "a": INTEGER,
            "b": {"type": "array", "items": dict(reversed(INTEGER.items()))},
            "c": {"anyOf": [INTEGER, S]},
        },
        "additionalProperties": False,
    }
    one = {"$ref": "#/$defs/shared_0"}
    assert shared(schema) == {
        "properties": {"a": one, "b": {"type": "array", "items": one}, "c": {"anyOf": [one, S]}},
        "additionalProperties": False,
        "$defs": {"shared_0": INTEGER},
    }


def test_the_clients_own_definitions_keep_their_names() -> None:
    """And are shared too."""
    schema = {
        "properties": {"a": INTEGER, "b": {"$ref": "#/$defs/shared_0"}},
        "$defs": {"shared_0": INTEGER, "shared_1": S},
    }
    found = shared(schema)
    (name,) = found["$defs"].keys() - {"shared_0", "shared_1"}
    one = {"$ref": f"#/$defs/{name}"}
    assert found["properties"] == {"a": one, "b": {"$ref": "#/$defs/shared_0"}}
    assert found["$defs"] == {"shared_0": one, "shared_1": S, name: INTEGER}


@pytest.mark.parametrize(
    "merged",
    [
        {"allOf": [{"properties": {"a": INTEGER}}, {"properties": {"a": INTEGER}}]},
        {"oneOf": [INTEGER, {"type": "null"}]},
        {"patternProperties": {"a": INTEGER}},
        {"type": "object", "anyOf": [{"required": ["a"]}]},
        {"$ref": "#/$defs/a", "minimum": 3},
    ],
)
def test_documents_with_parts_that_are_put_together_stay_as_they_are(merged: dict[str, Any]) -> None:
    """At any depth."""
    for schema in (
        {"properties": {"a": INTEGER, "b": INTEGER}, "items": {"items": merged}, "$defs": {"a": INTEGER}},
        {"properties": {"a": INTEGER, "b": INTEGER}, "$defs": {"a": INTEGER, "b": merged}},
    ):
        assert shared(schema) is schema


def test_a_schema_in_which_nothing_repeats_stays_as_it_is() -> None:
    """No definitions are added; a constant is no schema."""
    schema = {
        "properties": {
            "a": INTEGER,
            "b": S,
            "c": {"const": {"properties": {"a": INTEGER}}},
            "d": {},
            "e": {},
            "f": True,
        }
    }
    assert shared(schema) is schema


def test_a_thousand_integers_are_held() -> None:
    """Each range built for itself is more than a grammar may be."""
    made = grammar_of({"properties": {f"p{index}": {"type": "integer"} for index in range(1000)}})
    assert "grammar" in made
    assert "refused" in grammar_of(
        {"properties": {f"p{index}": {"type": "integer", "minimum": -index} for index in range(1000)}}
    )


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=REPEATED, value=st.one_of(VALUES, st.dictionaries(st.sampled_from("abcd"), VALUES), st.lists(VALUES)))
def test_the_same_values_are_valid(schema: dict[str, Any], value: Any) -> None:
    """By a validator that knows nothing of grammars, before and after."""
    try:
        held = SchemaCheck(SchemaLimits()).held(schema, closed=False, arguments=False)
    except SchemaRefused:
        return
    found = shared(held)
    assert jsonschema.Draft202012Validator(found).is_valid(value) == jsonschema.Draft202012Validator(held).is_valid(
        value
    )


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=REPEATED, seed=st.integers(0, 2**32))
def test_what_the_grammar_lets_through_validates(schema: dict[str, Any], seed: int) -> None:
    """Random answers under a grammar with shared schemas, judged by the client's."""
    made = grammar_of({**schema, "type": ["object", "array"]})
    if "refused" in made:
        return
    text = WALKER.walk(made["grammar"], seed)
    if text is not None:
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))
