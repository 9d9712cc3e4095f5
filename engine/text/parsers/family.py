"""What a family of models has of its own in writing tool calls: markers, the reading function, and the written form."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.text.parsers.source import Reading, Source


@dataclass(frozen=True)
class ToolFamily:
    """One way of writing tool calls. Values only; the reading function holds no state."""

    name: str
    """What a deployment's setting calls it."""
    read: Callable[[Source], Reading[None]]
    """Reads from where a call may begin to behind it (or behind several); NotACall where there is none."""
    seen_in: Callable[[str], bool]
    """Whether a chat template's text shows that its model writes calls this way."""
    aliases: tuple[str, ...] = ()
    """Other names for it in settings, MindIE's among them."""

    openings: tuple[str, ...] = ()
    """Texts at which a call may begin, wherever they stand."""
    at_start: bool = False
    """A call may also begin without such a text, at the start of the answer and right after another call."""
    markers: tuple[str, ...] = ()
    """Texts that a vocabulary may have as special tokens: the reading function sees them although they are hidden."""

    head: str = ""
    """What is written before a call's arguments; ``{name}`` stands for the function's name."""
    tail: str = ""
    """What is written after them."""
    opens: str = ""
    """What is written before the first call."""
    between: str = ""
    """What is written between two calls."""
    closes: str = ""
    """What is written after the last call."""
    arguments_as: Callable[[dict[str, object]], str] = field(
        default=lambda arguments: json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    )
    """How arguments are spelled."""
    json_arguments: bool = True
    """Arguments are spelled as JSON, so that a grammar can hold a model to ``head``, a JSON schema and ``tail``."""

    short_call_ids: bool = False
    """Ids of calls are nine letters or digits, the only ones that the family's chat templates take."""

    def head_of(self, name: str) -> str:
        """What is written before the arguments of a call of ``name``."""
        return self.head.replace("{name}", name)

    def write(self, name: str, arguments: dict[str, object]) -> str:
        """An answer that is one call, as a model of this family writes it.

        Raises:
            ValueError: a number that JSON cannot write.
        """
        return f"{self.opens}{self.head_of(name)}{self.arguments_as(arguments)}{self.tail}{self.closes}"
