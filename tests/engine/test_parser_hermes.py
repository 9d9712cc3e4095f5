"""Hermes, Qwen2.5 and Qwen3: a JSON object between two tags."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parser_play import Case, check, check_every_beginning, check_hidden, check_pieces, cut, parts_of, read

from engine.text.parsers.hermes import HERMES


def call(name: str, arguments: str) -> str:
    """A call as the chat templates write it."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


AWKWARD = '{"a": "}\\"</tool_call>{", "b": [{"c": "\\\\"}], "d": {"e": {}}}'

CASES = [
    Case("one call, spacing kept", call("get_time", '{"zone":  "UTC"}'), "", (("get_time", '{"zone":  "UTC"}'),)),
    Case(
        "text before two calls, white space around them dropped",
        "Let me look.\n\n" + call("get_time", "{}") + "\n" + call("查天气", '{"city": "北京"}') + "\n",
        "Let me look.",
        (("get_time", "{}"), ("查天气", '{"city": "北京"}')),
    ),
    Case(
        "text between and after calls",
        call("get", "{}") + "\nand\n" + call("get", '{"b":2}') + "\n\nDone.\n",
        "\nand\n\nDone.",
        (("get", "{}"), ("get", '{"b":2}')),
    ),
    Case("braces, quotes and the end tag in strings", call("get_time", AWKWARD), "", (("get_time", AWKWARD),)),
    Case(
        "numbers and escapes as they were written",
        call("get", '{"n": 1e400, "m": 1.50, "i": 12345678901234567890, "u": "\\u5317\\ud83d\\ude00"}'),
        "",
        (("get", '{"n": 1e400, "m": 1.50, "i": 12345678901234567890, "u": "\\u5317\\ud83d\\ude00"}'),),
    ),
    Case("no arguments at all", '<tool_call>{"name": "get_time"}</tool_call>', "", (("get_time", "{}"),)),
    Case("null arguments", '<tool_call>{"name":"get_time","arguments":null}</tool_call>', "", (("get_time", "{}"),)),
    Case(
        "arguments before the name",
        '<tool_call>{"arguments": {"a": 1.0}, "name": "get_time"}</tool_call>',
        "",
        (("get_time", '{"a": 1.0}'),),
    ),
    Case(
        "arguments as JSON text in a string",
        '<tool_call>{"name": "get_time", "arguments": "{\\"a\\": 1}"}</tool_call>',
        "",
        (("get_time", '{"a": 1}'),),
    ),
    Case(
        "further members",
        '<tool_call>{"id": 7, "name": "get", "arguments": {"a": 1}, "type": "function"}</tool_call>',
        "",
        (("get", '{"a": 1}'),),
    ),
    Case("parameters for arguments", '<tool_call>{"name": "get", "parameters": {}}</tool_call>', "", (("get", "{}"),)),
    Case(
        "a name in escapes", '<tool_call>{"name": "\\u67e5天气", "arguments": {}}</tool_call>', "", (("查天气", "{}"),)
    ),
    Case("the last brace forgotten", '<tool_call>{"name": "get", "arguments": {}\n</tool_call>', "", (("get", "{}"),)),
    Case("a brace too many", '<tool_call>{"name": "get", "arguments": {}}}\n</tool_call>!', "!", (("get", "{}"),)),
    Case("the end tag forgotten", call("get", "{}")[: -len("</tool_call>")] + "\nDone.", "\n\nDone.", (("get", "{}"),)),
    Case(
        "cut inside the arguments",
        '<tool_call>{"name": "get", "arguments": {"zo',
        "",
        (("get", '{"zo'),),
        whole=False,
    ),
    Case("cut before the arguments", 'Hm <tool_call>{"name": "get_ti', 'Hm <tool_call>{"name": "get_ti'),
    Case("a function that nobody offered", call("rm_rf", "{}"), call("rm_rf", "{}")),
    Case("a name that only begins like one", call("get_tim", "{}"), call("get_tim", "{}")),
    Case("no JSON", "<tool_call>get_time()</tool_call> ", "<tool_call>get_time()</tool_call> "),
    Case("a list", "<tool_call>[1]</tool_call>", "<tool_call>[1]</tool_call>"),
    Case(
        "arguments that are a number",
        '<tool_call>{"name": "get", "arguments": 1}',
        '<tool_call>{"name": "get", "arguments": 1}',
    ),
    Case(
        "half a surrogate pair in a string of arguments",
        '<tool_call>{"name": "get", "arguments": "{\\"a\\": \\"\\\\ud83d\\"}\\ud83d"}</tool_call>',
        '<tool_call>{"name": "get", "arguments": "{\\"a\\": \\"\\\\ud83d\\"}\\ud83d"}</tool_call>',
    ),
    Case(
        "a tag inside a failed call",
        "<tool_call><tool_call>\n" + call("get", "{}")[11:],
        "<tool_call>",
        (("get", "{}"),),
    ),
    Case("what only looks like a tag", "a < b <tool and <tool_calx \n", "a < b <tool and <tool_calx \n"),
    Case("white space alone", " \n ", " \n "),
    Case("an end tag alone", "</tool_call>", "</tool_call>"),
    Case(
        "garbage after the arguments",
        '<tool_call>{"name": "get", "arguments": {}, oops}</tool_call>',
        ", oops}</tool_call>",
        (("get", "{}"),),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_an_output_means_the_same_whole_and_in_pieces(case: Case) -> None:
    """Content and calls are those of the table, wherever the text is cut."""
    check(HERMES, case)
    check_every_beginning(HERMES, case)
    check_hidden(HERMES, case)


@settings(max_examples=200, deadline=None)
@given(text=parts_of(HERMES, CASES), data=st.data())
def test_any_text_means_the_same_in_any_pieces(text: str, data: st.DataObject) -> None:
    """Whatever a model writes, the pieces do not matter, and no text is lost where there is no call."""
    check_pieces(HERMES, text, cut(text, data))


def test_the_written_form_is_read_back() -> None:
    """What a model is made to write is the call that was meant."""
    assert read(HERMES, [HERMES.write("get", {"a": "é"})]) == ("", [("get", '{"a": "é"}')], True)


def test_an_answer_has_at_most_1024_calls() -> None:
    """What looks like one more is content: the contract's indices end at 1023."""
    content, calls, _ = read(HERMES, [call("get", "{}") * 1025])
    assert (content, len(calls)) == (call("get", "{}"), 1024)
