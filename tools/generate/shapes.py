"""The spec as typed data: models, members, shapes, rules and operations, which every other part reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.generate.load import Document, Where

KINDS = {"string": "string", "integer": "integer", "number": "number", "boolean": "boolean", "array": "list",
         "object": "object"}  # fmt: skip
"""JSON Schema types, and what they are called here and in messages."""

LIMITS = {
    "string": {"minLength", "maxLength", "pattern", "enum", "const", "x-ignore-case"},
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "not", "x-unbounded", "x-openai-form"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "x-unbounded"},
    "boolean": {"const"},
    "list": {"minItems", "maxItems"},
    "object": {"propertyNames", "x-free-form"},
}
"""The keywords that limit a value, by kind."""
STRUCTURE = {"type", "items", "oneOf", "anyOf", "properties", "required", "additionalProperties", "$ref"}
NOTES = {"description", "title", "default", "example", "examples", "deprecated", "format", "x-source"}
MODEL_NOTES = {"x-base", "x-validations", "x-normalize"}

_SHAPED: dict[str, Callable[[Any], bool]] = {
    "enum": lambda value: all(item is None or isinstance(item, str) for item in value),
    "const": lambda value: isinstance(value, str | bool),
    "not": lambda value: set(value) in ({"const"}, {"enum"}),
    "propertyNames": lambda value: set(value) == {"not"} and set(value["not"]) == {"enum"},
    "additionalProperties": lambda value: value is True or isinstance(value, dict),
}
"""The forms of some keywords that are acted on."""


@dataclass(frozen=True)
class Branch:
    """One JSON type that a value may have, with its limits."""

    kind: str
    limits: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    """Name of the model, for an object with members."""
    items: Shape | None = None
    """Of a list, or the values of an object without fixed members."""
    free_form: bool = False
    examples: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Shape:
    """What a value may be: one or more branches, and null or not."""

    branches: tuple[Branch, ...]
    nullable: bool
    where: Where
    openai_form: Mapping[str, Any] | None = None
    examples: tuple[Any, ...] = ()

    def branch(self, value: Any) -> Branch | None:
        """The branch that a JSON value belongs to, by its JSON type."""
        fits = [branch for branch in self.branches if branch.kind == "any" or is_kind(value, branch.kind)]
        return fits[0] if fits else None

    def of(self, kind: str) -> Branch | None:
        """The branch of a kind, if there is one."""
        return next((branch for branch in self.branches if branch.kind == kind), None)


@dataclass(frozen=True)
class Member:
    """One property of a model."""

    name: str
    shape: Shape
    required: bool
    schema: Mapping[str, Any]
    where: Where


@dataclass(frozen=True)
class Rule:
    """A cross-field rule as a schema lists it."""

    id: str
    cel: str
    message: str
    fields: tuple[str, ...]
    profile: Mapping[str, Any]
    relaxable: bool
    where: Where


@dataclass(frozen=True)
class Model:
    """An object schema with members."""

    name: str
    members: Mapping[str, Member]
    rules: tuple[Rule, ...]
    normalise: tuple[Mapping[str, Any], ...]
    base: Mapping[str, Any]
    examples: tuple[Any, ...]
    description: str
    where: Where
    free_form: bool


@dataclass(frozen=True)
class Answer:
    """What one operation may answer under one status and media type."""

    status: int
    media: str
    models: tuple[str, ...]


@dataclass(frozen=True)
class Operation:
    """One operation: its route, its request model and all that it may answer."""

    id: str
    method: str
    path: str
    request: str | None
    answers: tuple[Answer, ...]
    summary: str
    parameters: tuple[str, ...]
    """Names of the path parameters."""


@dataclass
class Contract:
    """The whole spec, read."""

    document: Document
    models: dict[str, Model]
    operations: tuple[Operation, ...]
    listed: set[Where]
    """Places of the rules that some schema lists."""

    @property
    def requests(self) -> tuple[str, ...]:
        """Names of the request models, in the order of the paths."""
        return tuple(dict.fromkeys(operation.request for operation in self.operations if operation.request))

    def reach(self, names: tuple[str, ...]) -> list[str]:
        """The named models and all below them, in the order of discovery."""
        found: list[str] = []
        todo = list(names)
        while todo:
            name = todo.pop(0)
            if name not in found:
                found.append(name)
                todo += [child for member in self.models[name].members.values() for child in inside(member.shape)]
        return found

    def walk(self, root: str, before: str = "") -> Iterator[tuple[str, Member, Shape]]:
        """Every path pattern below a model (``n``, ``messages[]``, ``messages[].role`` …): its member and shape."""
        for member in self.models[root].members.values():
            yield from self._below(before + member.name, member, member.shape)

    def _below(self, pattern: str, member: Member, shape: Shape) -> Iterator[tuple[str, Member, Shape]]:
        yield pattern, member, shape
        for branch in shape.branches:
            if branch.items is not None and branch.kind == "list":
                yield from self._below(pattern + "[]", member, branch.items)
            if branch.model:
                yield from self.walk(branch.model, pattern + ".")


def inside(shape: Shape) -> list[str]:
    """Names of the models that a shape mentions."""
    found = []
    for branch in shape.branches:
        found += [branch.model] if branch.model else []
        found += inside(branch.items) if branch.items is not None else []
    return found


def is_kind(value: Any, kind: str) -> bool:
    """Whether a JSON value has a type; an integral float is an integer too, true is no number."""
    if kind in ("integer", "number"):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and (kind == "number" or isinstance(value, int) or value.is_integer())
    types = {"string": str, "boolean": bool, "list": list, "object": dict}
    return isinstance(value, types[kind])


def read(document: Document) -> Contract:
    """Read a document into models and operations; what cannot be read becomes a finding in the document."""
    reader = _Reader(document)
    schemas = (document.data.get("components") or {}).get("schemas") or {}
    for name in schemas:
        reader.named(name)
    return Contract(document, reader.models, tuple(reader.operations()), reader.listed)


class _Reader:
    """Builds the models; anonymous objects get the name of their model and member."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.models: dict[str, Model] = {}
        self.open: set[str] = set()
        self.listed: set[Where] = set()

    def named(self, name: str) -> None:
        where: Where = ("components", "schemas", name)
        schema, where = self.document.resolve(self.document.at(where), where)
        if isinstance(schema, dict) and schema.get("properties") is not None and name not in self.models:
            self.model(name, schema, where)

    def model(self, name: str, schema: dict[str, Any], where: Where) -> None:
        if name in self.open:
            self.document.complain(where, f"schema {name} contains itself; recursive schemas are not supported")
            return
        self.open.add(name)
        required = set(schema.get("required") or [])
        properties = schema.get("properties") or {}
        for missing in sorted(required - set(properties)):
            self.document.complain((*where, "required"), f"required names {missing}, which is no property; remove it")
        members: dict[str, Member] = {}
        for key, node in properties.items():
            at = (*where, "properties", key)
            merged, _ = self.document.resolve(node, at)
            shape = self.shape(node, at, name + "".join(part.title() for part in key.split("_")))
            members[key] = Member(key, shape, key in required, merged, at)
        self.open.discard(name)
        self.models[name] = Model(
            name, members, tuple(self.rules(schema, where)), tuple(schema.get("x-normalize") or ()),
            schema.get("x-base") or {}, tuple(schema.get("examples") or ()), str(schema.get("description") or ""),
            where, bool(schema.get("x-free-form")),
        )  # fmt: skip

    def shape(self, node: Any, at: Where, name: str) -> Shape:
        """Read one schema; ``name`` is for an anonymous object in it."""
        if isinstance(node, dict) and "$ref" in node:
            target = str(node["$ref"]).rsplit("/", 1)[-1]
            name = target if self.document.follow(str(node["$ref"])) else name
        schema, where = self.document.resolve(node, at)
        if not isinstance(schema, dict):
            self.document.complain(at, "a schema must be a mapping")
            return Shape((Branch("any"),), False, at)
        types = schema.get("type", [])
        types = types if isinstance(types, list) else [types]
        self.keywords(schema, where, types)
        options = schema.get("oneOf") or schema.get("anyOf")
        if options is not None:
            word = "oneOf" if "oneOf" in schema else "anyOf"
            parts = [
                self.shape(option, (*where, word, index), f"{name}{index}")
                for index, option in enumerate(options)
                if option != {"type": "null"}
            ]
            branches = tuple(branch for part in parts for branch in part.branches)
            nullable = {"type": "null"} in options or any(part.nullable for part in parts)
            return Shape(branches, nullable, at, None, tuple(schema.get("examples") or ()))
        branches = tuple(self.branch(kind, schema, where, name) for kind in types if kind != "null")
        return Shape(branches or (Branch("any"),), not types or "null" in types, at, schema.get("x-openai-form"))

    def branch(self, kind: str, schema: dict[str, Any], where: Where, name: str) -> Branch:
        if kind not in KINDS:
            self.document.complain(where, f"type {kind} is unknown; use one of {', '.join(KINDS)}, null")
            return Branch("any")
        kind = KINDS[kind]
        limits = {key: schema[key] for key in sorted(LIMITS[kind]) if key in schema}
        free, examples = bool(schema.get("x-free-form")), tuple(schema.get("examples") or ())
        if kind == "object" and schema.get("properties") is not None:
            if name not in self.models:
                self.model(name, schema, where)
            return Branch(kind, limits, name, None, free, examples)
        inner = {"list": "items", "object": "additionalProperties"}.get(kind, "")
        items = None
        if isinstance(schema.get(inner), dict):
            items = self.shape(schema[inner], (*where, inner), name)
        return Branch(kind, limits, "", items, free or kind == "object", examples)

    def keywords(self, schema: dict[str, Any], where: Where, kinds: list[str]) -> None:
        """Find keywords that nothing here would act on."""
        limits = set().union(*LIMITS.values())
        acting = set().union(*(LIMITS[KINDS[kind]] for kind in kinds if kind in KINDS))
        for key, value in schema.items():
            what = f"{'extension' if key.startswith('x-') else 'keyword'} {key}"
            if key not in STRUCTURE | NOTES | MODEL_NOTES | limits:
                self.document.complain(
                    (*where, key), f"{what} is not supported here; say it with a supported one or a rule"
                )
            elif key in limits - acting:
                self.document.complain((*where, key), f"{what} does nothing for this type; move or remove it")
            elif not _SHAPED.get(key, lambda value: True)(value):
                self.document.complain(
                    (*where, key), f"{key} {value!r} is not supported here; see the spec's conventions"
                )

    def rules(self, schema: dict[str, Any], where: Where) -> Iterator[Rule]:
        for index, node in enumerate(schema.get("x-validations") or []):
            at: Where = (*where, "x-validations", index)
            entry, place = self.document.resolve(node, at)
            if not entry:
                continue
            self.listed.add(place)
            unknown = set(entry) - {"id", "rule", "message", "fields", "example_ok", "example_bad", "profile",
                                    "relaxable"}  # fmt: skip
            for key in sorted(unknown):
                self.document.complain((*place, key), f"{key} is no part of a rule; remove it")
            missing = {"rule", "message", "fields", "example_ok", "example_bad"} - set(entry)
            for key in sorted(missing):
                self.document.complain(place, f"the rule has no {key}; add it")
            name = str(entry.get("id") or (place[-1] if place[:2] == ("components", "x-rules") else ""))
            if not name:
                self.document.complain(place, "an inline rule has no id; add it")
            if name and not missing:
                yield Rule(
                    name, str(entry["rule"]), str(entry["message"]), tuple(entry["fields"]),
                    entry.get("profile") or {}, bool(entry.get("relaxable")), place,
                )  # fmt: skip

    def operations(self) -> Iterator[Operation]:
        for path, methods in (self.document.data.get("paths") or {}).items():
            for method, node in methods.items():
                where: Where = ("paths", path, method)
                body, at = self.document.resolve(node.get("requestBody") or {}, (*where, "requestBody"))
                media = ((body.get("content") or {}).get("application/json") or {}).get("schema")
                names = self.targets(media, (*at, "content", "application/json", "schema")) if media else ()
                answers = []
                for status, reply in (node.get("responses") or {}).items():
                    reply, at = self.document.resolve(reply, (*where, "responses", status))
                    for kind, content in (reply.get("content") or {"": {}}).items():
                        schema = content.get("schema")
                        models = self.targets(schema, (*at, "content", kind, "schema")) if schema else ()
                        answers.append(Answer(int(status), kind, models))
                known = [
                    self.document.resolve(parameter, (*where, "parameters", index))[0]
                    for index, parameter in enumerate(node.get("parameters") or [])
                ]
                places = tuple(str(item["name"]) for item in known if item.get("in") == "path")
                yield Operation(
                    str(node.get("operationId")), method, path, names[0] if names else None, tuple(answers),
                    str(node.get("summary") or ""), places,
                )  # fmt: skip

    def targets(self, node: Any, at: Where) -> tuple[str, ...]:
        """Names of the models that a body schema allows."""
        return tuple(dict.fromkeys(inside(self.shape(node, at, "Body"))))
