"""What of JSON Schema answers can be held to: every keyword is held, is an annotation, or is refused by name.

Runs in the process of ``schema_worker.py``. The result is a schema for the grammar library under which no more is
valid than under the given one, whether the library or this module narrows it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final
from urllib.parse import unquote

from handlers.schema_patterns import PatternRefused, rewritten

Place = tuple[str, ...]
"""Where in a schema: its keywords, names and indices from the top."""

FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}
)
"""Formats of strings that a grammar holds by their shape."""
DIALECTS: Final = frozenset(
    {
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
    }
)
LARGEST_MULTIPLE: Final = 10_000
"""Of ``multipleOf``: what is larger takes seconds to compile."""
MOST_INTEGER: Final = 9_200_000_000_000_000_000
"""Integers without a bound of the schema's own stay within plus and minus this, so that they end, and fit 64 bits."""
_EXACT: Final = 2**53
_PLAIN: Final = "with 15 digits between 1e-7 and 1e15"
_MOST_NUMBER: Final = 10**15
_STEP: Final = 1e-9
"""How far inside an exclusive bound numbers stay, as a part of the bound (of 1 for smaller ones)."""

MAPS: Final = ("properties", "patternProperties", "$defs", "definitions")
LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
ONES: Final = ("items", "additionalProperties")
"""Keywords that hold an object of schemas, a list of them, or one."""
_KEPT: Final = frozenset(
    {"type", "required", "minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength", "$ref"}
)
_BOUNDS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_ANNOTATIONS: Final = frozenset(
    {
        *("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment"),
        *("contentEncoding", "contentMediaType"),
    }
)


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """How large the schemas of one request may be together."""

    depth: int = 32
    """Schemas inside each other."""
    properties: int = 1000
    values: int = 1000
    """Of ``enum`` and ``const``."""
    schemas: int = 5000
    """Schemas, those inside others too."""
    pattern_length: int = 1000
    """Characters of one regular expression."""


class SchemaRefused(Exception):
    """A schema cannot be held."""

    def __init__(self, place: Place, reason: str) -> None:
        self.path = "".join(
            f"[{part}]" if above in LISTS else f".{part}" for above, part in zip(("", *place), place, strict=False)
        )
        """Where in the schema: such as ``.properties.city.anyOf[0].pattern``."""
        super().__init__(f"{self.path} {reason}")
        self.reason = reason
        """The end of a sentence that begins with the path."""


class SchemaCheck:
    """Checks the schemas of one request, which share its limits."""

    def __init__(self, limits: SchemaLimits) -> None:
        self._limits = limits
        self._left = {"properties": limits.properties, "values": limits.values, "schemas": limits.schemas}
        self._refs: dict[Place, Place] = {}
        self._seen: set[Place] = set()
        self._closed = False

    def held(self, schema: dict[str, Any], *, closed: bool, arguments: bool) -> dict[str, Any]:
        """The schema for the grammar library.

        Args:
            schema: the client's.
            closed: an object that says nothing of ``additionalProperties`` has none. Otherwise that holds for objects
                that list ``properties``, so that a model is not led into making up more of them.
            arguments: it describes a function's arguments, which are an object.

        Raises:
            SchemaRefused: it cannot be held, or exceeds a limit.
        """
        self._closed = closed
        self._refs, self._seen = {}, set()
        made: dict[str, Any] = self._schema(schema, (), 1, merged=False)
        if arguments:
            if "type" in schema and "object" not in _kinds(schema):
                raise SchemaRefused(("type",), "must be object: a function's arguments are one")
            made["type"] = "object"
        self._check_refs()
        return made

    def _schema(self, schema: Any, place: Place, depth: int, *, merged: bool) -> Any:
        """One schema; ``merged``: it is put together with others, so that it may not be closed by itself."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise SchemaRefused(place, "must be a schema: an object, true or false")
        if depth > self._limits.depth:
            raise SchemaRefused(place, f"lies deeper than {self._limits.depth} schemas inside each other")
        self._count("schemas", 1, place)
        self._seen.add(place)
        made: dict[str, Any] = {}
        for keyword, value in schema.items():
            self._keyword(made, schema, keyword, value, place, depth)
        made.update(_numbers(schema, place))
        if not merged and _closes(schema, self._closed):
            made["additionalProperties"] = False
        return made

    def _keyword(
        self, made: dict[str, Any], schema: dict[str, Any], keyword: str, value: Any, place: Place, depth: int
    ) -> None:
        here = (*place, keyword)
        if keyword in MAPS:
            self._map(made, keyword, value, here, depth)
        elif keyword in LISTS:
            if not isinstance(value, list) or not value:
                raise SchemaRefused(here, "must be a list of schemas, at least one")
            merged = keyword == "allOf" or (keyword != "prefixItems" and "properties" in schema)
            made[keyword] = [
                self._schema(item, (*here, str(index)), depth + 1, merged=merged) for index, item in enumerate(value)
            ]
        elif keyword in ONES:
            if isinstance(value, list):
                raise SchemaRefused(here, "must be one schema; a list of them is called prefixItems")
            made[keyword] = self._schema(value, here, depth + 1, merged=False)
        elif keyword in ("enum", "const"):
            self._values(value, here)
            made[keyword] = value
        elif keyword == "pattern":
            made[keyword] = self._pattern(value, here)
        elif keyword == "format":
            if _may_be_string(schema):
                if not isinstance(value, str) or value not in FORMATS:
                    raise SchemaRefused(here, f"is {value!r}; a grammar holds {', '.join(sorted(FORMATS))}")
                made[keyword] = value
        elif keyword == "$ref":
            self._refs[place] = _pointed(value, here)
            made[keyword] = value
        elif keyword == "$schema":
            if place or not isinstance(value, str) or value.rstrip("#") not in DIALECTS:
                raise SchemaRefused(here, "must be draft 2020-12, 2019-09 or 07, and stand at the top")
        elif keyword == "minProperties":
            # Names that are not listed may come twice in a text, and a reader of JSON counts them once.
            if isinstance(value, int) and value > 1 and _takes_unlisted(schema, self._closed):
                raise SchemaRefused(here, "can be at most 1 where members that are not listed are allowed")
            made[keyword] = value
        elif keyword in _KEPT:
            if keyword == "required" and isinstance(value, list):
                listed = schema.get("properties")
                self._count("properties", len(value) - len(listed) if isinstance(listed, dict) else len(value), here)
            made[keyword] = value
        elif not _holds_nothing(keyword, value, place) and keyword not in _BOUNDS:
            raise SchemaRefused(here, "is a keyword that no grammar here holds an answer to")

    def _map(self, made: dict[str, Any], keyword: str, value: Any, here: Place, depth: int) -> None:
        if not isinstance(value, dict):
            raise SchemaRefused(here, "must be an object of schemas")
        if keyword in ("properties", "patternProperties"):
            self._count("properties", len(value), here)
        schemas = {name: self._schema(item, (*here, name), depth + 1, merged=False) for name, item in value.items()}
        if keyword == "patternProperties":
            schemas = {self._pattern(name, (*here, name)): item for name, item in schemas.items()}
        made[keyword] = schemas

    def _pattern(self, value: Any, here: Place) -> str:
        if not isinstance(value, str):
            raise SchemaRefused(here, "must be a string")
        if len(value) > self._limits.pattern_length:
            raise SchemaRefused(here, f"has more than {self._limits.pattern_length} characters")
        try:
            return rewritten(value)
        except PatternRefused as error:
            raise SchemaRefused(here, str(error)) from None

    def _values(self, value: Any, here: Place) -> None:
        for item in _scalars(value):
            self._count("values", 1, here)
            if isinstance(item, int) and abs(item) > _EXACT:
                raise SchemaRefused(here, "has an integer beyond 2^53, which the grammar would round")
            if isinstance(item, float) and not _is_plain(item):
                raise SchemaRefused(here, f"has a number that is not exact {_PLAIN}")

    def _count(self, what: str, count: int, here: Place) -> None:
        self._left[what] -= max(count, 0)
        if self._left[what] < 0:
            raise SchemaRefused(here, f"exceeds the limit of {getattr(self._limits, what)} {what} in one request")

    def _check_refs(self) -> None:
        """Refuse references to nothing, and those that lead back to a schema that they lie in."""
        leads_to: dict[Place, list[Place]] = {place: [] for place in self._seen}
        for place in self._seen:
            above = next((place[:cut] for cut in range(len(place) - 1, -1, -1) if place[:cut] in leads_to), None)
            if above is not None:
                leads_to[above].append(place)
        for place, target in self._refs.items():
            if target not in leads_to:
                raise SchemaRefused((*place, "$ref"), "names no schema of this document")
            leads_to[place].append(target)
        try:
            tuple(TopologicalSorter(leads_to).static_order())
        except CycleError as error:
            circle: list[Place] = error.args[1]
            place = next(place for place in circle if place in self._refs)
            raise SchemaRefused((*place, "$ref"), "leads back to itself; circular references are not held") from None


def _holds_nothing(keyword: str, value: Any, place: Place) -> bool:
    """Whether a keyword says nothing of which values are valid."""
    if keyword == "uniqueItems":
        return value is False
    return keyword in _ANNOTATIONS or keyword.startswith("x-") or (keyword == "$id" and not place)


def _closes(schema: dict[str, Any], closed: bool) -> bool:
    """Whether an object's schema says nothing of members that it does not list, and shall then have none."""
    if schema.keys() & {"additionalProperties", "$ref", "allOf", "anyOf", "oneOf"}:
        return False
    return "properties" in schema or (closed and "object" in _kinds(schema) and "patternProperties" not in schema)


def _takes_unlisted(schema: dict[str, Any], closed: bool) -> bool:
    return "patternProperties" in schema or (
        schema.get("additionalProperties", True) is not False and not _closes(schema, closed)
    )


def _may_be_string(schema: dict[str, Any]) -> bool:
    return "type" not in schema or "string" in _kinds(schema)


def _kinds(schema: dict[str, Any]) -> list[Any]:
    """The types that a schema names, as far as it names them as it should."""
    kinds = schema.get("type")
    return kinds if isinstance(kinds, list) else [kinds]


def _pointed(reference: Any, here: Place) -> Place:
    """The place that a reference within the document points to."""
    if not isinstance(reference, str):
        raise SchemaRefused(here, "must be a string")
    if reference == "#":
        return ()
    if not reference.startswith("#/"):
        raise SchemaRefused(here, 'must point into this schema, as "#/$defs/..." does; nothing is fetched')
    return tuple(unquote(part).replace("~1", "/").replace("~0", "~") for part in reference[2:].split("/"))


def _scalars(value: Any) -> Iterator[Any]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += item.values()
        elif isinstance(item, list):
            stack += item
        else:
            yield item


def _numbers(schema: dict[str, Any], place: Place) -> dict[str, Any]:
    """The keywords of numbers, as inclusive bounds that the grammar library reads exactly."""
    for keyword in _BOUNDS & schema.keys():
        value = schema[keyword]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SchemaRefused((*place, keyword), "must be a number")
        if isinstance(value, float) and not _is_plain(value):
            raise SchemaRefused((*place, keyword), f"is not exact {_PLAIN}")
    kinds = _kinds(schema)
    made: dict[str, Any] = {}
    multiple = schema.get("multipleOf")
    if multiple is not None:
        if multiple != int(multiple) or not 1 <= multiple <= LARGEST_MULTIPLE:
            reason = f"is {multiple}; a grammar holds whole numbers from 1 to {LARGEST_MULTIPLE}"
            raise SchemaRefused((*place, "multipleOf"), reason)
        if "type" not in schema:
            raise SchemaRefused((*place, "multipleOf"), "needs a type beside it")
        made["multipleOf"] = int(multiple)
        kinds = ["integer" if kind == "number" else kind for kind in kinds]  # fractions round, and multiples with them
        made["type"] = kinds if isinstance(schema["type"], list) else kinds[0]
    if "integer" in kinds and "number" not in kinds:
        made.update(_integer_bounds(schema, place))
    else:
        made.update(_number_bounds(schema, place))
    return made


def _integer_bounds(schema: dict[str, Any], place: Place) -> dict[str, int]:
    lows = [-MOST_INTEGER, *(math.ceil(schema[key]) for key in ("minimum",) if key in schema)]
    highs = [MOST_INTEGER, *(math.floor(schema[key]) for key in ("maximum",) if key in schema)]
    if "exclusiveMinimum" in schema:
        lows.append(math.floor(schema["exclusiveMinimum"]) + 1)
    if "exclusiveMaximum" in schema:
        highs.append(math.ceil(schema["exclusiveMaximum"]) - 1)
    low, high = max(lows), min(highs)
    # The library reads bounds as doubles: beyond 2^53 only every 1024th integer is one.
    if abs(low) > _EXACT:
        low = -(-low // 1024) * 1024
    if abs(high) > _EXACT:
        high = high // 1024 * 1024
    if low > high:
        raise SchemaRefused(place, "leaves no integer between its bounds that fits 64 bits")
    return {"minimum": low, "maximum": high}


def _number_bounds(schema: dict[str, Any], place: Place) -> dict[str, float]:
    made: dict[str, float] = {}
    for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if keyword in schema and abs(schema[keyword]) > _MOST_NUMBER:
            raise SchemaRefused((*place, keyword), "is beyond 10^15, and the type is not integer")
    if "minimum" in schema:
        made["minimum"] = schema["minimum"]
    if "maximum" in schema:
        made["maximum"] = schema["maximum"]
    # Decimals next to a bound round to the bound itself when they are read as doubles.
    if "exclusiveMinimum" in schema:
        bound = schema["exclusiveMinimum"]
        made["minimum"] = max(made.get("minimum", -math.inf), _rounded(bound + _STEP * max(abs(bound), 1)))
    if "exclusiveMaximum" in schema:
        bound = schema["exclusiveMaximum"]
        made["maximum"] = min(made.get("maximum", math.inf), _rounded(bound - _STEP * max(abs(bound), 1)))
    if made.get("minimum", -math.inf) > made.get("maximum", math.inf):
        raise SchemaRefused(place, "leaves no number between its bounds")
    return made


def _is_plain(value: float) -> bool:
    """Whether the grammar library, which reads long numbers by their first digits, reads this one exactly."""
    return value == 0 or (1e-7 <= abs(value) <= 1e15 and float(f"{value:.15g}") == value)


def _rounded(value: float) -> float:
    return float(f"{value:.12g}")


def shortened(text: str) -> str:
    """The first line of a library's message, of at most 200 characters."""
    line = re.sub(r"\s+", " ", text.strip().split("\n")[0]) if text.strip() else "no reason given"
    return line if len(line) <= 200 else line[:200] + "..."
