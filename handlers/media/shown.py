"""Messages as a log shows them: media only by where they come from, without payloads and secrets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from generated.models import InputAudio, Message
from handlers.media.collect import KIND_OF, kind_of

_SHOWN_CHARS: Final = 100
_USER: Final = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*://)[^/?#]*@")


def shown_messages(messages: Sequence[Message]) -> list[Any]:
    """The messages; those with media as plain data in which ``shown`` stands for each payload."""
    return [_shown_message(message) for message in messages]


def shown(value: str) -> str:
    """Where a medium comes from: an address without user and query, a path, or how long its inline data are."""
    if value[:5].lower() == "data:":
        head, comma, data = value.partition(",")
        return f"{head[:_SHOWN_CHARS]}{comma}({len(data)} characters)"
    place = _USER.sub(r"\1", re.split(r"[?#]", value[: 4 * _SHOWN_CHARS], maxsplit=1)[0])
    return place if len(value) <= _SHOWN_CHARS or "://" in value[:12] else f"({len(value)} characters)"


def _shown_message(message: Message) -> Any:
    content = message.content
    if not isinstance(content, list) or not any(map(kind_of, content)):
        return message
    parts = []
    for part in content:
        made = {} if part.text is None else {"text": part.text}
        for member in KIND_OF:
            payload = getattr(part, member)
            if isinstance(payload, InputAudio):
                made[member] = f"({len(payload.data)} characters of {payload.format})"
            elif payload is not None:
                made[member] = shown(payload if isinstance(payload, str) else payload.url)
        parts.append(made)
    return {**message.model_dump(exclude_none=True, exclude={"content"}), "content": parts}
