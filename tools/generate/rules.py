"""Emits rules.py: for each schema a function that runs its members' rules and then its own, and one that normalises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator

from tools.generate.cel import compile_rule
from tools.generate.shapes import Contract, Model, Rule, Shape, inside
from tools.generate.write import render

_TYPES = {"string": "str", "list": "list", "boolean": "bool", "integer": "int", "number": "float"}


def rules_source(contract: Contract, template: str = "rules.py.j2") -> str:
    """The text of rules.py, or of another module of rules, not yet formatted. They must compile (lint sees to it)."""
    return render(
        template,
        models=[model for model in contract.models.values() if model.rules],
        obeying=_with(contract, lambda model: bool(model.rules)),
        normal=_with(contract, lambda model: bool(model.normalise)),
        source=lambda cel, model: compile_rule(cel, contract, model.name).source,
        descend=_descend,
        entry=lambda rule, model: _entry(rule, model, contract),
        snake=snake,
        int32="-2147483648 <= value <= 2147483647",
    )


def snake(name: str) -> str:
    """ContentPart becomes content_part."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _entry(rule: Rule, model: Model, contract: Contract) -> str:
    """An entry of a schema's table of rules."""
    texts = {key: f"frozenset({v})" if isinstance(v, list) else repr(v) for key, v in rule.profile.items()}
    words = ", ".join(f"{key}={text}" for key, text in texts.items())
    reads = compile_rule(rule.cel, contract, model.name).fields
    accepted = json.dumps(contract.document.at(rule.where)["example_ok"], ensure_ascii=False)
    more = f", reads={reads!r}, accepted={accepted!r}"
    more += f", profile=Deployment({words})" * bool(words) + ", relaxable=True" * rule.relaxable
    return f"{rule.id!r}: Rule({rule.id!r}, {rule.message!r}, {rule.fields!r}{more})"


def _with(contract: Contract, has: Callable[[Model], bool]) -> dict[str, Model]:
    """Models that have something, or a model below them has, in the order of the contract."""
    reach = {name: [contract.models[below] for below in contract.reach((name,))] for name in contract.models}
    return {name: contract.models[name] for name, models in reach.items() if any(map(has, models))}


def _descend(value: str, shape: Shape, wanted: Container[str], call: str, path: str, depth: int = 1) -> Iterator[str]:
    """Lines that call a function on every wanted model inside a value.

    Args:
        call: the call's text, with ``{model}``, ``{value}`` and ``{path}`` to fill in.
        path: the items of the path so far, as text.
    """
    indent = "    " * depth
    for branch in shape.branches:
        below = inside(branch.items) if branch.kind == "list" and branch.items is not None else []
        if branch.items is not None and [name for name in below if name in wanted]:
            yield f"{indent}if isinstance({value}, list):"
            yield f"{indent}    for i{depth}, item{depth} in enumerate({value}):"
            yield from _descend(f"item{depth}", branch.items, wanted, call, f"{path}, i{depth}", depth + 2)
        elif branch.model in wanted:
            others = [_TYPES[other.kind] for other in shape.branches if other is not branch]
            several = f"not isinstance({value}, ({', '.join([*others, 'type(None)'])}))"
            yield f"{indent}if {several if others else f'{value} is not None'}:"
            yield f"{indent}    {call.format(model=snake(branch.model), value=value, path=path)}"
