"""DeepSeek: a section of calls between control tokens; V3 and R1 fence the arguments, V3.1 does not."""

from __future__ import annotations

from typing import Final

from engine.text.parsers.family import ToolFamily
from engine.text.parsers.json_calls import read_arguments
from engine.text.parsers.source import SPACE, Reading, Source

SECTION_BEGIN: Final = "<｜tool▁calls▁begin｜>"
SECTION_END: Final = "<｜tool▁calls▁end｜>"
CALL_BEGIN: Final = "<｜tool▁call▁begin｜>"
CALL_END: Final = "<｜tool▁call▁end｜>"
SEPARATOR: Final = "<｜tool▁sep｜>"
_FENCE: Final = "```"
_MARKERS: Final = (SECTION_BEGIN, SECTION_END, CALL_BEGIN, CALL_END, SEPARATOR)


def _read(source: Source) -> Reading[None]:
    """One call, with the section's begin before it and its end behind it where they stand there.

    Either version's form is read, since models trained on one at times write the other.
    """
    if (yield from source.maybe(SECTION_BEGIN)):
        yield from source.skip(SPACE)
    yield from source.literal(CALL_BEGIN)
    yield from source.skip(SPACE)
    name = yield from _name(source)
    yield from source.skip(SPACE)
    fenced = yield from source.maybe(_FENCE)
    if fenced:
        yield from source.maybe("json")
        yield from source.skip(SPACE)
    yield from read_arguments(source, name)
    for closing in (_FENCE, CALL_END, SECTION_END) if fenced else (CALL_END, SECTION_END):
        yield from source.skip(SPACE)
        if (yield from source.maybe(closing)):
            source.keep()
        else:
            source.at = source.kept


def _name(source: Source) -> Reading[str]:
    """The function's name, between the separator and its other neighbour (V3: the word "function" comes first)."""
    if (yield from source.maybe("function" + SEPARATOR)):
        return (yield from source.name())
    name = yield from source.name()
    yield from source.literal(SEPARATOR)
    return name


DEEPSEEK_V3: Final = ToolFamily(
    name="deepseek_v3",
    aliases=("deepseek_v2", "deepseek_r1"),
    read=_read,
    seen_in=lambda template: CALL_BEGIN in template and f"{_FENCE}json" in template,
    openings=(SECTION_BEGIN, CALL_BEGIN),
    markers=_MARKERS,
    opens=SECTION_BEGIN,
    head=f"{CALL_BEGIN}function{SEPARATOR}{{name}}\n{_FENCE}json\n",
    tail=f"\n{_FENCE}{CALL_END}",
    between="\n",
    closes=SECTION_END,
)

DEEPSEEK_V31: Final = ToolFamily(
    name="deepseek_v31",
    aliases=(),
    read=_read,
    seen_in=lambda template: CALL_BEGIN in template,
    openings=(SECTION_BEGIN, CALL_BEGIN),
    markers=_MARKERS,
    opens=SECTION_BEGIN,
    head=f"{CALL_BEGIN}{{name}}{SEPARATOR}",
    tail=CALL_END,
    closes=SECTION_END,
)
