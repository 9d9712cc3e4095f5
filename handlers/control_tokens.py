"""Keeps control tokens that a client typed from becoming control tokens of the prompt.

A chat template writes control tokens such as ``<|im_end|>`` between the messages. The same string inside a message is
text. To tell the two apart after rendering, every such string that a client sent gets one marker character (from
Unicode's private use area, one that occurs nowhere else) after its first character; the rendered text is encoded in one
piece, where the marked string is no control token any more, and the marker's own tokens are taken out of the ids.
What stays spells exactly the client's text. A text without control strings is encoded as it is, untouched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from handlers.errors import refused

_MARKERS = [chr(code) for code in range(0xE0F0, 0xF800, 0x51)]


class Vocabulary(Protocol):
    """The part of a tokenizer that this needs."""

    special_ids: frozenset[int]

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Token ids of a text."""
        ...

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        """Text of token ids."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that one token adds to the text."""
        ...


class ControlTokens:
    """The control strings of one tokenizer."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        decoded = (vocabulary.decode([token], skip_special_tokens=False).strip() for token in vocabulary.special_ids)
        strings = sorted({text for text in decoded if text}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, strings))) if strings else None
        # Looking for a few short beginnings first is much faster than the pattern on long texts.
        self._beginnings = sorted({text[:2] for text in strings})

    def occurs_in(self, value: Any) -> bool:
        """Whether any string inside ``value`` (lists and dicts are searched) holds a control string."""
        if isinstance(value, str):
            if self._pattern is None or not any(beginning in value for beginning in self._beginnings):
                return False
            return self._pattern.search(value) is not None
        if isinstance(value, dict):
            return any(self.occurs_in(key) or self.occurs_in(item) for key, item in value.items())
        return isinstance(value, list) and any(map(self.occurs_in, value))

    def marker_for(self, *texts: Any) -> str:
        """A marker character that occurs nowhere in ``texts``.

        Raises:
            Problem: 422 when every candidate is taken.
        """
        everything = "".join(map(_all_text, texts))
        for marker in _MARKERS:
            if marker not in everything:
                return marker
        raise refused("unsupported", "The messages hold control tokens and private use characters together", "messages")

    def marked(self, value: Any, marker: str) -> Any:
        """A copy of ``value`` whose control strings carry the marker."""
        pattern = self._pattern
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
