"""Chat messages and tools as a chat template reads them: plain dicts, text joined, roles mapped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jiter

from generated.models import ChatCompletionRequest, ContentPart, Message, Tool
from handlers.errors import refused

KNOWN_ROLES: Final = frozenset({"system", "user", "assistant", "tool", "developer"})
_MEDIA: Final = ("image_url", "video_url", "audio_url", "input_audio")


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

    Text parts are joined as they are. Arguments of calls are there as text and, where they spell one, as an object. A
    developer speaks as system where ``template`` does not know developers.

    Raises:
        Problem: 422 unsupported_media for a media part, naming it.
    """
    developer = "developer" if "developer" in template else "system"
    return [_plain_message(message, index, developer) for index, message in enumerate(messages)]


def _plain_message(message: Message, index: int, developer: str) -> dict[str, Any]:
    role = developer if message.role == "developer" else message.role
    plain: dict[str, Any] = {"role": role, "content": _text(message, index)}
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


def _text(message: Message, index: int) -> str | None:
    content = message.content
    if content is None:  # a template may tell it from empty content where there are calls, and only there
        return None if message.tool_calls else ""
    if isinstance(content, str):
        return content
    for place, part in enumerate(content):
        _refuse_media(part, f"messages[{index}].content[{place}]")
    return "".join(part.text or "" for part in content)


def _refuse_media(part: ContentPart, path: str) -> None:
    for kind in _MEDIA:
        if getattr(part, kind) is not None:
            param = f"{path}.{kind}"
            raise refused("unsupported_media", f"The deployed model reads text only and cannot take {param}", param)


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that arguments spell, an empty one for blank text; None for any other text."""
    if not text.strip():
        return {}
    try:
        value = jiter.from_json(text.encode(), allow_inf_nan=False)
    except ValueError:  # also for half of a surrogate pair, which no tokenizer can read
        return None
    return value if isinstance(value, dict) else None
