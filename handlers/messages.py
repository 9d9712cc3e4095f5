"""Chat messages and tools as a chat template reads them: plain dicts, text joined, roles mapped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jiter

from generated.models import ChatCompletionRequest, Message, Tool
from handlers.media.collect import kind_of
from handlers.template_content import media_part, text_part

KNOWN_ROLES: Final = frozenset({"system", "user", "assistant", "tool", "developer"})


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
    """Messages for template_forms.Conversation.

    Text parts are joined as they are, unless there are media between them. Arguments of calls are there as text and,
    where they spell one, as an object. A developer speaks as system where ``template`` does not know developers.
    """
    developer = "developer" if "developer" in template else "system"
    return [_plain_message(message, developer) for message in messages]


def _plain_message(message: Message, developer: str) -> dict[str, Any]:
    role = developer if message.role == "developer" else message.role
    plain: dict[str, Any] = {"role": role, "content": _content(message)}
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "id": call.id,
                "type": call.type,
                "function": {
                    "name": call.function.name,
                    "arguments": call.function.arguments,
                    "object": _object(call.function.arguments),
                },
            }
            for call in message.tool_calls
        ]
    for key in ("tool_call_id", "reasoning_content", "name", "refusal"):
        value = getattr(message, key)
        if value is not None:
            plain[key] = value
    return plain


def _content(message: Message) -> str | list[dict[str, Any]] | None:
    content = message.content
    if content is None:  # a template may tell it from empty content where there are calls, and only there
        return None if message.tool_calls else ""
    if isinstance(content, str):
        return content
    kinds = [kind_of(part) for part in content]
    if not any(kinds):
        return "".join(part.text or "" for part in content)
    return [
        text_part(part.text or "") if kind is None else media_part(kind)
        for part, kind in zip(content, kinds, strict=True)
    ]


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that arguments spell, an empty one for blank text; None for any other text."""
    if not text.strip():
        return {}
    try:
        value = jiter.from_json(text.encode(), allow_inf_nan=False)
    except ValueError:  # also for half of a surrogate pair, which no tokenizer can read
        return None
    return value if isinstance(value, dict) else None
