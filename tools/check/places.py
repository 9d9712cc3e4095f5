"""Finds where a member stands in a JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def line_in(raw: bytes, path: str | None) -> int:
    """How many lines below the beginning a member stands; of one that is missing, or cannot be found, its owner."""
    if b"\n" not in raw:
        return 0
    text = raw.decode("utf-8", "replace")
    start, _ = find(text, steps(path or ""))
    return text.count("\n", 0, start)


def steps(path: str) -> list[str | int]:
    """``messages[0].role`` as ``["messages", 0, "role"]``."""
    return [int(index) if index else name for index, name in _STEP.findall(path)]


def find(text: str, path: list[str | int], start: int = 0) -> tuple[int, int]:
    """Where a member's name, or an element, begins, and where its value does; as far as the path can be followed.

    ``start``: where the value begins in which the path is followed.
    """
    found = place = _skip(text, start)
    try:
        for step in path:
            _, found, place = next(item for item in items(text, place) if item[0] == step)
    except (ValueError, IndexError, StopIteration, RecursionError):
        pass
    return found, place


def items(text: str, place: int) -> Iterator[tuple[str | int, int, int]]:
    """The members of the object or list that begins at a place: key or index, where it begins, where its value does.

    Raises:
        ValueError, IndexError, RecursionError: the text is no JSON there.
    """
    opening = text[place : place + 1]
    if opening not in ("{", "["):
        return
    place, index = _skip(text, place + 1), 0
    while text[place] not in "}]":
        start, key = place, index
        if opening == "{":
            name, place = _value(text, place)
            place = _skip(text, _skip(text, place) + 1)
            yield name, start, place
        else:
            yield key, start, place
        place, index = _skip(text, _value(text, place)[1]), index + 1
        if text[place] == ",":
            place = _skip(text, place + 1)


def value_text(text: str, path: list[str | int]) -> str:
    """A value as it is written.

    Raises:
        ValueError, RecursionError: it is no JSON.
    """
    _, place = find(text, path)
    return text[place : _value(text, place)[1]]


def _value(text: str, place: int) -> tuple[Any, int]:
    """The value that begins at a place, and where it ends."""
    return json.JSONDecoder(strict=False).raw_decode(text, place)


def _skip(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found is not None else place
