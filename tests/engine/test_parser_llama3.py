"""Llama 3.x: a JSON object with name and parameters is the answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parser_play import Case, check, check_every_beginning, check_hidden, check_pieces, cut, parts_of, read

from engine.text.parsers.llama3 import LLAMA3_JSON

TAG = "<|python_tag|>"


def call(name: str, arguments: str) -> str:
    """A call as the models write it."""
    return f'{{"name": "{name}", "parameters": {arguments}}}'


CASES = [
    Case("one call", call("get_time", '{"zone":  "UTC"}'), "", (("get_time", '{"zone":  "UTC"}'),)),
    Case("white space around it", "\n\n" + call("get_time", "{}") + " \n", "", (("get_time", "{}"),)),
    Case("after the python tag", TAG + call("get_time", '{"a": 1}'), "", (("get_time", '{"a": 1}'),)),
    Case("the tag after text", "I'll look.\n" + TAG + call("get", "{}"), "I'll look.", (("get", "{}"),)),
    Case(
        "two calls with a semicolon",
        call("get", '{"a": 1}') + "; " + call("get_time", "{}"),
        "",
        (("get", '{"a": 1}'), ("get_time", "{}")),
    ),
    Case(
        "two calls on lines of their own",
        call("get", "{}") + "\n" + call("get", "{}"),
        "",
        (("get", "{}"), ("get", "{}")),
    ),
    Case("arguments for parameters", '{"name": "get", "arguments": {"b": [1]}}', "", (("get", '{"b": [1]}'),)),
    Case("parameters first", '{"parameters": {"b": 1.0}, "name": "get"}', "", (("get", '{"b": 1.0}'),)),
    Case(
        "with its type", '{"type": "function", "name": "get", "parameters": {"b": null}}', "", (("get", '{"b": null}'),)
    ),
    Case("no parameters", '{"name": "get_time"}', "", (("get_time", "{}"),)),
    Case("nested braces", call("get", '{"a": {"b": {"c": {}}}}'), "", (("get", '{"a": {"b": {"c": {}}}}'),)),
    Case(
        "braces and the tag in strings",
        call("get", '{"a": "}; {<|python_tag|>\\"", "b": "\\\\"}'),
        "",
        (("get", '{"a": "}; {<|python_tag|>\\"", "b": "\\\\"}'),),
    ),
    Case("escapes stay", call("查天气", '{"城市": "\\u5317"}'), "", (("查天气", '{"城市": "\\u5317"}'),)),
    Case("a brace too many", call("get", "{}") + "}", "", (("get", "{}"),)),
    Case("text after", call("get", "{}") + "\n\nDone.", "\n\nDone.", (("get", "{}"),)),
    Case("a semicolon and text after", call("get", "{}") + "; then", "; then", (("get", "{}"),)),
    Case(
        "cut inside the parameters", '{"name": "get", "parameters": {"a": "x', "", (("get", '{"a": "x'),), whole=False
    ),
    Case("cut before them", '{"name": "get", "para', '{"name": "get", "para'),
    Case("some other JSON", '{"city": "Paris", "name": "get"}', '{"city": "Paris", "name": "get"}'),
    Case("an unknown function", call("rm_rf", "{}"), call("rm_rf", "{}")),
    Case("a call in the middle of text is text", "Use " + call("get", "{}"), "Use " + call("get", "{}")),
    Case("a built-in tool", TAG + 'brave_search.call(query="x")', TAG + 'brave_search.call(query="x")'),
    Case("plain text", "Hello {there}", "Hello {there}"),
    Case("white space alone", " \n", " \n"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_an_output_means_the_same_whole_and_in_pieces(case: Case) -> None:
    """Content and calls are those of the table, wherever the text is cut."""
    check(LLAMA3_JSON, case)
    check_every_beginning(LLAMA3_JSON, case)
    check_hidden(LLAMA3_JSON, case)


@settings(max_examples=200, deadline=None)
@given(text=parts_of(LLAMA3_JSON, CASES), data=st.data())
def test_any_text_means_the_same_in_any_pieces(text: str, data: st.DataObject) -> None:
    """Whatever a model writes, the pieces do not matter, and no text is lost where there is no call."""
    check_pieces(LLAMA3_JSON, text, cut(text, data))


def test_the_written_form_is_read_back() -> None:
    """What a model is made to write is the call that was meant."""
    assert read(LLAMA3_JSON, [LLAMA3_JSON.write("get", {"a": "é"})]) == ("", [("get", '{"a": "é"}')], True)
