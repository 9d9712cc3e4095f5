"""The cross-field rules of an operation as Markdown: id, message, a request that passes and one that is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tools.contract.package import Judge, Package
from tools.contract.search import Search
from tools.contract.values import compress
from tools.docs.wording import Wording
from tools.generate.shapes import Contract, Rule


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


def markdown(texts: list[RuleText], say: Wording) -> str:
    """The section about rules for an operation's description; empty where there are none."""
    if not texts:
        return ""
    always = [_entry(text, say) for text in texts if not text.rule.profile]
    profiles = [_entry(text, say) for text in texts if text.rule.profile]
    title = f"<details>\n<summary>{say.profile_rules.format(len(profiles))}</summary>"
    return "\n\n".join([say.rules, *always, *([title, *profiles, "</details>"] if profiles else [])])


def _entry(text: RuleText, say: Wording) -> str:
    rule = text.rule
    blamed = ", ".join(f"`{name}`" for name in rule.fields)
    lines = [say.rule.format(rule.id, blamed, say.text(rule.message)), *_conditions(rule, say)]
    shown = [
        f"- {word}: `{_shown(body, say)}`" for word, body in ((say.passes, text.passes), (say.refused, text.refused))
    ]
    return " ".join(lines) + "\n\n" + "\n".join(shown)


def _conditions(rule: Rule, say: Wording) -> Iterator[str]:
    profile = rule.profile
    names = [*profile.get("features", ()), *filter(None, [profile.get("model_type")])]
    if names:
        yield say.profile.format(say.both.join(names))
    if rule.relaxable:
        yield say.relaxable


def _shown(value: Any, say: Wording) -> str:
    return json.dumps(_written(value, say), ensure_ascii=False)


def _written(value: Any, say: Wording) -> Any:
    if isinstance(value, dict):
        if set(value) == {"repeat", "times"}:
            return say.times.format(value["repeat"], value["times"])
        return {key: _written(inner, say) for key, inner in value.items()}
    return [_written(inner, say) for inner in value] if isinstance(value, list) else value


def _example(contract: Contract, rule: Rule, word: str) -> Any:
    return contract.document.at(rule.where)[word]


_EXAMPLES = ("example_ok", "example_bad")
