"""GLM-4: a line with the name, then the JSON object of the arguments."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parser_play import Case, check, check_every_beginning, check_hidden, check_pieces, cut, parts_of, read

from engine.text.parsers.glm4 import GLM4

NEXT = "<|assistant|>"

CASES = [
    Case("one call", 'get_time\n{"zone":  "UTC"}', "", (("get_time", '{"zone":  "UTC"}'),)),
    Case("white space around it", '\nget_time \n\n{"a": 1}\n', "", (("get_time", '{"a": 1}'),)),
    Case("no arguments", "get_time\n{}", "", (("get_time", "{}"),)),
    Case("a name that another begins with", "get\n{}", "", (("get", "{}"),)),
    Case(
        "a Chinese name, escapes stay",
        '查天气\n{"城市": "\\u5317\\u4eac"}',
        "",
        (("查天气", '{"城市": "\\u5317\\u4eac"}'),),
    ),
    Case("nested braces", 'get\n{"a": {"b": [{}]}}', "", (("get", '{"a": {"b": [{}]}}'),)),
    Case(
        "the token, braces and quotes in strings",
        'get\n{"a": "<|assistant|>get\\n{}\\"", "b": "\\\\"}',
        "",
        (("get", '{"a": "<|assistant|>get\\n{}\\"", "b": "\\\\"}'),),
    ),
    Case("two calls", 'get\n{"a": 1}' + NEXT + "get_time\n{}", "", (("get", '{"a": 1}'), ("get_time", "{}"))),
    Case("two calls on lines", "get\n{}\nget_time\n{}", "", (("get", "{}"), ("get_time", "{}"))),
    Case("text, then a call", "I'll look.\n" + NEXT + "get\n{}", "I'll look.", (("get", "{}"),)),
    Case("text after", "get\n{}\n\nDone.", "\n\nDone.", (("get", "{}"),)),
    Case("numbers as they were written", 'get\n{"n": 1.50, "e": 1E+2}', "", (("get", '{"n": 1.50, "e": 1E+2}'),)),
    Case("cut inside the arguments", 'get\n{"a": "x', "", (("get", '{"a": "x'),), whole=False),
    Case("cut after the name", "get_time\n", "get_time\n"),
    Case("the name as an answer", "get_time", "get_time"),
    Case("a sentence that begins with a name", "get_time tells the time.", "get_time tells the time."),
    Case("a list for arguments", "get_time\n[1]", "get_time\n[1]"),
    Case("an unknown function", "rm_rf\n{}", "rm_rf\n{}"),
    Case("a name in the middle of text", "Call\nget_time\n{}", "Call\nget_time\n{}"),
    Case("plain text with its first line break", "\nHello", "\nHello"),
    Case("the token before plain text", "Hi" + NEXT + "there", "Hi" + NEXT + "there"),
    Case("white space alone", "\n ", "\n "),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_an_output_means_the_same_whole_and_in_pieces(case: Case) -> None:
    """Content and calls are those of the table, wherever the text is cut."""
    check(GLM4, case)
    check_every_beginning(GLM4, case)
    check_hidden(GLM4, case)


@settings(max_examples=200, deadline=None)
@given(text=parts_of(GLM4, CASES), data=st.data())
def test_any_text_means_the_same_in_any_pieces(text: str, data: st.DataObject) -> None:
    """Whatever a model writes, the pieces do not matter, and no text is lost where there is no call."""
    check_pieces(GLM4, text, cut(text, data))


def test_the_written_form_is_read_back() -> None:
    """What a model is made to write is the call that was meant."""
    assert read(GLM4, [GLM4.write("get", {"a": "é"})]) == ("", [("get", '{"a": "é"}')], True)
