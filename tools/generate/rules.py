"""Emits rules.py: for each schema a function that runs its members' rules and then its own, and one that normalises."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tools.generate.cel import compile_rule
from tools.generate.shapes import Contract, Model, Rule, Shape, inside
from tools.generate.write import render

INT32 = "-2147483648 <= value <= 2147483647"


def rules_source(contract: Contract) -> str:
    """The text of rules.py, not yet formatted. The rules must compile (lint has seen to it)."""
    obeying = _with(contract, lambda model: bool(model.rules))
    normal = _with(contract, lambda model: bool(model.normalise))
    functions = [_check(contract, contract.models[name], obeying) for name in obeying]
    functions += [_normalise(contract, contract.models[name], normal) for name in normal]
    schemas = [
        ({"constant": _constant(model.name), "key": repr(model.name)}, [_entry(rule) for rule in model.rules])
        for model in contract.models.values()
        if model.rules
    ]
    return render(
        "rules.py.j2",
        schemas=schemas,
        functions=functions,
        checks=[(repr(name), f"check_{snake(name)}") for name in obeying],
        normalisers=[(repr(name), f"normalise_{snake(name)}") for name in normal],
    )


def snake(name: str) -> str:
    """ContentPart becomes content_part."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _constant(name: str) -> str:
    return f"_{snake(name).upper()}"


def profile_source(rule: Rule) -> str:
    """A rule's profile as the arguments of a Deployment."""
    features = sorted(rule.profile.get("features") or ())
    parts = [f"features=frozenset({features!r})"] if features else []
    parts += [f"model_type={rule.profile['model_type']!r}"] if rule.profile.get("model_type") else []
    return ", ".join(parts)


def _entry(rule: Rule) -> dict[str, str]:
    profile = profile_source(rule)
    more = f", profile=Deployment({profile})" if profile else ""
    more += ", relaxable=True" if rule.relaxable else ""
    return {"id": repr(rule.id), "message": repr(rule.message), "fields": repr(rule.fields), "more": more}


def _with(contract: Contract, has: Callable[[Model], bool]) -> list[str]:
    """Models that have something, or a model below them has, in the order of the contract."""
    return [name for name in contract.models if any(has(contract.models[below]) for below in contract.reach((name,)))]


def _check(contract: Contract, model: Model, obeying: list[str]) -> str:
    lines = [f"def check_{snake(model.name)}(self: Any, path: Path, server: Deployment, found: Found) -> None:"]
    lines.append(
        f'    """{model.name}: the rules of its members, then its own {len(model.rules)}, as the spec lists them."""'
    )
    for member in model.members.values():
        place = f'(*path, "{member.name}"'
        lines += _descend(f"self.{member.name}", member.shape, obeying, "check", place, ", server, found", 1)
    for rule in model.rules:
        source = compile_rule(rule.cel, contract, model.name).source
        lines.append(f"    if not ({source}):")
        lines.append(f"        found.append(({_constant(model.name)}[{rule.id!r}], path))")
    return "\n".join(lines)


def _descend(
    value: str, shape: Shape, wanted: list[str], verb: str, place: str, rest: str, depth: int
) -> Iterator[str]:
    """Lines that call a function on every wanted model inside a value."""
    indent = "    " * depth
    for branch in shape.branches:
        if branch.kind == "list" and branch.items is not None and set(inside(branch.items)) & set(wanted):
            test = f"isinstance({value}, list)" if len(shape.branches) > 1 else f"{value} is not None"
            index = f"i{depth}" if verb == "check" else ""
            loop = f"{index}, item{depth} in enumerate({value})" if index else f"item{depth} in {value}"
            yield f"{indent}if {test}:"
            yield f"{indent}    for {loop}:"
            yield from _descend(f"item{depth}", branch.items, wanted, verb, f"{place}, {index}", rest, depth + 2)
        elif branch.model in wanted:
            others = {"string": "str", "list": "list", "boolean": "bool", "integer": "int", "number": "float"}
            types = ", ".join(["type(None)", *(others[b.kind] for b in shape.branches if b is not branch)])
            guard = f"not isinstance({value}, ({types}))" if "," in types else f"{value} is not None"
            where = f"{place}), " if verb == "check" else ""
            if value.startswith("item") and not shape.nullable and len(shape.branches) == 1:
                yield f"{indent}{verb}_{snake(branch.model)}({value}, {where.removesuffix(', ')}{rest})"
            else:
                yield f"{indent}if {guard}:"
                yield f"{indent}    {verb}_{snake(branch.model)}({value}, {where.removesuffix(', ')}{rest})"


def _normalise(contract: Contract, model: Model, normal: list[str]) -> str:
    lines = [f"def normalise_{snake(model.name)}(self: Any, server: Deployment) -> None:"]
    lines.append(f'    """{model.name}: what the spec\'s x-normalize lists, in its order, in place."""')
    for member in model.members.values():
        lines += _descend(f"self.{member.name}", member.shape, normal, "normalise", "", "server", 1)
    for step in model.normalise:
        target = f"self.{step['field']}"
        if step["kind"] == "empty-is-null":
            lines += [f"    if {target} is not None and {target} in ('', []):", f"        {target} = None"]
        elif step["kind"] == "drop-outside-int32":
            lines += [
                f"    if {target} is not None and not all({INT32} for value in {target}):",
                f"        {target} = [value for value in {target} if {INT32}]",
            ]
        else:
            when = compile_rule(str(step["when"]), contract, model.name).source
            lines += [f"    if {when}:", f"        {target} = {step['value']!r}"]
    return "\n".join(lines)
