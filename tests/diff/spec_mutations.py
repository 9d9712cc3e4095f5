"""Random changes of a spec, one at a time: what somebody who owns a contract may do to it, well or badly."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Node = dict[str, Any]
NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
LENGTHS = ("minLength", "maxLength", "minItems", "maxItems")
ANSWERS = re.compile(
    r"(Choice|Chunk|Event|Completion|Usage|Details|Logprobs|Error|ModelList|Model|Answer|Delta|Status)\w*$"
)


@dataclass(frozen=True)
class Mutation:
    """A changed copy of a spec's data, and what was done."""

    kind: str
    what: str
    data: Node


def objects(data: Node, answers: bool) -> Iterator[tuple[str, Node]]:
    """Object schemas with properties, of requests or of answers."""
    for name, schema in data["components"]["schemas"].items():
        if isinstance(schema.get("properties"), dict):
            request = name.endswith("Request") or "x-base" in schema
            if request is not answers:
                yield name, schema


def members(data: Node, answers: bool) -> list[tuple[str, Node]]:
    """Every schema of a member, its alternatives and items too, followed through references."""
    found: list[tuple[str, Node]] = []
    seen: set[int] = set()

    def add(name: str, node: Any) -> None:
        while isinstance(node, dict) and "$ref" in node:
            node = data["components"]["schemas"][node["$ref"].rpartition("/")[2]]
        if not isinstance(node, dict) or id(node) in seen or isinstance(node.get("properties"), dict):
            return
        seen.add(id(node))
        found.append((name, node))
        for key in ("oneOf", "anyOf"):
            for option in node.get(key, ()):
                add(name, option)
        if "items" in node:
            add(name + "[]", node["items"])

    for owner, schema in objects(data, answers):
        for key, node in schema["properties"].items():
            add(f"{owner}.{key}", node)
    return found


def _bounds(data: Node, draw: random.Random, answers: bool) -> str | None:
    name, node = draw.choice([(n, m) for n, m in members(data, answers) if {*NUMERIC, *LENGTHS} & set(m)] or [("", {})])
    if not node:
        return None
    word = draw.choice([word for word in (*NUMERIC, *LENGTHS) if word in node])
    old = node[word]
    whole = isinstance(old, int)
    options: list[Any] = [old + 1, old - 1, old * 2, old // 2 if whole else old / 2]
    if word in NUMERIC:
        options.append(None)
    new = draw.choice([value for value in options if value != old])
    if new is None:
        del node[word]
        node["x-unbounded"] = "mutated"
    else:
        node[word] = max(0, new) if word in LENGTHS else new
    return f"{name}: {word} {old} -> {new}"


def _nullable(data: Node, draw: random.Random, answers: bool) -> str | None:
    name, node = draw.choice(members(data, answers))
    if isinstance(node.get("type"), list) and "null" in node["type"]:
        node["type"] = [kind for kind in node["type"] if kind != "null"]
        return f"{name}: null lost"
    if "oneOf" in node and {"type": "null"} in node["oneOf"]:
        node["oneOf"] = [option for option in node["oneOf"] if option != {"type": "null"}]
        return f"{name}: null lost"
    if isinstance(node.get("type"), str) and not name.endswith("[]"):
        node["type"] = [node["type"], "null"]
        return f"{name}: null allowed"
    return None


def _required(data: Node, draw: random.Random, answers: bool) -> str | None:
    name, schema = draw.choice(list(objects(data, answers)))
    key = draw.choice(list(schema["properties"]))
    required = schema.setdefault("required", [])
    if key in required:
        required.remove(key)
        return f"{name}.{key}: no longer required"
    required.append(key)
    if isinstance(schema.get("x-base"), dict):
        schema["x-base"][key] = None
    return f"{name}.{key}: required"


def _enum(data: Node, draw: random.Random, answers: bool) -> str | None:
    known = [(name, node) for name, node in members(data, answers) if isinstance(node.get("enum"), list)]
    if not known:
        return None
    name, node = draw.choice(known)
    texts = [value for value in node["enum"] if isinstance(value, str)]
    if draw.random() < 0.5 and len(texts) > 1:
        gone = draw.choice(texts)
        node["enum"] = [value for value in node["enum"] if value != gone]
        return f"{name}: enum loses {gone}"
    node["enum"] = [*node["enum"], "novel"]
    return f"{name}: enum has novel"


def _type(data: Node, draw: random.Random, answers: bool) -> str | None:
    turns = {"integer": "number", "number": "integer", "boolean": "string", "string": "integer"}
    name, node = draw.choice(members(data, answers))
    kinds = node.get("type")
    first = kinds[0] if isinstance(kinds, list) else kinds
    if first not in turns or {"enum", "const", "pattern"} & set(node):
        return None
    other = turns[str(first)]
    for word in LENGTHS:
        node.pop(word, None)
    if {first, other} != {"integer", "number"}:
        for word in (*NUMERIC, "examples", "default", "x-unbounded"):
            node.pop(word, None)
    if other == "integer":
        for word in NUMERIC:
            if word in node:
                node[word] = int(node[word])
    if other == "number":
        node.pop("not", None)
        node.pop("x-openai-form", None)
    if other in ("integer", "number") and not {*NUMERIC} & set(node):
        node |= {"minimum": 0, "maximum": 9}
    node["type"] = [other, *kinds[1:]] if isinstance(kinds, list) else other
    return f"{name}: {first} -> {other}"


def _with_rules(data: Node) -> list[tuple[str, Node]]:
    return [(name, s) for name, s in data["components"]["schemas"].items() if s.get("x-validations")]


def _rule_gone(data: Node, draw: random.Random, answers: bool) -> str | None:
    name, schema = draw.choice(_with_rules(data))
    gone = draw.choice(schema["x-validations"])
    schema["x-validations"] = [entry for entry in schema["x-validations"] if entry is not gone]
    return f"{name}: rule gone {gone.get('$ref', '').rpartition('/')[2]}"


def _rule_new(data: Node, draw: random.Random, answers: bool) -> str | None:
    name, schema = draw.choice([(n, s) for n, s in objects(data, False) if len(s["properties"]) > 2])
    a, b = draw.sample(list(schema["properties"]), 2)
    cel = draw.choice([f"!has(self.{a}) || !has(self.{b})", f"has(self.{a}) || !has(self.{b})", f"!has(self.{a})"])
    rule = {"id": "mutant", "rule": cel, "message": "a mutation", "fields": [a], "example_ok": {}, "example_bad": {}}
    schema.setdefault("x-validations", []).insert(0, rule)
    return f"{name}: rule {cel}"


def _rule_changed(data: Node, draw: random.Random, answers: bool) -> str | None:
    name, rule = draw.choice(list(data["components"]["x-rules"].items()))
    cel = rule["rule"]
    swaps = [(r"\d+(?![\d.])", lambda m: str(int(m[0]) + draw.choice([-1, 1]) if int(m[0]) else 1))]
    swaps += [(re.escape(a), lambda m, b=b: b) for a, b in (
        (" <= ", " < "), (" >= ", " > "), (" == ", " != "), (" && ", " || "), (" || ", " && "), ("!has(", "has("),
        (" > ", " >= "), ('"none"', '"auto"'), ("true", "false"),
    )]  # fmt: skip
    places = [(match, turn) for pattern, turn in swaps for match in re.finditer(pattern, cel)]
    if not places:
        return None
    match, turn = draw.choice(places)
    rule["rule"] = cel[: match.start()] + turn(match) + cel[match.end() :]
    return f"{name}: {cel} -> {rule['rule']}"


def _relaxable(data: Node, draw: random.Random, answers: bool) -> str | None:
    name, rule = draw.choice(list(data["components"]["x-rules"].items()))
    rule["relaxable"] = not rule.get("relaxable", False)
    return f"{name}: relaxable {rule['relaxable']}"


def _default(data: Node, draw: random.Random, answers: bool) -> str | None:
    name, node = draw.choice([(n, m) for n, m in members(data, False) if "default" in m])
    old = node["default"]
    if draw.random() < 0.3:
        del node["default"]
        return f"{name}: no default {old}"
    node["default"] = (not old) if isinstance(old, bool) else old + 1 if isinstance(old, int | float) else None
    return f"{name}: default {old} -> {node['default']}" if node["default"] != old else None


def _normalise(data: Node, draw: random.Random, answers: bool) -> str | None:
    name, schema = draw.choice([(n, s) for n, s in objects(data, False) if s.get("x-normalize")])
    steps = schema["x-normalize"]
    act = draw.choice(["gone", "new", "order"])
    if act == "gone":
        step = steps.pop(draw.randrange(len(steps)))
        return f"{name}: {step} gone"
    if act == "new":
        lists = [key for key, node in schema["properties"].items() if key in ("messages", "prompt", "tools", "stop")]
        step = {"kind": "empty-is-null", "field": draw.choice(lists)}
        if step in steps:
            return None
        steps.insert(0, step)
        return f"{name}: {step} new"
    steps.reverse()
    return f"{name}: steps the other way round"


def _key_gone(data: Node, draw: random.Random, answers: bool) -> str | None:
    name, schema = draw.choice([(n, s) for n, s in objects(data, answers) if len(s["properties"]) > 1])
    read = str(schema.get("x-validations", "")) + str(schema.get("x-normalize", ""))
    rules = " ".join(rule["rule"] for rule in data["components"]["x-rules"].values()) if read else ""
    free = [key for key in schema["properties"] if f".{key}" not in rules and key not in read]
    if not free:
        return None
    key = draw.choice(free)
    del schema["properties"][key]
    schema["required"] = [known for known in schema.get("required", []) if known != key]
    if isinstance(schema.get("x-base"), dict):
        schema["x-base"].pop(key, None)
    return f"{name}.{key} gone"


def _key_new(data: Node, draw: random.Random, answers: bool) -> str | None:
    name, schema = draw.choice(list(objects(data, answers)))
    schema["properties"]["novel"] = {
        "type": ["integer", "null"], "minimum": 0, "maximum": 3, "description": "New.", "x-source": "extension",
    }  # fmt: skip
    if draw.random() < 0.3:
        schema.setdefault("required", []).append("novel")
        if isinstance(schema.get("x-base"), dict):
            schema["x-base"]["novel"] = 1
    return f"{name}.novel"


Change = Callable[[Node, random.Random, bool], "str | None"]
KINDS: dict[str, tuple[Change, bool]] = {
    "bounds": (_bounds, False), "nullability": (_nullable, False), "required": (_required, False),
    "enum": (_enum, False), "type": (_type, False), "rule removed": (_rule_gone, False),
    "rule added": (_rule_new, False), "rule changed": (_rule_changed, False), "relaxable": (_relaxable, False),
    "default": (_default, False), "normalisation": (_normalise, False), "member removed": (_key_gone, False),
    "member added": (_key_new, False), "answer bounds": (_bounds, True), "answer nullability": (_nullable, True),
    "answer required": (_required, True), "answer enum": (_enum, True), "answer type": (_type, True),
    "answer key removed": (_key_gone, True), "answer key added": (_key_new, True),
}  # fmt: skip
"""Kind of mutation to the function that does it, and whether it is done to answers."""


def mutate(data: Node, seed: int) -> Mutation | None:
    """The mutation of a seed; kinds take turns. None where the spec has nothing for a kind."""
    kind = list(KINDS)[seed % len(KINDS)]
    change, answers = KINDS[kind]
    for attempt in range(100):
        changed = copy.deepcopy(data)
        try:
            what = change(changed, random.Random(f"{seed}.{attempt}"), answers)
        except IndexError:
            return None
        if what is not None:
            return Mutation(kind, what, changed)
    return None
