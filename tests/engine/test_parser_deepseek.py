"""DeepSeek V3, R1 and V3.1: a section of calls between control tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parser_play import Case, check, check_every_beginning, check_hidden, check_pieces, cut, parts_of, read

from engine.text.parsers.deepseek import DEEPSEEK_V3, DEEPSEEK_V31
from engine.text.parsers.family import ToolFamily

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, CALL_END, SEP = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"


def v3(name: str, arguments: str) -> str:
    """A call as V3 and R1 write it."""
    return f"{CALL}function{SEP}{name}\n```json\n{arguments}\n```{CALL_END}"


def v31(name: str, arguments: str) -> str:
    """A call as V3.1 writes it."""
    return f"{CALL}{name}{SEP}{arguments}{CALL_END}"


AWKWARD = '{"a": "```<｜tool▁call▁end｜>}\\"", "b": "\\u5317\\\\"}'

CASES = [
    Case("V3, one call", BEGIN + v3("get_time", '{"zone":  "UTC"}') + END, "", (("get_time", '{"zone":  "UTC"}'),)),
    Case(
        "V3, two calls",
        BEGIN + v3("get", "{}") + "\n" + v3("查天气", '{"n": 1.0}') + END,
        "",
        (("get", "{}"), ("查天气", '{"n": 1.0}')),
    ),
    Case("V3, text before", "Let me look.\n\n" + BEGIN + v3("get", "{}") + END, "Let me look.", (("get", "{}"),)),
    Case("V3, text after", BEGIN + v3("get", "{}") + END + "\nDone.", "\nDone.", (("get", "{}"),)),
    Case(
        "V3, space before the end of a call",
        BEGIN + v3("get", "{}").replace("```" + CALL_END, "```\n" + CALL_END) + END,
        "",
        (("get", "{}"),),
    ),
    Case("V3, over several lines", BEGIN + v3("get", '{\n  "a": {\n}\n}') + END, "", (("get", '{\n  "a": {\n}\n}'),)),
    Case("V3, markers and fences in strings", BEGIN + v3("get", AWKWARD) + END, "", (("get", AWKWARD),)),
    Case("V3, the section unopened", v3("get", "{}") + END, "", (("get", "{}"),)),
    Case("V3, the section unclosed", BEGIN + v3("get", "{}"), "", (("get", "{}"),)),
    Case(
        "V3, the fence unclosed", BEGIN + f"{CALL}function{SEP}get\n```json\n{{}}{CALL_END}{END}", "", (("get", "{}"),)
    ),
    Case(
        "V3, cut inside the arguments",
        BEGIN + v3("get", '{"a": "x')[: -len("\n```" + CALL_END)],
        "",
        (("get", '{"a": "x'),),
        whole=False,
    ),
    Case("V3, cut before them", f"Hm {BEGIN}{CALL}function{SEP}get\n```js", f"Hm {BEGIN}{CALL}function{SEP}get\n```js"),
    Case("V3, an unknown function", BEGIN + v3("rm_rf", "{}") + END, BEGIN + v3("rm_rf", "{}") + END),
    Case(
        "V3, a known one after an unknown one",
        BEGIN + v3("rm_rf", "{}") + v3("get", "{}") + END,
        BEGIN + v3("rm_rf", "{}"),
        (("get", "{}"),),
    ),
    Case("V3.1, one call", BEGIN + v31("get_time", '{"zone":  "UTC"}') + END, "", (("get_time", '{"zone":  "UTC"}'),)),
    Case(
        "V3.1, two calls",
        BEGIN + v31("get", "{}") + v31("get_time", '{"a": {"b": {}}}') + END,
        "",
        (("get", "{}"), ("get_time", '{"a": {"b": {}}}')),
    ),
    Case("V3.1, text around", "Hm." + BEGIN + v31("get", "{}") + END + " Done.", "Hm. Done.", (("get", "{}"),)),
    Case("V3.1, markers in strings", BEGIN + v31("get", AWKWARD) + END, "", (("get", AWKWARD),)),
    Case("V3.1, the section unclosed", BEGIN + v31("get", "{}"), "", (("get", "{}"),)),
    Case("V3.1, the call unclosed", BEGIN + f"{CALL}get{SEP}{{}}", "", (("get", "{}"),)),
    Case("V3.1, cut inside the arguments", BEGIN + f'{CALL}get{SEP}{{"a": [', "", (("get", '{"a": ['),), whole=False),
    Case("V3.1, a list for arguments", BEGIN + v31("get", "[]") + END, BEGIN + v31("get", "[]") + END),
    Case("no call in the section", BEGIN + "sorry" + END, BEGIN + "sorry" + END),
    Case("an empty section", BEGIN + END, BEGIN + END),
    Case("the beginning of a marker", "a <｜tool▁call", "a <｜tool▁call"),
    Case("plain text", "2 < 3 ｜ so", "2 < 3 ｜ so"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_an_output_means_the_same_whole_and_in_pieces(case: Case) -> None:
    """Content and calls are those of the table, wherever the text is cut."""
    check(DEEPSEEK_V3, case)
    check_every_beginning(DEEPSEEK_V3, case)
    check_hidden(DEEPSEEK_V3, case)


@settings(max_examples=200, deadline=None)
@given(text=parts_of(DEEPSEEK_V3, CASES), data=st.data())
def test_any_text_means_the_same_in_any_pieces(text: str, data: st.DataObject) -> None:
    """Whatever a model writes, the pieces do not matter, and no text is lost where there is no call."""
    check_pieces(DEEPSEEK_V3, text, cut(text, data))


def test_the_written_form_is_read_back() -> None:
    """What a model is made to write is the call that was meant."""
    assert read(DEEPSEEK_V3, [DEEPSEEK_V3.write("get", {"a": "é"})]) == ("", [("get", '{"a": "é"}')], True)


@pytest.mark.parametrize("family", [DEEPSEEK_V3, DEEPSEEK_V31], ids=lambda family: family.name)
def test_each_version_writes_its_own_form(family: ToolFamily) -> None:
    """Both read both forms; what they are made to write is their own."""
    form = v3 if family is DEEPSEEK_V3 else v31
    assert family.write("get", {"a": 1}) == BEGIN + form("get", '{"a": 1}') + END
    assert all(read(family, [case.output]) == case.expected for case in CASES)
