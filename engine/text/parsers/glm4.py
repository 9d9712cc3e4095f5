"""GLM-4: the answer's first line is a function's name, what follows is the JSON object of its arguments."""

from __future__ import annotations

from typing import Final

from engine.text.parsers.family import ToolFamily
from engine.text.parsers.json_calls import read_arguments
from engine.text.parsers.source import SPACE, Reading, Source

ASSISTANT: Final = "<|assistant|>"


def read_name_line(source: Source) -> Reading[str]:
    """A line that holds a function's name and nothing else; the assistant's token may stand before it."""
    yield from source.skip(SPACE)
    if (yield from source.maybe(ASSISTANT)):
        yield from source.skip(SPACE)
    name = yield from source.name()
    yield from source.skip(" \t\r")
    yield from source.literal("\n")
    yield from source.skip(SPACE)
    return name


def _read(source: Source) -> Reading[None]:
    name = yield from read_name_line(source)
    yield from read_arguments(source, name)


GLM4: Final = ToolFamily(
    name="glm4",
    aliases=("glm_4", "chatglm4_9b"),
    read=_read,
    seen_in=lambda template: "[gMASK]<sop>" in template and "<arg_key>" not in template,
    openings=(ASSISTANT,),
    at_start=True,
    markers=(ASSISTANT,),
    head="{name}\n",
    between=ASSISTANT,
)
