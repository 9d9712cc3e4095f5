"""The Chinese of the contract: complete, true to code and numbers, and in words of its own for ranges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.docs.chinese import GUIDE, OVERLAY, check_guides, texts, translations
from tools.docs.wording import ENGLISH
from tools.generate.load import SpecError, load

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "spec"
CONTRACT = json.loads((ROOT / "generated" / "openapi.zh.json").read_text(encoding="utf-8"))


def changed(tmp_path: Path, old: str, new: str) -> Path:
    """A copy of the translations with one text in the place of another."""
    text = (SPEC / OVERLAY).read_text(encoding="utf-8")
    assert old in text
    copy = tmp_path / OVERLAY
    copy.write_text(text.replace(old, new, 1), encoding="utf-8")
    return copy


def test_every_text_of_the_contract_has_chinese() -> None:
    """As many as there are texts; none of them is left in English alone."""
    document = load(SPEC / "openapi.yaml")
    known = translations(document, SPEC / OVERLAY)
    assert set(known) == {text.rstrip("\n") for _, text in texts(document.data)}
    assert [text for text in known.values() if text.isascii()] == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("- en: 'The methods that the path takes.'\n  zh: '该路径接受的方法。'\n", "", "has no Chinese; add it"),
        ("- en: 'The methods that the path takes.'", "- en: 'Gone.'", "nothing of the contract says 'Gone.' any more"),
        ("停止字符串合计不得超过 32768 个字符", "停止字符串合计不得超过 3276 个字符", "lacks 32768"),
        ("用作 `model` 的名称。", "用作名称。", "lacks `model`"),
    ],
)
def test_what_is_missing_stale_or_untrue_is_an_error(old: str, new: str, said: str, tmp_path: Path) -> None:
    """The generator stops and names the text."""
    document = load(SPEC / "openapi.yaml")
    with pytest.raises(SpecError, match=said):
        translations(document, changed(tmp_path, old, new))


def test_the_guides_have_the_same_code_and_examples(tmp_path: Path) -> None:
    """A row of the table that only the English one has is named."""
    check_guides(SPEC, ENGLISH.guide)
    for name in (ENGLISH.guide, GUIDE):
        text = (SPEC / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("`malformed_http`", "", int(name == GUIDE)), encoding="utf-8")
    with pytest.raises(SpecError, match=r"lacks `malformed_http`, which guide\.md has"):
        check_guides(tmp_path, ENGLISH.guide)


@pytest.mark.parametrize(
    ("schema", "allowed", "rest"),
    [
        ("N", "整数，1 到 8192；或 null", "默认值：1。null 等同于不发送。出处：chat_zh, completions_zh, ruling。"),
        (
            "TopP",
            "数，大于 1e-06 且不大于 1；或 null",
            "默认值：1.0。null 等同于不发送。出处：chat_en, completions_zh。",
        ),
        (
            "TopK",
            "整数，-1 到 2147483647，不含 0；或 null",
            "OpenAI 形式下：整数，0 到 2147483647；或 null。默认值：1000。null 等同于不发送。"
            "出处：chat_en, completions_zh, ruling。",
        ),
        (
            "Stop",
            "字符串，1 到 32768 个字符；或 列表，每项为字符串，1 到 32768 个字符；或 null",
            "默认值：无。null 等同于不发送。出处：chat_en, completions_zh。",
        ),
        (
            "FunctionName",
            "字符串，1 到 64 个字符，须匹配 `^[A-Za-z0-9_\\-\\u4e00-\\u9fa5]+$`",
            "必填。不接受 null。出处：chat_en, ruling。",
        ),
    ],
)
def test_facts_are_said_in_chinese(schema: str, allowed: str, rest: str) -> None:
    """Each kind of limit once, as the published document ends a description."""
    last = CONTRACT["components"]["schemas"][schema]["description"].split("\n\n")[-1]
    assert last == f"取值：{allowed}。{rest}"


def test_rules_keep_the_words_that_the_server_says() -> None:
    """The Chinese stands in the text, the message of an answer in the rule itself."""
    rule = CONTRACT["components"]["x-rules"]["n-needs-temperature"]
    assert rule["message"] == "n above 1 needs a temperature above 0"
    assert "n 大于 1 时，temperature 必须大于 0。" in CONTRACT["paths"]["/v1/completions"]["post"]["description"]
