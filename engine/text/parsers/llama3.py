"""Llama 3.x: the answer is a JSON object with name and parameters; further ones follow a semicolon."""

from __future__ import annotations

from typing import Final

from engine.text.parsers.family import ToolFamily
from engine.text.parsers.json_calls import read_call
from engine.text.parsers.source import SPACE, Reading, Source

PYTHON_TAG: Final = "<|python_tag|>"


def _read(source: Source) -> Reading[None]:
    yield from source.skip(SPACE)
    if source.calls and (yield from source.maybe(";")):
        yield from source.skip(SPACE)
    if (yield from source.maybe(PYTHON_TAG)):
        yield from source.skip(SPACE)
    # An answer that is some other JSON is told apart by its members as early as possible.
    yield from read_call(source, ("parameters", "arguments"), ("type", "id"))
    yield from source.skip("}")  # one too many happens
    source.keep()


LLAMA3_JSON: Final = ToolFamily(
    name="llama3_json",
    aliases=("llama", "llama3", "llama3_1"),
    read=_read,
    seen_in=lambda template: (
        PYTHON_TAG in template or ("<|start_header_id|>" in template and '"parameters"' in template)
    ),
    openings=(PYTHON_TAG,),
    at_start=True,
    markers=(PYTHON_TAG,),
    head='{"name": "{name}", "parameters": ',
    tail="}",
    between="; ",
)
