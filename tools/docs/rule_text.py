"""The cross-field rules of an operation as Markdown: id, message, a request that passes and one that is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tools.contract.package import Judge, Package
from tools.contract.search import Search
from tools.contract.values import compress
from tools.generate.shapes import Contract, Rule

_INTRODUCTION = """\
### Rules

When every member is allowed by itself, these rules are asked in this order. The first that is broken is the answer:
422, its id as `code`, the first member in brackets as `param`. Each is shown with a request that passes and one that is
refused for this rule alone."""


@dataclass(frozen=True)
class RuleText:
    """One rule with its two requests; ``{"repeat": x, "times": n}`` in them stands for a long text or list."""

    rule: Rule
    passes: Any
    refused: Any


def rule_texts(contract: Contract, package: Package, request: str) -> list[RuleText]:
    """The rules that requests of a model are held to, in the order in which they are asked."""
    search = Search(contract, Judge(package, request))
    return [
        RuleText(rule, *(compress(search.example(owner, _example(contract, rule, word))) for word in _EXAMPLES))
        for owner in search.owners()
        for rule in contract.models[owner.model].rules
    ]


def markdown(texts: list[RuleText]) -> str:
    """The section about rules for an operation's description; empty where there are none."""
    if not texts:
        return ""
    always = [_entry(text) for text in texts if not text.rule.profile]
    profiles = [_entry(text) for text in texts if text.rule.profile]
    title = f"<details>\n<summary>{len(profiles)} rules of deployment profiles, asked after these</summary>"
    return "\n\n".join([_INTRODUCTION, *always, *([title, *profiles, "</details>"] if profiles else [])])


def _entry(text: RuleText) -> str:
    rule = text.rule
    blamed = ", ".join(f"`{name}`" for name in rule.fields)
    lines = [f"**`{rule.id}`** [{blamed}]: {rule.message}.", *_conditions(rule)]
    shown = [f"- passes: `{_shown(text.passes)}`", f"- refused: `{_shown(text.refused)}`"]
    return " ".join(lines) + "\n\n" + "\n".join(shown)


def _conditions(rule: Rule) -> Iterator[str]:
    profile = rule.profile
    names = [*profile.get("features", ()), *filter(None, [profile.get("model_type")])]
    if names:
        yield f"*Only where the deployment declares {' and '.join(names)}.*"
    if rule.relaxable:
        yield "*A deployment may relax it.*"


def _shown(value: Any) -> str:
    return json.dumps(_written(value), ensure_ascii=False)


def _written(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"repeat", "times"}:
            return f"{value['repeat']} ... {value['times']} times"
        return {key: _written(inner) for key, inner in value.items()}
    return [_written(inner) for inner in value] if isinstance(value, list) else value


def _example(contract: Contract, rule: Rule, word: str) -> Any:
    return contract.document.at(rule.where)[word]


_EXAMPLES = ("example_ok", "example_bad")
