"""Reads calls that are written as JSON: strings, values, arguments passed on as they come, and whole call objects.

Arguments keep the text that the model wrote: numbers, order and spacing are never written anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Final

from engine.text.parsers.source import SPACE, NotACall, Reading, Source

_OUTSIDE: Final = re.compile(r'["{}\[\]]')
_INSIDE: Final = re.compile(r'["\\]')
_SCALAR: Final = re.compile(r"[A-Za-z0-9+.\-]+")


def pass_object_on(source: Source) -> Reading[None]:
    """Read one JSON object and pass its text on as arguments while it comes; NotACall where it never ends."""
    if (yield from source.peek()) != "{":
        raise NotACall
    walk = _Walk()
    while True:
        start = source.at
        source.at = walk.scan(source.text, start)
        source.add_arguments(source.shown(start, source.at))
        source.keep()
        if walk.ended:
            return
        if source.ended:
            raise NotACall
        yield


def read_arguments(source: Source, name: str) -> Reading[None]:
    """Read a call whose name came before its object of arguments; NotACall where none begins here."""
    if (yield from source.peek()) != "{":
        raise NotACall
    source.begin_call(name)
    yield from pass_object_on(source)
    source.end_call()


def read_call(
    source: Source, arguments_keys: Collection[str], other_keys: Collection[str] | None = None
) -> Reading[None]:
    """Read one object with a name and arguments, in any order, and whatever else it holds.

    Arguments may also be absent or null, for none at all, or JSON text in a string.

    Args:
        source: stands at the opening brace.
        arguments_keys: what the member with the arguments may be called.
        other_keys: members besides that are allowed before the call is certain; None for any.

    Raises:
        NotACall: it is no such object, or calls a function that nobody offered. Nothing after the arguments of a call
            raises: what is wrong there is content.
    """
    yield from source.literal("{")
    name = arguments = None
    certain = False
    try:
        yield from source.skip(SPACE)
        closed = yield from source.maybe("}")
        while not closed:
            key = decoded((yield from read_string(source)))
            yield from source.skip(SPACE)
            yield from source.literal(":")
            yield from source.skip(SPACE)
            if not certain and name is not None and key in arguments_keys and (yield from source.peek()) == "{":
                certain = True
                yield from read_arguments(source, name)
            else:
                value = yield from read_value(source)
                if key == "name":
                    name = decoded(value)
                    if not certain and name not in source.names:
                        raise NotACall
                elif key in arguments_keys:
                    arguments = value
                elif other_keys is not None and key not in other_keys and not certain:
                    raise NotACall
            yield from source.skip(SPACE)
            closed = yield from source.maybe("}")
            if not closed:
                yield from source.literal(",")
                yield from source.skip(SPACE)
    except NotACall:
        if not certain or source.in_call:
            raise
        source.at = source.kept
        return
    if certain:
        source.keep()
    elif name is None:
        raise NotACall
    else:
        text = object_text(arguments)
        source.begin_call(name)
        source.add_arguments(text)
        source.end_call()


def object_text(value: str | None) -> str:
    """The arguments as the text of an object, from a member's raw value or None. NotACall where they are none."""
    if value is None or value == "null":
        return "{}"
    if value.startswith('"'):
        value = decoded(value)
    try:
        if isinstance(json.loads(value), dict):
            return value
    except (ValueError, RecursionError):
        pass
    raise NotACall


def decoded(string: str) -> str:
    """The text of a JSON string. NotACall where it is none, or holds half a surrogate pair."""
    try:
        text = json.loads(string)
        if isinstance(text, str):
            text.encode()
            return text
    except (ValueError, RecursionError):
        pass
    raise NotACall


def read_string(source: Source) -> Reading[str]:
    """The raw text of one JSON string, its quotes included."""
    start = source.at
    yield from source.literal('"')
    while True:
        found = _INSIDE.search(source.text, source.at)
        if found is None:
            source.at = len(source.text)
        elif found[0] == '"':
            source.at = found.end()
            return source.shown(start, source.at)
        elif found.end() < len(source.text):
            source.at = found.end() + 1
            continue
        else:
            source.at = found.start()  # what the backslash escapes has yet to come
        if source.ended:
            raise NotACall
        yield


def read_value(source: Source) -> Reading[str]:
    """The raw text of any JSON value."""
    first = yield from source.peek()
    if first == '"':
        return (yield from read_string(source))
    start = source.at
    if first and first in "{[":
        walk = _Walk()
        while True:
            source.at = walk.scan(source.text, source.at)
            if walk.ended:
                return source.shown(start, source.at)
            if source.ended:
                raise NotACall
            yield
    while True:
        found = _SCALAR.match(source.text, start)
        if found is None:
            raise NotACall
        if found.end() < len(source.text) or source.ended:
            source.at = found.end()
            return source.shown(start, source.at)
        yield


class _Walk:
    """Goes through the text of one object or list as it comes, to find where it ends."""

    def __init__(self) -> None:
        self.ended = False
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def scan(self, text: str, at: int) -> int:
        """The place up to which ``text`` belongs to the value, from ``at`` on."""
        if self._escaped and at < len(text):
            self._escaped = False
            at += 1
        while True:
            found = (_INSIDE if self._in_string else _OUTSIDE).search(text, at)
            if found is None:
                return len(text)
            at = found.end()
            if found[0] == '"':
                self._in_string = not self._in_string
            elif found[0] == "\\":
                if at == len(text):
                    self._escaped = True
                    return at
                at += 1
            elif found[0] in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth == 0:
                    self.ended = True
                    return at
