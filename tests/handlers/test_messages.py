"""Messages and tools as templates read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from generated.models import ChatCompletionRequest
from handlers.messages import plain_messages, plain_tools, tools_in_use

TOOL = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}, "unknown": 1}}


def request(messages: list[dict[str, Any]], **members: Any) -> ChatCompletionRequest:
    """A validated chat request."""
    return ChatCompletionRequest.model_validate_json(json.dumps({"model": "m", "messages": messages, **members}))


def plain(message: dict[str, Any], template: str = "") -> dict[str, Any]:
    """One message as a template reads it."""
    return plain_messages(request([message]).messages, template)[0]


def test_text_parts_are_joined_without_anything_between() -> None:
    """A list of text parts is the text that it spells, typed or not."""
    content = [{"type": "text", "text": "one "}, {"text": "two"}]

    assert plain({"role": "user", "content": content}) == {"role": "user", "content": "one two"}


@pytest.mark.parametrize("content", ["", []])
def test_empty_content_of_a_caller_is_an_empty_text(content: Any) -> None:
    """No parts at all are an empty text."""
    call = {"id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}

    assert plain({"role": "assistant", "content": content, "tool_calls": [call]})["content"] == ""


@pytest.mark.parametrize(
    ("template", "role"), [("{{ m.role }}", "system"), ("{% if m.role == 'developer' %}", "developer")]
)
def test_developer_is_system_where_the_template_has_none(template: str, role: str) -> None:
    """The role stays where the template names it."""
    assert plain({"role": "developer", "content": "Be brief."}, template)["role"] == role


def test_what_the_contract_knows_reaches_the_template() -> None:
    """name, reasoning_content, refusal and tool_call_id do; unknown members do not."""
    sent = {"role": "assistant", "content": "x", "reasoning_content": "r", "name": "n", "refusal": "f", "mood": 1}

    assert plain(sent) == {"role": "assistant", "content": "x", "reasoning_content": "r", "name": "n", "refusal": "f"}


def test_media_are_named_between_the_texts() -> None:
    """Each part stands for itself then; where a medium comes from is no template's business."""
    image = {"type": "image_url", "image_url": {"url": "http://host/a.png"}}
    content = [{"text": "one "}, image, {"text": "two"}, {"input_audio": {"data": "AAAA", "format": "wav"}}]

    assert plain({"role": "user", "content": content})["content"] == [
        {"type": "text", "text": "one "},
        {"type": "image"},
        {"type": "text", "text": "two"},
        {"type": "audio"},
    ]


def called(arguments: str) -> list[dict[str, Any]]:
    """A conversation with one call of these arguments."""
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return plain_messages(request([{"role": "assistant", "tool_calls": [call]}]).messages, "")


def function_of(messages: list[dict[str, Any]]) -> Any:
    """The function of the only call."""
    return messages[0]["tool_calls"][0]["function"]


@pytest.mark.parametrize(("text", "value"), [('{"a": 1}', {"a": 1}), ("", {}), (" \n", {})])
def test_arguments_are_there_as_text_and_as_an_object(text: str, value: dict[str, Any]) -> None:
    """Templates differ in which they want; no text at all means no arguments."""
    function = function_of(called(text))

    assert (function["arguments"], function["object"]) == (text, value)


@pytest.mark.parametrize("text", ["{", "[1]", "null", '{"a": NaN}', r'{"a": "\ud800"}'])
def test_arguments_that_spell_no_object_are_text_alone(text: str) -> None:
    """What is not JSON, and JSON of other kinds, is no object."""
    assert function_of(called(text))["object"] is None


def test_null_content_stays_null_beside_calls_only() -> None:
    """Some templates tell null from empty content in a message that calls; elsewhere it is empty."""
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    answered = {"role": "tool", "content": None, "tool_call_id": "call_1"}
    messages = plain_messages(request([{"role": "assistant", "tool_calls": [call]}, answered]).messages, "")

    assert [message["content"] for message in messages] == [None, ""]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, False),
        ({"tools": []}, False),
        ({"tools": [TOOL]}, True),
        ({"tools": [TOOL], "tool_choice": "auto"}, True),
        ({"tools": [TOOL], "tool_choice": "none"}, False),
    ],
)
def test_tools_are_in_use_unless_the_choice_is_none(members: dict[str, Any], expected: bool) -> None:
    """No tools, or none of them to be called, is no use."""
    assert tools_in_use(request([{"role": "user", "content": "x"}], **members)) == expected


def test_tools_keep_what_was_set() -> None:
    """Absent members stay absent, so that templates print what the client wrote."""
    tools = request([{"role": "user", "content": "x"}], tools=[TOOL]).tools

    assert plain_tools(tools) == [
        {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}
    ]
