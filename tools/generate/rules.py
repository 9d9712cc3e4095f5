"""Emits rules.py: for each schema a function that runs its members' rules and then its own, and one that normalises."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tools.generate.cel import compile_rule
from tools.generate.shapes import Contract, Model, Rule, Shape, inside
from tools.generate.write import render

INT32 = "-2147483648 <= value <= 2147483647"
_TYPES = {"string": "str", "list": "list", "boolean": "bool", "integer": "int", "number": "float"}


def rules_source(contract: Contract) -> str:
    """The text of rules.py, not yet formatted. The rules must compile (lint has seen to it)."""
    obeying = _with(contract, lambda model: bool(model.rules))
    normal = _with(contract, lambda model: bool(model.normalise))
    functions = [_check(contract, contract.models[name], obeying) for name in obeying]
    functions += [_normalise(contract, contract.models[name], normal) for name in normal]
    return render(
        "rules.py.j2",
        tables={
            model.name: [_entry(rule) for rule in model.rules] for model in contract.models.values() if model.rules
        },
        functions=functions,
        checks={name: f"check_{snake(name)}" for name in obeying},
        normalisers={name: f"normalise_{snake(name)}" for name in normal},
        constant=_constant,
    )


def snake(name: str) -> str:
    """ContentPart becomes content_part."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _constant(name: str) -> str:
    return f"_{snake(name).upper()}"


def _entry(rule: Rule) -> str:
    """An entry of a schema's table of rules."""
    lists = {
        key: f"frozenset({value})" if isinstance(value, list) else repr(value) for key, value in rule.profile.items()
    }
    words = ", ".join(f"{key}={text}" for key, text in lists.items())
    more = f", profile=Deployment({words})" * bool(words) + ", relaxable=True" * rule.relaxable
    return f"{rule.id!r}: Rule({rule.id!r}, {rule.message!r}, {rule.fields!r}{more})"


def _with(contract: Contract, has: Callable[[Model], bool]) -> list[str]:
    """Models that have something, or a model below them has, in the order of the contract."""
    return [name for name in contract.models if any(has(contract.models[below]) for below in contract.reach((name,)))]


def _check(contract: Contract, model: Model, obeying: list[str]) -> str:
    lines = [f"def check_{snake(model.name)}(self: Any, path: Path, server: Deployment, found: Found) -> None:"]
    lines.append(
        f'    """{model.name}: its members\' rules, then its own {len(model.rules)}, as the spec lists them."""'
    )
    for member in model.members.values():
        call = "check_{model}({value}, (*path, {path}), server, found)"
        lines += _descend(f"self.{member.name}", member.shape, obeying, call, repr(member.name))
    for rule in model.rules:
        source = compile_rule(rule.cel, contract, model.name).source
        lines.append(f"    if not ({source}):")
        lines.append(f"        found.append(({_constant(model.name)}[{rule.id!r}], path))")
    return "\n".join(lines)


def _descend(value: str, shape: Shape, wanted: list[str], call: str, path: str, depth: int = 1) -> Iterator[str]:
    """Lines that call a function on every wanted model inside a value.

    Args:
        call: the call's text, with ``{model}``, ``{value}`` and ``{path}`` to fill in.
        path: the items of the path so far, as text.
    """
    indent = "    " * depth
    for branch in shape.branches:
        if branch.kind == "list" and branch.items is not None and set(inside(branch.items)) & set(wanted):
            yield f"{indent}if isinstance({value}, list):"
            yield f"{indent}    for i{depth}, item{depth} in enumerate({value}):"
            yield from _descend(f"item{depth}", branch.items, wanted, call, f"{path}, i{depth}", depth + 2)
        elif branch.model in wanted:
            others = [_TYPES[other.kind] for other in shape.branches if other is not branch]
            several = f"not isinstance({value}, ({', '.join([*others, 'type(None)'])}))"
            yield f"{indent}if {several if others else f'{value} is not None'}:"
            yield f"{indent}    {call.format(model=snake(branch.model), value=value, path=path)}"


def _normalise(contract: Contract, model: Model, normal: list[str]) -> str:
    lines = [f"def normalise_{snake(model.name)}(self: Any, server: Deployment) -> None:"]
    lines.append(f'    """{model.name}: what the spec\'s x-normalize lists, in its order, in place."""')
    for member in model.members.values():
        lines += _descend(f"self.{member.name}", member.shape, normal, "normalise_{model}({value}, server)", "")
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
