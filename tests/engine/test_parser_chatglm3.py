"""ChatGLM3: a line with the name, then a Python call with the arguments."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parser_play import Case, check, check_every_beginning, check_hidden, check_pieces, cut, parts_of, read

from engine.text.parsers.chatglm3 import CHATGLM3


def call(name: str, arguments: str) -> str:
    """A call as the model writes it."""
    return f"{name}\n ```python\ntool_call({arguments})\n```"


CASES = [
    Case("one call", call("get_time", "zone='UTC'"), "", (("get_time", '{"zone": "UTC"}'),)),
    Case("no arguments", call("get_time", ""), "", (("get_time", "{}"),)),
    Case(
        "plain values of every kind",
        call("get", "a=1, b=-1.5, c=True, d=None, e=[1, 'x'], f={'g': (2,)}"),
        "",
        (("get", '{"a": 1, "b": -1.5, "c": true, "d": null, "e": [1, "x"], "f": {"g": [2]}}'),),
    ),
    Case(
        "JSON's spelling of values",
        call("get", "a=true, b=[null, false]"),
        "",
        (("get", '{"a": true, "b": [null, false]}'),),
    ),
    Case("over several lines", call("get", "\n    a=1,\n    b=2,\n"), "", (("get", '{"a": 1, "b": 2}'),)),
    Case(
        "parentheses, quotes and fences in strings",
        call("get", "a=')```\\'', b=\"(\\\\\""),
        "",
        (("get", '{"a": ")```\'", "b": "(\\\\"}'),),
    ),
    Case("escapes are read", call("查天气", "城市='\\u5317京'"), "", (("查天气", '{"城市": "北京"}'),)),
    Case("names that are no identifiers", call("get", "**{'a-b': 1}"), "", (("get", '{"a-b": 1}'),)),
    Case("without a fence", "get_time\ntool_call(a=1)", "", (("get_time", '{"a": 1}'),)),
    Case("the fence unclosed", call("get", "a=1")[:-4], "", (("get", '{"a": 1}'),)),
    Case("white space around it", "\n" + call("get", "") + "\n", "", (("get", "{}"),)),
    Case(
        "two calls",
        call("get", "") + "<|assistant|>" + call("get_time", "a=1"),
        "",
        (("get", "{}"), ("get_time", '{"a": 1}')),
    ),
    Case("text before", "Let me look.<|assistant|>" + call("get", ""), "Let me look.", (("get", "{}"),)),
    Case("text after", call("get", "") + "\nDone.", "\nDone.", (("get", "{}"),)),
    Case("cut inside the arguments", "get\n ```python\ntool_call(a='x", "get\n ```python\ntool_call(a='x"),
    Case("arguments without names", call("get", "1, 2"), call("get", "1, 2")),
    Case("an expression is not run", call("get", "a=print(1)"), call("get", "a=print(1)")),
    Case("a number that JSON cannot write", call("get", "a=1e999"), call("get", "a=1e999")),
    Case("half a surrogate pair", call("get", "a='\\ud83d'"), call("get", "a='\\ud83d'")),
    Case("no Python", call("get", "a=, b"), call("get", "a=, b")),
    Case("deep nesting", call("get", "a=" + "[" * 300 + "]" * 300), call("get", "a=" + "[" * 300 + "]" * 300)),
    Case("an unknown function", call("rm_rf", ""), call("rm_rf", "")),
    Case("plain text", "\n Hello", "\n Hello"),
    Case("a name and text", "get_time\nis what you want", "get_time\nis what you want"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_an_output_means_the_same_whole_and_in_pieces(case: Case) -> None:
    """Content and calls are those of the table, wherever the text is cut."""
    check(CHATGLM3, case)
    check_every_beginning(CHATGLM3, case)
    check_hidden(CHATGLM3, case)


@settings(max_examples=200, deadline=None)
@given(text=parts_of(CHATGLM3, CASES), data=st.data())
def test_any_text_means_the_same_in_any_pieces(text: str, data: st.DataObject) -> None:
    """Whatever a model writes, the pieces do not matter, and no text is lost where there is no call."""
    check_pieces(CHATGLM3, text, cut(text, data))


def test_the_written_form_is_read_back() -> None:
    """What a model is made to write is the call that was meant."""
    assert read(CHATGLM3, [CHATGLM3.write("get", {"a": "é"})]) == ("", [("get", '{"a": "é"}')], True)
