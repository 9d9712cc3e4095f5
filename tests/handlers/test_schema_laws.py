"""Whatever a grammar lets through validates under the client's schema, over random schemas and random answers."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import jsonschema
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from handlers.schema_check import FORMATS, SchemaLimits
from handlers.schema_worker import answer
from tests.grammar_walk import Walker

WALKER = Walker()
KEYS = st.sampled_from(["a", "b", "c d", "é", 'q"', "a.b", "$ref", "天"])
INTS = st.one_of(st.integers(-12, 12), st.integers(-(2**63), 2**63 - 1))
NUMBERS = st.one_of(
    INTS.filter(lambda n: abs(n) < 10**15), st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 3))
)
VALUES = st.one_of(
    st.none(), st.booleans(), INTS, st.floats(-1e3, 1e3), st.text(max_size=4), st.lists(st.integers(0, 3), max_size=2)
)
PATTERNS = st.sampled_from(
    [r"^[a-z]{2,5}$", r"^\d{3}-\d{2}$", r"\d", r"^\w+$", r"^[^\w]{1,3}$", r"^(?:ab|c)+$", r"x$", r"^\S{1,4}$", "^.{2}$"]
)


@st.composite
def bounds(draw: st.DrawFn, names: tuple[str, str], values: st.SearchStrategy[Any]) -> dict[str, Any]:
    """None, one or both of two bounds, the lower one not above the other."""
    low, high = sorted([draw(values), draw(values)])
    return {name: value for name, value in zip(names, (low, high), strict=True) if draw(st.booleans())}


@st.composite
def strings(draw: st.DrawFn) -> dict[str, Any]:
    """Schemas of strings."""
    made: dict[str, Any] = {"type": "string"}
    kind = draw(st.sampled_from(["plain", "length", "pattern", "format"]))
    if kind == "length":
        made |= draw(bounds(("minLength", "maxLength"), st.integers(0, 6)))
    elif kind == "pattern":
        made["pattern"] = draw(PATTERNS)
    elif kind == "format":
        made["format"] = draw(st.sampled_from(sorted(FORMATS)))
    return made


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    """Schemas of integers and numbers, bounds inclusive or not."""
    kind = draw(st.sampled_from(["integer", "number"]))
    values = INTS if kind == "integer" else NUMBERS
    names = (
        draw(st.sampled_from(["minimum", "exclusiveMinimum"])),
        draw(st.sampled_from(["maximum", "exclusiveMaximum"])),
    )
    made: dict[str, Any] = {"type": kind, **draw(bounds(names, values))}
    if draw(st.integers(0, 3)) == 0:
        made["multipleOf"] = draw(st.integers(1, 7))
    return made


def compounds(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas made of others."""

    @st.composite
    def objects(draw: st.DrawFn) -> dict[str, Any]:
        properties = draw(st.dictionaries(KEYS, inner, max_size=3))
        made: dict[str, Any] = {"type": "object", "properties": properties}
        if properties:
            made["required"] = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
        if draw(st.integers(0, 2)) == 0:
            made["additionalProperties"] = draw(st.one_of(st.booleans(), inner))
        return made

    @st.composite
    def arrays(draw: st.DrawFn) -> dict[str, Any]:
        made: dict[str, Any] = {
            "type": "array",
            "items": draw(inner),
            **draw(bounds(("minItems", "maxItems"), st.integers(0, 3))),
        }
        if draw(st.integers(0, 3)) == 0:
            made["prefixItems"] = draw(st.lists(inner, min_size=1, max_size=2))
        return made

    either = st.lists(inner, min_size=1, max_size=3).map(lambda schemas: {"anyOf": schemas})
    both = st.lists(inner, min_size=1, max_size=2).map(lambda schemas: {"allOf": schemas})
    return st.one_of(objects(), arrays(), either, both)


LEAVES = st.one_of(
    strings(),
    numbers(),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["integer", "null"]}, {}, True]),
    st.lists(VALUES, min_size=1, max_size=3).map(lambda values: {"enum": values}),
    VALUES.map(lambda value: {"const": value}),
)
SCHEMAS = st.recursive(LEAVES, compounds, max_leaves=6).map(lambda schema: schema if isinstance(schema, dict) else {})


def grammar_of(schema: dict[str, Any], *, closed: bool = False, arguments: bool = False) -> dict[str, Any]:
    """The worker's answer for one schema."""
    asked = {"schema": schema, "param": "p", "closed": closed, "arguments": arguments}
    sent = {"limits": asdict(SchemaLimits()), "rules": "start: schema_0", "schemas": [asked], "examples": False}
    return answer(json.loads(json.dumps(sent)))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=SCHEMAS, closed=st.booleans(), seed=st.integers(0, 2**32))
def test_whatever_a_grammar_lets_through_validates(schema: dict[str, Any], closed: bool, seed: int) -> None:
    """An accepted schema's random answer is JSON that validates; its first lines of white space are bounded."""
    made = grammar_of(schema, closed=closed)
    if "refused" in made:
        event("refused")
        assert made["refused"].startswith("p")
        return
    text = WALKER.walk(made["grammar"], seed)
    event("unfinished" if text is None else "finished")
    if text is not None:
        jsonschema.validate(json.loads(text), schema)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_object_is_an_object(seed: int) -> None:
    """A schema that says "an object" lets through JSON objects and nothing else."""
    text = WALKER.walk(grammar_of({"type": "object"})["grammar"], seed)
    assert text is None or isinstance(json.loads(text), dict)
