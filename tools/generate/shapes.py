"""The spec as typed data: models, members, shapes, rules and operations, which every other part reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tools.generate.document import Document, Where

_PLACES = ("path", "query")
PLANES = ("business", "management", "metrics", "all")
"""What ``x-plane`` may say."""
KINDS = {kind: kind for kind in ("string", "integer", "number", "boolean")} | {"array": "list", "object": "object"}
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
NOTES = {"description", "title", "default", "example", "examples", "deprecated", "format",
         "x-source", "x-base", "x-validations", "x-normalize",
         "x-meaning", "x-effect", "x-default", "x-environment", "x-reload", "x-words"}  # fmt: skip
RULE_NEEDS, RULE_MAY_HAVE = {"rule", "message", "fields", "example_ok", "example_bad"}, {"id", "profile", "relaxable"}
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

    @property
    def kinds(self) -> tuple[str, ...]:
        """The JSON types that are allowed, null aside."""
        return tuple(branch.kind for branch in self.branches)

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
    schema: Mapping[str, Any]
    where: Where

    @property
    def normalise(self) -> list[dict[str, Any]]:
        """The steps of x-normalize."""
        return self.schema.get("x-normalize") or []

    @property
    def free_form(self) -> bool:
        """Whether its unknown members are the client's own."""
        return bool(self.schema.get("x-free-form"))


@dataclass(frozen=True)
class Answer:
    """What one operation may answer under one status and media type."""

    status: int
    media: str
    models: tuple[str, ...]
    may_be_empty: bool = False
    """Whether there may be no body at all (``x-may-be-empty`` of the response)."""


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
    query: tuple[str, ...] = ()
    """Names of the query parameters, all optional and all text."""
    plane: str = "business"
    """Which of the server's addresses offers it (``x-plane``)."""


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


def allowed_texts(limits: Mapping[str, Any]) -> list[str]:
    """The only texts that a string may be, by const or enum; none where it is free."""
    values = [limits["const"]] if "const" in limits else limits.get("enum") or []
    return [str(value) for value in values if value is not None]


def refused_values(limits: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values that ``not`` takes out."""
    banned = limits.get("not") or {}
    return tuple(banned.get("enum") or ([banned["const"]] if "const" in banned else ()))


def refused_keys(limits: Mapping[str, Any]) -> list[str]:
    """The keys that ``propertyNames`` refuses."""
    return list((limits.get("propertyNames") or {}).get("not", {}).get("enum", ()))


def openai_shape(shape: Shape) -> Shape:
    """The shape with the limits that hold where the deployment answers in OpenAI's form."""
    return replace(shape, branches=tuple(replace(branch, limits=shape.openai_form or {}) for branch in shape.branches))


def read(document: Document) -> Contract:
    """Read a document into models and operations; what cannot be read becomes a finding in the document."""
    reader = _Reader(document)
    for key in (key for key in ("info", "paths", "components") if not isinstance(document.data.get(key), dict)):
        document.complain((), f"the spec has no {key}; add it")
        document.data[key] = {}
    for name in document.data["components"].get("schemas") or {}:
        schema, where = document.resolve(*reader.at(("components", "schemas", name)))
        if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
            reader.model(name, schema, where)
    return Contract(document, reader.models, tuple(reader.operations()), reader.listed)


class _Reader:
    """Builds the models; anonymous objects get the name of their model and member."""

    def __init__(self, document: Document) -> None:
        self.document, self.complain = document, document.complain
        self.models: dict[str, Model] = {}
        self.open: set[str] = set()
        self.listed: set[Where] = set()
        self.planes: dict[str, str] = {}

    def at(self, where: Where) -> tuple[Any, Where]:
        """The data at a place, with the place."""
        return self.document.at(where), where

    def model(self, name: str, schema: dict[str, Any], where: Where) -> None:
        """Read an object schema with members, once."""
        if name in self.open:
            self.complain(where, f"schema {name} contains itself; recursive schemas are not supported")
        if name in self.open or name in self.models:
            return
        self.open.add(name)
        required, members = list(schema.get("required") or []), {}
        for missing in sorted(set(required) - set(schema["properties"])):
            self.complain((*where, "required"), f"required names {missing}, which is no property; remove it")
        for key, node in schema["properties"].items():
            at: Where = (*where, "properties", key)
            shape = self.shape(node, at, name + "".join(part.title() for part in key.split("_")))
            members[key] = Member(key, shape, key in required, self.document.resolve(node, at)[0], at)
        self.models[name] = Model(name, members, tuple(self.rules(schema, where)), schema, where)
        self.open.discard(name)

    def shape(self, node: Any, at: Where, name: str) -> Shape:
        """Read one schema; ``name`` is for an anonymous object in it."""
        schema, where = self.document.resolve(node, at)
        name = str(where[-1]) if where != at else name
        types = schema.get("type", [])
        types = types if isinstance(types, list) else [types]
        self.keywords(schema, where, types)
        examples, word = tuple(schema.get("examples") or ()), "oneOf" if "oneOf" in schema else "anyOf"
        if word not in schema:
            branches = [self.branch(kind, schema, where, name) for kind in types if kind != "null"] or [Branch("any")]
            form = schema.get("x-openai-form")
            return Shape(tuple(branches), not types or "null" in types, at, form, examples)
        options = [option for option in enumerate(schema[word]) if option[1] != {"type": "null"}]
        parts = [self.shape(option, (*where, word, index), f"{name}{index}") for index, option in options]
        nullable = len(options) < len(schema[word]) or any(part.nullable for part in parts)
        return Shape(tuple(branch for part in parts for branch in part.branches), nullable, at, None, examples)

    def branch(self, kind: str, schema: dict[str, Any], where: Where, name: str) -> Branch:
        if kind not in KINDS:
            self.complain(where, f"type {kind} is unknown; use one of {', '.join(KINDS)}, null")
            return Branch("any")
        kind = KINDS[kind]
        limits = {key: schema[key] for key in sorted(LIMITS[kind]) if key in schema}
        free, examples = bool(schema.get("x-free-form")), tuple(schema.get("examples") or ())
        if kind == "object" and isinstance(schema.get("properties"), dict):
            self.model(name, schema, where)
            return Branch(kind, limits, name, None, free, examples)
        inner = {"list": "items", "object": "additionalProperties"}.get(kind, "")
        items = self.shape(schema[inner], (*where, inner), name) if isinstance(schema.get(inner), dict) else None
        return Branch(kind, limits, "", items, free or kind == "object", examples)

    def keywords(self, schema: dict[str, Any], where: Where, kinds: list[str]) -> None:
        """Find keywords that nothing here would act on."""
        limits = set().union(*LIMITS.values())
        acting = set().union(*(LIMITS[KINDS[kind]] for kind in kinds if kind in KINDS))
        for key, value in schema.items():
            what = f"{'extension' if key.startswith('x-') else 'keyword'} {key}"
            if key not in STRUCTURE | NOTES | limits:
                self.complain((*where, key), f"{what} is not supported here; say it with a supported one or a rule")
            elif key in limits - acting:
                self.complain((*where, key), f"{what} does nothing for this type; move or remove it")
            elif key in _SHAPED and not _SHAPED[key](value):
                self.complain((*where, key), f"{key} {value!r} is not supported here; see the spec's conventions")

    def rules(self, schema: dict[str, Any], where: Where) -> Iterator[Rule]:
        for index, node in enumerate(schema.get("x-validations") or []):
            entry, place = self.document.resolve(node, (*where, "x-validations", index))
            if not entry:
                continue
            self.listed.add(place)
            name = str(entry.get("id") or (place[-1] if place[:2] == ("components", "x-rules") else ""))
            for key in sorted(set(entry) - RULE_NEEDS - RULE_MAY_HAVE):
                self.complain((*place, key), f"{key} is no part of a rule; remove it")
            lacks = sorted(RULE_NEEDS - set(entry)) + ([] if name else ["id"])
            for key in lacks:
                self.complain(place, f"the rule has no {key}; add it")
            if not lacks:
                message, fields = str(entry["message"]), tuple(entry["fields"])
                profile, relaxable = entry.get("profile") or {}, bool(entry.get("relaxable"))
                yield Rule(name, str(entry["rule"]), message, fields, profile, relaxable, place)

    def operations(self) -> Iterator[Operation]:
        routes = [(path, method) for path, methods in self.document.data["paths"].items() for method in methods]
        for path, method in routes:
            node, where = self.at(("paths", path, method))
            if not isinstance(node, dict) or not {"operationId", "responses"} <= set(node):
                self.complain(where, f"{method} of {path} lacks operationId or responses; add them")
                continue
            for status in sorted(status for status in node["responses"] if not str(status).isdigit()):
                self.complain((*where, "responses", status), f"status {status} is no number; list each status")
            name = "".join(part.title() for part in str(node.get("operationId")).split("_"))
            body, at = self.document.resolve(node.get("requestBody") or {}, (*where, "requestBody"))
            requests = [models for _, models in self.bodies(body, at, name + "Body")]
            answers = []
            for status, reply in node["responses"].items():
                reply, at = self.document.resolve(reply, (*where, "responses", status))
                bodies = self.bodies(reply, at, f"{name}{status}Body") or [("", ())]
                empty = bool(reply.get("x-may-be-empty"))
                answers += [Answer(int(status), media, models, empty) for media, models in bodies if status.isdigit()]
            known = [self.document.resolve(parameter, where)[0] for parameter in node.get("parameters") or []]
            placed = {place: tuple(item["name"] for item in known if item.get("in") == place) for place in _PLACES}
            yield Operation(
                str(node.get("operationId")), method, path, requests[0][0] if requests else None, tuple(answers),
                str(node.get("summary") or ""), placed["path"], placed["query"], self.plane(node, path, where),
            )  # fmt: skip

    def plane(self, node: dict[str, Any], path: str, where: Where) -> str:
        """The plane of an operation; all operations of a path are on one."""
        plane = str(node.get("x-plane", PLANES[0]))
        if plane not in PLANES:
            self.complain((*where, "x-plane"), f"x-plane {plane} is unknown; use one of {', '.join(PLANES)}")
        if self.planes.setdefault(path, plane) != plane:
            self.complain(where, f"the operations of {path} are on several planes; give all the same x-plane")
        return plane

    def bodies(self, node: dict[str, Any], at: Where, name: str) -> list[tuple[str, tuple[str, ...]]]:
        """The media types of a body, each with the names of the models that it allows."""
        found = []
        for media, content in (node.get("content") or {}).items():
            place: Where = (*at, "content", media, "schema")
            shape = self.shape(content["schema"], place, name) if "schema" in content else None
            found.append((media, tuple(dict.fromkeys(inside(shape))) if shape else ()))
        return found
