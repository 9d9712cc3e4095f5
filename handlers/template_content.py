"""The content of messages as templates read it: a text, or a list of parts in which media are only named."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from engine.types import MediaKind

_NAMES: Final[Mapping[MediaKind, tuple[str, ...]]] = {
    "image": ("image", "image_url"),
    "video": ("video", "video_url"),
    "audio": ("audio", "audio_url", "input_audio"),
}
"""What templates call such a part; transformers' own name comes first."""


def text_part(text: str) -> dict[str, Any]:
    """A part of text."""
    return {"type": "text", "text": text}


def media_part(kind: MediaKind) -> dict[str, Any]:
    """A part that says only that there is one: what it holds, and where it came from, is no template's business."""
    return {"type": kind}


def in_parts(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its text as a list of one part."""
    content = message["content"]
    if not isinstance(content, str):
        return message
    return {**message, "content": [text_part(content)] if content else []}


def with_text_behind(content: Any, between: str, text: str) -> Any:
    """Content that ends with ``text``; ``between`` stands before it where there is other content."""
    if isinstance(content, list):
        return [*content, text_part(between + text)]
    return f"{content}{between}{text}" if content else text


def as_named(message: dict[str, Any], words: Collection[str]) -> dict[str, Any]:
    """The message with its media parts under the names that a template knows.

    Args:
        message: with parts of ``media_part``, or without.
        words: attributes, keys and other constant texts in the template's expressions.
    """
    content = message["content"]
    if not isinstance(content, list):
        return message
    return {**message, "content": [_named(part, words) for part in content]}


def _named(part: dict[str, Any], words: Collection[str]) -> dict[str, Any]:
    names = _NAMES.get(part["type"])
    if names is None:
        return part
    name = next((name for name in names if name in words), names[0])
    # Some templates look at the type, others for a member; one that is there should not look empty.
    return {"type": name, name: {"url": part["type"]} if name.endswith("_url") else part["type"]}
