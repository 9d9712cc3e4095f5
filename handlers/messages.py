"""Chat messages and tools as a chat template reads them: plain dicts, text joined, roles mapped."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import jiter

from generated.models import ChatCompletionRequest, ContentPart, Message, Tool
from handlers.errors import refused

KNOWN_ROLES: Final = frozenset({"system", "user", "assistant", "tool", "developer"})
_MEDIA: Final = ("image_url", "video_url", "audio_url", "input_audio")
_READS_OBJECT = re.compile(r"arguments\s*(\|\s*(tojson|items|dictsort)|\.items\(\))")
_TAKES_STRING = re.compile(r"arguments\s+is\s+(not\s+)?(string|mapping)")

HERMES_INTRODUCTION = """\
You may call functions to help with the user's request. These functions exist, each as one JSON object:
{tools}

To call one, write exactly this, once for each call:
<tool_call>
{{"name": <the function's name>, "arguments": <an object with its arguments>}}
</tool_call>"""
"""Tells a model about its tools where its own chat template has no place for them."""


def tools_in_use(body: ChatCompletionRequest) -> bool:
    """Whether the model may call: there are tools, and tool_choice is not none."""
    return bool(body.tools) and body.tool_choice != "none"


def plain_tools(tools: Sequence[Tool] | None) -> list[dict[str, Any]] | None:
    """Tools as templates expect them; members that the contract does not know stay out."""
    if not tools:
        return None
    plain = []
    for tool in tools:
        function: dict[str, Any] = {"name": tool.function.name}
        if tool.function.description is not None:
            function["description"] = tool.function.description
        if tool.function.parameters is not None:
            function["parameters"] = tool.function.parameters
        if tool.function.strict is not None:
            function["strict"] = tool.function.strict
        plain.append({"type": "function", "function": function})
    return plain


def plain_messages(messages: Sequence[Message], template: str) -> list[dict[str, Any]]:
    """Messages as a text model's template reads them.

    Text parts are joined as they are. A developer speaks as system where ``template`` does not know developers.

    Raises:
        Problem: 422 unsupported_media for a media part, naming it.
    """
    developer = "developer" if "developer" in template else "system"
    return [_plain_message(message, index, developer) for index, message in enumerate(messages)]


def parse_arguments(messages: list[dict[str, Any]], template: str) -> list[dict[str, Any]]:
    """A copy of ``messages`` whose tool calls carry their arguments as objects.

    Raises:
        Problem: 422 where arguments are no JSON object although ``template`` cannot take them as text.
    """
    needs_object = bool(_READS_OBJECT.search(template)) and not _TAKES_STRING.search(template)
    copies = []
    for index, message in enumerate(messages):
        copy = dict(message)
        if "tool_calls" in message:
            copy["tool_calls"] = [
                _parsed_call(call, f"messages[{index}].tool_calls[{place}].function.arguments", needs_object)
                for place, call in enumerate(message["tool_calls"])
            ]
        copies.append(copy)
    return copies


def with_tools_told(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``messages`` with a system message that introduces ``tools``, for templates without a place for them."""
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    told = HERMES_INTRODUCTION.format(tools=listed)
    if messages[0]["role"] == "system":
        first = {**messages[0], "content": f"{messages[0]['content']}\n\n{told}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": told}, *messages]


def _plain_message(message: Message, index: int, developer: str) -> dict[str, Any]:
    role = developer if message.role == "developer" else message.role
    plain: dict[str, Any] = {"role": role, "content": _text(message, index)}
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "id": call.id,
                "type": call.type,
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in message.tool_calls
        ]
    for key in ("tool_call_id", "reasoning_content", "name", "refusal"):
        value = getattr(message, key)
        if value is not None:
            plain[key] = value
    return plain


def _text(message: Message, index: int) -> str:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    for place, part in enumerate(content):
        _refuse_media(part, f"messages[{index}].content[{place}]")
    return "".join(part.text or "" for part in content)


def _refuse_media(part: ContentPart, path: str) -> None:
    for kind in _MEDIA:
        if getattr(part, kind) is not None:
            param = f"{path}.{kind}"
            raise refused("unsupported_media", f"The deployed model reads text only and cannot take {param}", param)


def _parsed_call(call: dict[str, Any], path: str, needs_object: bool) -> dict[str, Any]:
    text: str = call["function"]["arguments"]
    try:
        arguments = jiter.from_json(text.encode(), allow_inf_nan=False)
    except ValueError:  # also for half of a surrogate pair, which no tokenizer can read
        arguments = None
    if not isinstance(arguments, dict):
        if needs_object:
            message = f"{path} must be the text of a JSON object, since the model's chat template reads it as one"
            raise refused("template_error", message, path)
        arguments = text
    return {**call, "function": {**call["function"], "arguments": arguments}}
