"""Messages and tools as templates read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from generated.models import ChatCompletionRequest
from handlers.errors import Problem
from handlers.messages import parse_arguments, plain_messages, plain_tools, tools_in_use, with_tools_told

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


@pytest.mark.parametrize("content", [None, "", []])
def test_empty_content_of_a_caller_is_an_empty_text(content: Any) -> None:
    """An assistant that only calls has "" as its content, whatever was sent."""
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


def test_a_media_part_is_refused_by_its_path() -> None:
    """The text model names the part that it cannot take."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"text": "x"}, {"type": "image_url", "image_url": {"url": "a.png"}}]},
    ]

    with pytest.raises(Problem) as caught:
        plain_messages(request(messages).messages, "")
    assert (caught.value.code, caught.value.param) == ("unsupported_media", "messages[1].content[1].image_url")


def called(arguments: str) -> list[dict[str, Any]]:
    """A conversation with one call of these arguments."""
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return plain_messages(request([{"role": "assistant", "tool_calls": [call]}]).messages, "")


def arguments_of(messages: list[dict[str, Any]]) -> Any:
    """The arguments of the only call."""
    return messages[0]["tool_calls"][0]["function"]["arguments"]


def test_arguments_become_objects() -> None:
    """JSON text is parsed for the template, and the original stays text."""
    messages = called('{"a": 1}')

    assert arguments_of(parse_arguments(messages, "")) == {"a": 1}
    assert arguments_of(messages) == '{"a": 1}'


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"a": NaN}', r'{"a": "\ud800"}'])
def test_a_template_that_needs_an_object_refuses_other_arguments(text: str) -> None:
    """The sentence names the arguments by their path."""
    with pytest.raises(Problem, match="JSON object") as caught:
        parse_arguments(called(text), "{{ call.arguments | tojson }}")
    assert caught.value.param == "messages[0].tool_calls[0].function.arguments"


@pytest.mark.parametrize(
    "template", ["{{ call.arguments }}", "{% if call.arguments is string %}{{ call.arguments | tojson }}{% endif %}"]
)
def test_other_templates_get_such_arguments_as_text(template: str) -> None:
    """What a template can show as it is, is shown as it is."""
    assert arguments_of(parse_arguments(called("not json"), template)) == "not json"


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


def test_tools_are_told_in_the_system_message_where_the_template_has_no_place() -> None:
    """An existing system message comes first, a new one is made otherwise."""
    tools = [{"type": "function", "function": {"name": "get_time"}}]
    user = {"role": "user", "content": "x"}

    made = with_tools_told([user], tools)
    kept = with_tools_told([{"role": "system", "content": "Be brief."}, user], tools)

    assert [message["role"] for message in made] == ["system", "user"]
    assert '"name": "get_time"' in made[0]["content"]
    assert [message["role"] for message in kept] == ["system", "user"]
    assert kept[0]["content"].startswith("Be brief.\n\n")
