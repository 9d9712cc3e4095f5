"""Keeps control tokens that a client typed from becoming control tokens of the prompt.

A chat template writes control tokens such as ``<|im_end|>`` between the messages. The same string inside a message is
text. To tell the two apart after rendering, every such string that a client sent gets one marker character (from
Unicode's private use area, one that occurs nowhere else) after its first character; the rendered text is encoded in one
piece, where the marked string is no control token any more, and the marker's own tokens are taken out of the ids.
What stays spells exactly the client's text. A text without control strings is encoded as it is, untouched.

Control strings are the special tokens, those that stand for media, and added tokens that are written like them
(``<｜User｜>``), which some vocabularies do not call special. Tokens such as ``<think>`` and ``<tool_call>`` are markup
that system prompts and earlier answers rightly carry; in a tool's result, which nobody has vouched for, they are text
as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from handlers.errors import refused

_TAG = re.compile(r"[<\[].+[>\]]")
_MARKERS = [chr(code) for code in range(0xE0F0, 0xF800, 0x51)]


class Vocabulary(Protocol):
    """The part of a tokenizer that this needs."""

    special_ids: frozenset[int]
    added_tokens: Mapping[int, str]
    """Special and other added tokens, as the vocabulary spells them."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Token ids of a text."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that one token adds to the text."""
        ...


class ControlTokens:
    """The control strings of one tokenizer."""

    def __init__(self, vocabulary: Vocabulary, placeholders: Collection[int] = ()) -> None:
        """``placeholders``: tokens that stand for media, called special or not."""
        self._vocabulary = vocabulary
        added = {token: text.strip() for token, text in vocabulary.added_tokens.items() if text.strip()}
        tags = {text for text in added.values() if _TAG.fullmatch(text)}
        special = {text for token, text in added.items() if token in vocabulary.special_ids or token in placeholders}
        self._control = _pattern(special | {text for text in tags if "|" in text or "｜" in text})
        self._tags = _pattern(special | tags)
        # Looking for a few short beginnings first is much faster than the pattern on long texts.
        self._beginnings = sorted({text[:2] for text in special | tags})

    def occurs_in(self, value: Any) -> bool:
        """Whether any string inside ``value`` (lists and dicts are searched) holds a control string or a tag."""
        if isinstance(value, str):
            if self._tags is None or not any(beginning in value for beginning in self._beginnings):
                return False
            return self._tags.search(value) is not None
        if isinstance(value, dict):
            return any(self.occurs_in(key) or self.occurs_in(item) for key, item in value.items())
        return isinstance(value, list) and any(map(self.occurs_in, value))

    def marker_for(self, *texts: Any) -> str:
        """A marker character that occurs nowhere in ``texts``, not as a JSON escape either.

        Raises:
            Problem: 422 when every candidate is taken.
        """
        everything = "".join(map(_all_text, texts))
        for marker in _MARKERS:
            if marker not in everything and _escaped(marker) not in everything.lower():
                return marker
        raise refused("unsupported", "The messages hold control tokens and private use characters together", "messages")

    def marked(self, value: Any, marker: str, *, data: bool = False) -> Any:
        """A copy of ``value`` whose control strings carry the marker; with ``data``, all that is written like a tag."""
        pattern = self._tags if data else self._control
        if pattern is None:
            return value

        def mark(text: str) -> str:
            return pattern.sub(lambda found: found[0][0] + marker + found[0][1:], text)

        return _map_text(value, mark)

    def encode(self, rendered: str, marker: str) -> list[int]:
        """Token ids of a rendered prompt, without the marker's own tokens.

        Raises:
            Problem: 422 where this tokenizer does not keep the marker apart, so that nothing can be promised.
        """
        rendered = rendered.replace(_escaped(marker), marker)  # a template may write JSON in ASCII
        ids = self._vocabulary.encode(rendered, add_special_tokens=False)
        wanted = marker.encode()
        kept: list[int] = []
        removed = position = 0
        while position < len(ids):
            length = self._marker_length(ids, position, wanted)
            if length:
                removed += 1
                position += length
            else:
                kept.append(ids[position])
                position += 1
        if removed != rendered.count(marker):
            message = "The messages hold control tokens of this model, which its tokenizer cannot write as plain text"
            raise refused("unsupported", message, "messages")
        return kept

    def _marker_length(self, ids: list[int], start: int, wanted: bytes) -> int:
        """How many tokens from ``start`` spell exactly the marker; 0 when they do not."""
        spelled = b""
        for length in range(1, len(wanted) + 1):
            if start + length > len(ids):
                return 0
            spelled += self._vocabulary.token_bytes(ids[start + length - 1])
            if spelled == wanted:
                return length
            if not wanted.startswith(spelled):
                return 0
        return 0


def _pattern(strings: set[str]) -> re.Pattern[str] | None:
    longest_first = sorted(strings, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if strings else None


def _escaped(marker: str) -> str:
    return f"\\u{ord(marker):04x}"


def _map_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key) if isinstance(key, str) else key: _map_text(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_text(item, change) for item in value]
    return value


def _all_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "".join(map(_all_text, value.keys())) + "".join(map(_all_text, value.values()))
    if isinstance(value, list):
        return "".join(map(_all_text, value))
    return ""
