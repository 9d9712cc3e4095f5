"""The contract in Chinese: the translations of spec/zh.yaml, held to the contract, and the phrases around them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.docs.wording import Wording
from tools.generate.load import Document, Finding, SpecError, Where
from tools.generate.shapes import Branch, Shape, allowed_texts, refused_keys, refused_values

OVERLAY = "zh.yaml"
"""Beside the spec: a list of ``en`` and ``zh``."""
GUIDE = "guide.zh.md"
_TEXTS = frozenset({"description", "summary", "title", "message"})
_DATA = frozenset({"value", "example", "example_ok", "example_bad", "x-base", "default", "enum"})
"""Members whose content is data of requests and answers."""
_KEPT = re.compile(r"`[^`\n]+`|(?<![A-Za-z\d])\d+(?:\.\d+)?")
"""Code and numbers, which are the same in every language."""
_BOUNDS = {"minimum": "不小于 {}", "exclusiveMinimum": "大于 {}", "maximum": "不大于 {}", "exclusiveMaximum": "小于 {}"}


def translations(document: Document, path: Path) -> dict[str, str]:
    """The Chinese of each text of the contract.

    Raises:
        SpecError: a text has no translation, a translation no text, or its code and numbers are not those of its text.
    """
    entries: list[dict[str, str]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    known = {entry["en"]: entry["zh"] for entry in entries}
    wanted = {text.rstrip("\n"): where for where, text in texts(document.data)}
    wrong = [
        Finding(1, f"nothing of the contract says {_start(text)} any more; remove it")
        for text in known
        if text not in wanted
    ]
    for text, where in wanted.items():
        at = document.lines.get(where, 1)
        if text not in known:
            wrong.append(Finding(1, f"line {at} of the contract, {_start(text)}, has no Chinese; add it"))
        elif missing := set(_KEPT.findall(text)) - set(_KEPT.findall(known[text])):
            wrong.append(Finding(1, f"the Chinese of {_start(text)} lacks {', '.join(sorted(missing))}"))
    if wrong:
        raise SpecError(str(path), wrong)
    return known


def texts(node: Any, where: Where = ()) -> Iterator[tuple[Where, str]]:
    """Every text for readers in a document, with its place."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from texts(item, (*where, index))
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in _TEXTS and isinstance(value, str):
                yield (*where, key), value
            elif key not in _DATA and not (key == "examples" and isinstance(value, list)):
                yield from texts(value, (*where, key))


def check_guides(folder: Path, english: str) -> None:
    """Hold the Chinese guide to the English one: the same code, numbers, headings and examples.

    Raises:
        SpecError: something is missing.
    """
    kept = re.compile(rf"{_KEPT.pattern}|^## |^\{{example: \S+\}}$", re.MULTILINE)
    one, other = (Counter(kept.findall((folder / name).read_text(encoding="utf-8"))) for name in (english, GUIDE))
    if missing := sorted(one - other):
        raise SpecError(str(folder / GUIDE), [Finding(1, f"lacks {', '.join(missing)}, which {english} has")])


def chinese(known: Mapping[str, str]) -> Wording:
    """The phrases, with these translations of the contract's texts."""
    return Wording(
        guide=GUIDE,
        words=words,
        text=lambda text: known[text.rstrip("\n")],
        allowed="取值：{}",
        openai_form="OpenAI 形式下：{}",
        required="必填",
        default="默认值：{}",
        no_default="无",
        null_is_absent="null 等同于不发送",
        null_is_refused="不接受 null",
        source="出处：{}",
        as_its_parts="见其各部分",
        between="。",
        end="。",
        rules=_RULES,
        rule="**`{}`** [{}]：{}。",
        profile_rules="部署特征的 {} 条规则，在以上规则之后检查",
        profile="*仅当部署声明了 {} 时。*",
        both=" 和 ",
        relaxable="*部署可以放宽此规则。*",
        passes="通过",
        refused="拒绝",
        times="{} ... 共 {} 次",
        table="全部 {} 个参数的表格",
        head="| 参数 | 取值 | 默认值 | 出处 |",
        needed="（必填）",
    )


def words(shape: Shape) -> str:
    """What a value may be, in Chinese."""
    parts = [_branch(branch) for branch in shape.branches] + (["null"] if shape.nullable else [])
    return "；或 ".join(dict.fromkeys(parts))


def _branch(branch: Branch) -> str:
    kind, limits = branch.kind, branch.limits
    if kind == "boolean":
        return str(limits["const"]).lower() if "const" in limits else "true 或 false"
    if kind == "string":
        return _string(limits)
    if kind in ("integer", "number"):
        return _number("整数" if kind == "integer" else "数", limits)
    if kind == "list":
        plain = branch.items is not None and not branch.items.branches[0].model
        inner = f"，每项为{words(branch.items)}" if plain and branch.items is not None else ""
        return _length(limits, "minItems", "maxItems", "列表", "项") + inner
    refused = "、".join(refused_keys(limits))
    return ("对象" + (f"，不得含键 {refused}" if refused else "")) if kind == "object" else "任意值"


def _string(limits: Mapping[str, Any]) -> str:
    known = "、".join(f'"{value}"' for value in allowed_texts(limits))
    if known:
        case = "，不分大小写" if limits.get("x-ignore-case") else ""
        return f"{'以下之一：' if 'enum' in limits else '文本 '}{known}{case}"
    pattern = f"，须匹配 `{limits['pattern']}`" if "pattern" in limits else ""
    return _length(limits, "minLength", "maxLength", "字符串", "个字符") + pattern


def _length(limits: Mapping[str, Any], low: str, high: str, what: str, unit: str) -> str:
    least, most = limits.get(low, 0), limits.get(high)
    if most is not None:
        return f"{what}，{least} 到 {most} {unit}"
    return what if not least else f"非空{what}" if least == 1 else f"{what}，至少 {least} {unit}"


def _number(name: str, limits: Mapping[str, Any]) -> str:
    ends = [phrase.format(limits[word]) for word, phrase in _BOUNDS.items() if word in limits]
    if {"minimum", "maximum"} <= set(limits):
        ends = [f"{limits['minimum']} 到 {limits['maximum']}"]
    values = "、".join(map(str, refused_values(limits)))
    return "，".join([name, *([" 且".join(ends)] if ends else []), *([f"不含 {values}"] if values else [])])


def _start(text: str) -> str:
    return repr(text[:60] + ("..." if len(text) > 60 else ""))


_RULES = """\
### 规则

每个成员单独都允许之后，按以下顺序检查这些规则。第一个被违反的即为应答：422，以其 id 为 `code`，以方括号中的第一个成员为
`param`。每条规则附有一个通过的请求，以及一个只因此规则被拒绝的请求。"""
