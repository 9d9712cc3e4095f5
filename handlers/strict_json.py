"""The JSON that the contract reads: UTF-8, no duplicate keys, no NaN, no lone surrogates, not too deep."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import jiter

from handlers.errors import Problem, refused

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_TEXT = bytes(sorted(set(range(256)) - set(b'[]{}:,"')))
_DUPLICATE = re.compile(r'^Detected duplicate key (".*") at line (\d+) column (\d+)$', re.DOTALL)
_PLACE = re.compile(r" at line (\d+) column (\d+)$")
_DUPLICATE_SHOWN = 100


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """How large the structure of a body may be; a few megabytes of tiny values would hold the server for seconds."""

    depth: int
    """Arrays and objects inside each other."""
    containers: int
    """Arrays and objects in all."""
    members: int
    """Members of all objects together."""
    values: int
    """Elements and members of all arrays and objects together, each container's first not counted."""


def check_shape(raw: bytes, limits: JsonLimits) -> None:
    """Refuse too many or too deeply nested values, before any parser sees them.

    A body is reduced to its punctuation. Only where that might be over a limit its strings are dropped, and its
    innermost pairs of brackets peeled off, one level a pass. All of it is linear.

    Raises:
        Problem: 422 too_deep or too_long.
    """
    rough = raw.translate(_BRACKETS, _TEXT)  # with the punctuation that stands in strings
    containers = rough.count(b"[")
    # An object has one member more than commas, so these two bound the members as well.
    if containers <= limits.depth and rough.count(b",") + containers <= min(limits.members, limits.values):
        return
    if b"\\" in raw:
        # What is left of quotes begins or ends a string.
        rough = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_BRACKETS, _TEXT)
    skeleton = b"".join(rough.split(b'"')[::2])
    _check_count("arrays and objects", skeleton.count(b"["), limits.containers, "maxJsonContainers")
    _check_count("members of objects", skeleton.count(b":"), limits.members, "maxJsonMembers")
    _check_count("values", skeleton.count(b","), limits.values, "maxJsonValues")
    brackets = skeleton.translate(None, b":,")
    for _ in range(limits.depth):
        peeled = brackets.replace(b"[]", b"")
        if not peeled or len(peeled) == len(brackets):
            return  # nothing left, or brackets that do not match: the parser says what is wrong
        brackets = peeled
    if b"[]" in brackets:
        raise refused("too_deep", f"The body nests arrays and objects more than {limits.depth} levels deep")


def _check_count(what: str, count: int, most: int, setting: str) -> None:
    if count > most:
        message = f"The body has {count} {what}; this deployment takes at most {most} (its setting {setting})"
        raise refused("too_long", message)


def parse(raw: bytes) -> Any:
    """Parse ``raw`` to plain Python values.

    Raises:
        Problem: 422 json_invalid, naming the place where the text stops being acceptable JSON.
    """
    if not raw.strip():
        raise refused("json_invalid", "The body is empty; a JSON object is expected")
    try:
        return jiter.from_json(raw, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        raise _explained(str(error)) from None


def _explained(reason: str) -> Problem:
    """Put the parser's finding into a sentence that quotes no more of the body than a key."""
    if duplicate := _DUPLICATE.match(reason):
        key, line, column = duplicate.groups()
        shown = key if len(key) <= _DUPLICATE_SHOWN else key[:_DUPLICATE_SHOWN] + "..."
        message = f"An object of the body has the key {shown} twice (line {line}, column {column})"
        return refused("json_invalid", message)
    place = _PLACE.search(reason)
    where = f" (line {place[1]}, column {place[2]})" if place else ""
    lowered = reason.lower()
    if "recursion limit" in lowered:
        return refused("too_deep", "The body nests arrays and objects too deep to be read")
    if "unicode code point" in lowered:
        return refused("json_invalid", f"The body is not valid UTF-8{where}")
    if "hex escape" in lowered:
        return refused("json_invalid", f"The body has a broken \\u escape or half of a surrogate pair{where}")
    if "number out of range" in lowered:
        return refused("json_invalid", f"The body has a number that cannot be read{where}")
    return refused("json_invalid", f"The body is not valid JSON{where}")
