"""Mistral: [TOOL_CALLS] and a list of calls, or a name and its arguments."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parser_play import Case, check, check_every_beginning, check_hidden, check_pieces, cut, parts_of, read

from engine.text.parsers.mistral import MISTRAL

TOKEN = "[TOOL_CALLS]"


def call(name: str, arguments: str) -> str:
    """An entry of the list."""
    return f'{{"name": "{name}", "arguments": {arguments}}}'


AWKWARD = '{"a": "[TOOL_CALLS][{\\"}]", "b": "\\u00e9\\\\"}'

CASES = [
    Case("a list of one", f"{TOKEN}[{call('get', '{}')}]", "", (("get", "{}"),)),
    Case("spacing kept", f"{TOKEN} [ {call('get', '{ }')} ] ", "", (("get", "{ }"),)),
    Case(
        "a list of two",
        f"{TOKEN}[{call('get', '{}')}, {call('查天气', '{}')}]",
        "",
        (("get", "{}"), ("查天气", "{}")),
    ),
    Case("text before", f"Let me see.{TOKEN}[{call('get', '{}')}]", "Let me see.", (("get", "{}"),)),
    Case("text after", f"{TOKEN}[{call('get', '{}')}]\nDone.", "\nDone.", (("get", "{}"),)),
    Case(
        "with ids",
        f'{TOKEN}[{{"name": "get", "arguments": {{"a": 1.0}}, "id": "abc123xyz"}}]',
        "",
        (("get", '{"a": 1.0}'),),
    ),
    Case("arguments first", f'{TOKEN}[{{"arguments": {{"a": "]"}}, "name": "get"}}]', "", (("get", '{"a": "]"}'),)),
    Case("no arguments", f'{TOKEN}[{{"name": "get"}}]', "", (("get", "{}"),)),
    Case("arguments as text", f'{TOKEN}[{{"name": "get", "arguments": "{{}}"}}]', "", (("get", "{}"),)),
    Case("the list unclosed", f"{TOKEN}[{call('get', '{}')}", "", (("get", "{}"),)),
    Case("the newer form", TOKEN + 'get_time{"zone": "UTC"}', "", (("get_time", '{"zone": "UTC"}'),)),
    Case("with the arguments' token", TOKEN + 'get[ARGS]{"a": {"b": {}}}', "", (("get", '{"a": {"b": {}}}'),)),
    Case("with an id", TOKEN + "get[CALL_ID]VvvODy9mT[ARGS]{}", "", (("get", "{}"),)),
    Case(
        "two of the newer form",
        TOKEN + 'get[ARGS]{"a": 1}' + TOKEN + "get_time[ARGS]{}",
        "",
        (("get", '{"a": 1}'), ("get_time", "{}")),
    ),
    Case(
        "markers, braces and escapes in strings",
        f"{TOKEN}[{call('get', AWKWARD)}]",
        "",
        (("get", AWKWARD),),
    ),
    Case("cut inside the arguments", TOKEN + 'get[ARGS]{"a": [1, {', "", (("get", '{"a": [1, {'),), whole=False),
    Case(
        "cut inside the second call",
        f'{TOKEN}[{call("get", "{}")}, {{"name": "get_ti',
        ', {"name": "get_ti',
        (("get", "{}"),),
    ),
    Case("cut before the arguments", f'{TOKEN}[{{"name": "get", "arg', f'{TOKEN}[{{"name": "get", "arg'),
    Case("an unknown function", f"{TOKEN}[{call('rm_rf', '{}')}]", f"{TOKEN}[{call('rm_rf', '{}')}]"),
    Case(
        "an unknown one after a known one",
        f"{TOKEN}[{call('get', '{}')}, {call('rm_rf', '{}')}]",
        f", {call('rm_rf', '{}')}]",
        (("get", "{}"),),
    ),
    Case("no call behind the token", TOKEN + " sorry", TOKEN + " sorry"),
    Case("an empty list", TOKEN + "[]", TOKEN + "[]"),
    Case("a list without the token", f"[{call('get', '{}')}]", f"[{call('get', '{}')}]"),
    Case("the beginning of a token", "see [TOOL", "see [TOOL"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_an_output_means_the_same_whole_and_in_pieces(case: Case) -> None:
    """Content and calls are those of the table, wherever the text is cut."""
    check(MISTRAL, case)
    check_every_beginning(MISTRAL, case)
    check_hidden(MISTRAL, case)


@settings(max_examples=200, deadline=None)
@given(text=parts_of(MISTRAL, CASES), data=st.data())
def test_any_text_means_the_same_in_any_pieces(text: str, data: st.DataObject) -> None:
    """Whatever a model writes, the pieces do not matter, and no text is lost where there is no call."""
    check_pieces(MISTRAL, text, cut(text, data))


def test_the_written_form_is_read_back() -> None:
    """What a model is made to write is the call that was meant."""
    assert read(MISTRAL, [MISTRAL.write("get", {"a": "é"})]) == ("", [("get", '{"a": "é"}')], True)
