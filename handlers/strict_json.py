"""The JSON that the contract reads: UTF-8, no duplicate keys, no NaN, no lone surrogates, not too deep."""

from __future__ import annotations

import re
from typing import Any

import jiter

from handlers.errors import Problem, refused

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b'[]{}"')))
_DUPLICATE = re.compile(r'^Detected duplicate key (".*") at line (\d+) column (\d+)$', re.DOTALL)
_PLACE = re.compile(r" at line (\d+) column (\d+)$")
_DUPLICATE_SHOWN = 100


def check_shape(raw: bytes, max_depth: int, max_containers: int) -> None:
    """Refuse too many or too deeply nested arrays and objects, before any parser sees them.

    Costs one count for ordinary bodies. Only a body with more brackets than levels allowed is reduced to its brackets
    and quotes, its strings dropped, and its innermost pairs peeled off, one level a pass. All of it is linear.

    Raises:
        Problem: 422 too_deep or too_long.
    """
    if raw.count(b"[") + raw.count(b"{") <= max_depth:
        return
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # what is left of quotes begins or ends a string
    brackets = b"".join(raw.translate(_BRACKETS, _NO_BRACKETS).split(b'"')[::2])
    containers = brackets.count(b"[")
    if containers > max_containers:
        allowed = f"this deployment takes at most {max_containers} (its setting maxJsonContainers)"
        raise refused("too_long", f"The body has {containers} arrays and objects; {allowed}")
    for _ in range(max_depth):
        peeled = brackets.replace(b"[]", b"")
        if not peeled or len(peeled) == len(brackets):
            return  # nothing left, or brackets that do not match: the parser says what is wrong
        brackets = peeled
    if b"[]" in brackets:
        raise refused("too_deep", f"The body nests arrays and objects more than {max_depth} levels deep")


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
