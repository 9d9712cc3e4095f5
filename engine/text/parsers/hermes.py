"""Hermes, Qwen2.5 and Qwen3: each call is a JSON object with name and arguments between two tags."""

from __future__ import annotations

from typing import Final

from engine.text.parsers.family import ToolFamily
from engine.text.parsers.json_calls import read_call
from engine.text.parsers.source import SPACE, Reading, Source

OPEN: Final = "<tool_call>"
CLOSE: Final = "</tool_call>"


def _read(source: Source) -> Reading[None]:
    yield from source.literal(OPEN)
    yield from source.skip(SPACE)
    yield from read_call(source, ("arguments", "parameters"))
    # Models forget the object's last brace, or write one too many.
    yield from source.skip("}")
    behind = source.at
    yield from source.skip(SPACE + "}")
    if not (yield from source.maybe(CLOSE)):
        source.at = behind
    source.keep()


HERMES: Final = ToolFamily(
    name="hermes",
    aliases=("qwen2_5", "qwen3", "qwen3_moe"),
    read=_read,
    seen_in=lambda template: OPEN in template and "<arg_key>" not in template and "<function=" not in template,
    openings=(OPEN,),
    markers=(OPEN, CLOSE),
    head=f'{OPEN}\n{{"name": "{{name}}", "arguments": ',
    tail=f"}}\n{CLOSE}",
    between="\n",
)
