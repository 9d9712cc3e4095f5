"""Emits what spec/config.schema.yaml gives: models, rules and keys of config.json, and its documentation."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tools.contract.package import Package, load_package
from tools.generate.document import Document, SpecError, Where
from tools.generate.fields import words
from tools.generate.lint import HIGH, LOW, branches, check_rules
from tools.generate.load import load
from tools.generate.models import models_source
from tools.generate.rules import rules_source, snake
from tools.generate.shapes import Contract, Member, Rule, Shape, read
from tools.generate.write import formatted, render, write

ROOT_MODEL = "Config"
_AT: Where = ("components", "schemas", ROOT_MODEL)
_MEANINGS = ("honoured", "named")


@dataclass(frozen=True)
class KeyRow:
    """One key as the templates show it; see the class ``Key`` that they write."""

    allowed: str
    kinds: tuple[str, ...]
    description: str
    honoured: bool | None
    effect: str
    default: str
    environment: str | None
    reload: bool
    form: str | None


def config_files(path: Path, base: dict[str, str]) -> tuple[dict[str, str], str]:
    """The Python files of a configuration schema by name, and the text of its documentation.

    Args:
        path: the schema.
        base: the generated files that these import.

    Raises:
        SpecError: the schema is wrong; carries all findings.
    """
    document = load(path)
    contract = _read(document)
    variables = document.data.get("x-environment") or []
    _check_fields(contract, variables)
    if document.findings:
        raise SpecError(document.path, document.findings)
    keys = {pattern: _row(member, shape) for pattern, member, shape in _walk(contract, ROOT_MODEL)}
    # All faults of a list are wanted here, not only the first.
    models = models_source(contract, "config.py.j2").replace("fail_fast=True, ", "").replace("fail_fast=True", "")
    sources = {
        "config.py": models,
        "config_rules.py": rules_source(contract, "config_rules.py.j2"),
        "config_keys.py": render("config_keys.py.j2", keys=keys, variables=variables),
    }
    files = {name: formatted(text, name) for name, text in sources.items()}
    with tempfile.TemporaryDirectory() as folder:
        write({**base, **files}, Path(folder))
        _check_examples(contract, load_package(Path(folder)))
    if document.findings:
        raise SpecError(document.path, document.findings)
    rules = [rule for model in contract.models.values() for rule in model.rules]
    sections = list(_sections(keys))
    return files, render("config.md.j2", sections=sections, rules=rules, variables=variables, cell=_cell)


def _read(document: Document) -> Contract:
    """The schema as a contract without operations, so that the generator's own reader reads it."""
    root = {
        key: node for key, node in document.data.items() if key in ("type", "description", "required", "properties")
    }
    lines = {(*_AT, *where): line for where, line in document.lines.items()}
    document.lines.update(lines)
    document.data = {**document.data, "info": {}, "paths": {}, "components": {"schemas": {ROOT_MODEL: root}}}
    return read(document)


def _walk(contract: Contract, model: str, before: str = "") -> Iterator[tuple[str, Member, Shape]]:
    """Every key below a model by its pattern; items of lists and of maps have none of their own."""
    for member in contract.models[model].members.values():
        pattern = before + member.name
        yield pattern, member, member.shape
        yield from _below(contract, pattern, member.shape)


def _below(contract: Contract, pattern: str, shape: Shape) -> Iterator[tuple[str, Member, Shape]]:
    for branch in shape.branches:
        if branch.model:
            yield from _walk(contract, branch.model, pattern + ".")
        if branch.items is not None:
            yield from _below(contract, pattern + ("[]" if branch.kind == "list" else ".*"), branch.items)


def _is_section(member: Member) -> bool:
    return bool(member.shape.branches[0].model)


def _row(member: Member, shape: Shape) -> KeyRow:
    schema = member.schema
    if _is_section(member):
        return KeyRow("an object", ("object",), str(schema["description"]), None, "", "", None, False, None)
    default = json.dumps(schema["default"], ensure_ascii=False) if "default" in schema else str(schema["x-default"])
    required = "; required" if member.required else ""
    return KeyRow(
        str(schema.get("x-words") or words(shape)) + required,
        shape.kinds,
        str(schema["description"]),
        schema["x-meaning"] == "honoured",
        str(schema["x-effect"]),
        default,
        schema.get("x-environment"),
        bool(schema.get("x-reload")),
        schema.get("format"),
    )


def _check_fields(contract: Contract, variables: list[dict[str, Any]]) -> None:
    """Find keys that say too little, and rules that cannot be compiled."""
    complain = contract.document.complain
    for model in contract.models.values():
        check_rules(contract, model)
        for member in model.members.values():
            for fault in _faults(member):
                complain(member.where, f"{model.name}.{member.name} {fault}")
    for index, entry in enumerate(variables):
        if set(entry) != {"name", "x-meaning", "x-effect"} or entry["x-meaning"] not in _MEANINGS:
            complain(("x-environment", index), "a variable has name, x-meaning (honoured or named) and x-effect")


def _faults(member: Member) -> Iterator[str]:
    schema = member.schema
    if not schema.get("description"):
        yield "has no description; add one sentence"
    if _is_section(member):
        return
    if schema.get("x-meaning") not in _MEANINGS or not schema.get("x-effect"):
        yield "needs x-meaning (honoured or named) and x-effect"
    if ("default" in schema) == ("x-default" in schema):
        yield "needs default or x-default, not both"
    for branch in branches(member.shape):
        closed = set(LOW) & set(branch.limits) and set(HIGH) & set(branch.limits)
        if branch.kind in ("integer", "number") and not closed:
            yield "is a number without a range; add minimum and maximum"


def _check_examples(contract: Contract, package: Package) -> None:
    """Find defaults that are not allowed, and rules whose examples do not do what they are for."""
    models, rules = package.module("config"), package.module("config_rules")
    for name, model in contract.models.items():
        judge = getattr(models, name)
        for member in model.members.values():
            if "default" in member.schema:
                try:
                    judge.__pydantic_validator__.validate_assignment(judge.model_construct(), member.name,
                                                                     member.schema["default"])  # fmt: skip
                except ValidationError:
                    contract.document.complain(member.where, f"the default of {name}.{member.name} is not allowed")
        check = getattr(rules, f"check_{snake(name)}", None)
        for rule in model.rules:
            for word, wanted in (("example_ok", []), ("example_bad", [rule.id])):
                found = _broken(judge, check, contract.document.at(rule.where)[word], rules.PLAIN)
                if found != wanted:
                    what = ", ".join(found) or "nothing"
                    contract.document.complain((*rule.where, word), f"{word} of {rule.id} breaks {what}")


def _broken(judge: Any, check: Any, example: Any, plain: Any) -> list[str]:
    found: list[tuple[Rule, Any]] = []
    try:
        check(judge.model_validate(example), (), plain, found)
    except ValidationError as error:
        return [f"the field {error.errors()[0]['loc']}"]
    return [rule.id for rule, _ in found]


def _sections(keys: dict[str, KeyRow]) -> Iterator[tuple[str, list[tuple[str, KeyRow]]]]:
    """The keys by the object that holds them, in the order of the schema."""
    found: dict[str, list[tuple[str, KeyRow]]] = {}
    for pattern, key in keys.items():
        section, _, name = pattern.rpartition(".")
        if key.honoured is not None:
            found.setdefault(section or "Top level", []).append((name, key))
    yield from found.items()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")
