"""Tool calls of the Hermes form, found in whole and in streamed text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from engine.text.tools import CallPiece, ToolCallParser

NAMES = ("get_time", "查天气")


def read(pieces: list[str], names: tuple[str, ...] = NAMES) -> tuple[str, list[tuple[str, str]], bool]:
    """Content, (name, arguments) of each call, and whether the last one was cut short."""
    parser = ToolCallParser(names)
    found = [piece for text in pieces for piece in parser.feed(text)] + parser.finish()
    content = ""
    calls: dict[int, list[str]] = {}
    for piece in found:
        if isinstance(piece, CallPiece):
            if piece.name is not None:
                calls[piece.index] = [piece.name, ""]
            calls[piece.index][1] += piece.arguments
        else:
            content += piece
    return content, [(name, arguments) for name, arguments in calls.values()], parser.cut_short


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def test_one_call_has_no_content() -> None:
    """A text that is one call gives that call, its arguments as they were written, and empty content."""
    assert read([call("get_time", '{"zone":  "UTC"}')]) == ("", [("get_time", '{"zone":  "UTC"}')], False)


def test_text_before_two_calls_is_content_without_the_space_between() -> None:
    """White space around calls belongs to the form, the sentence before them to the content."""
    text = "Let me look.\n\n" + call("get_time", "{}") + "\n" + call("查天气", '{"city": "北京"}') + "\n"
    expected = ("Let me look.", [("get_time", "{}"), ("查天气", '{"city": "北京"}')], False)
    assert read([text]) == expected


def test_arguments_may_hold_braces_quotes_and_the_end_tag() -> None:
    """Only the object's own closing brace ends the arguments."""
    arguments = json.dumps({"a": '}"</tool_call>{', "b": [{"c": "\\"}]})
    assert read([call("get_time", arguments)]) == ("", [("get_time", arguments)], False)


def test_an_unknown_name_stays_content() -> None:
    """A call of a function that nobody offered is only text."""
    text = call("rm_rf", "{}")
    assert read([text]) == (text, [], False)


def test_malformed_json_stays_content() -> None:
    """What is not one JSON object between the tags is only text."""
    text = "<tool_call>get_time()</tool_call>"
    assert read([text]) == (text, [], False)


def test_arguments_before_the_name_are_a_call() -> None:
    """The members of the object may come in any order, and arguments may be JSON text in a string."""
    text = '<tool_call>{"arguments": "{\\"a\\": 1}", "name": "get_time"}</tool_call>'
    assert read([text]) == ("", [("get_time", '{"a": 1}')], False)


def test_a_call_cut_in_its_arguments_is_reported() -> None:
    """The arguments so far are passed on, and cut_short tells that they are not whole."""
    assert read(['<tool_call>{"name": "get_time", "arguments": {"zo']) == ("", [("get_time", '{"zo')], True)


def test_a_call_cut_before_its_arguments_is_content() -> None:
    """Without a name and arguments there is no call yet."""
    assert read(['Hm <tool_call>{"name": "get_ti']) == ('Hm <tool_call>{"name": "get_ti', [], False)


def test_ordinary_text_is_untouched() -> None:
    """Text that only looks like the beginning of a tag comes out whole."""
    assert read(["a < b <tool and <tool_cal", "x \n"]) == ("a < b <tool and <tool_calx \n", [], False)


@given(
    st.lists(
        st.sampled_from(
            ["Hi", " ", "\n", "<", "<tool_call>", "</tool_call>", "}", '{"zone": "U}T"}', call("get_time", '{"a": 1}')]
        ),
        max_size=8,
    ),
    st.data(),
)
def test_pieces_give_what_the_whole_text_gives(parts: list[str], data: st.DataObject) -> None:
    """However a text is cut, content, calls and the cut-short mark are the same."""
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read(pieces) == read([text])
