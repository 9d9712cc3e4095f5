"""Mistral: a control token, and then a JSON list of calls, or (newer) a name and its arguments for each such token."""

from __future__ import annotations

from typing import Final

from engine.text.parsers.family import ToolFamily
from engine.text.parsers.json_calls import read_arguments, read_call
from engine.text.parsers.source import SPACE, Reading, Source

TOOL_CALLS: Final = "[TOOL_CALLS]"
CALL_ID: Final = "[CALL_ID]"
ARGS: Final = "[ARGS]"
_ID_CHARACTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def _read(source: Source) -> Reading[None]:
    yield from source.literal(TOOL_CALLS)
    yield from source.skip(SPACE)
    if (yield from source.maybe("[")):
        yield from _read_list(source)
    else:
        yield from _read_one(source)


def _read_list(source: Source) -> Reading[None]:
    while True:
        yield from source.skip(SPACE)
        yield from read_call(source, ("arguments", "parameters"))
        yield from source.skip(SPACE)
        if (yield from source.maybe(",")):
            continue  # only kept with the call that follows
        if (yield from source.maybe("]")):
            source.keep()
        else:
            source.at = source.kept
        return


def _read_one(source: Source) -> Reading[None]:
    name = yield from source.name()
    yield from source.skip(SPACE)
    if (yield from source.maybe(CALL_ID)):
        yield from source.skip(_ID_CHARACTERS)  # the answer's calls get ids of their own
    yield from source.maybe(ARGS)
    yield from source.skip(SPACE)
    yield from read_arguments(source, name)


MISTRAL: Final = ToolFamily(
    name="mistral",
    read=_read,
    seen_in=lambda template: TOOL_CALLS in template,
    openings=(TOOL_CALLS,),
    markers=(TOOL_CALLS, CALL_ID, ARGS),
    opens=f"{TOOL_CALLS}[",
    head='{"name": "{name}", "arguments": ',
    tail="}",
    between=", ",
    closes="]",
    short_call_ids=True,
)
