"""What `npu-smi info` prints, as chips."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_CARD: Final = re.compile(r"(\d{1,9})\s+(\S+)$")
_BUS: Final = re.compile(r"NA$|[0-9A-Fa-f]{4}:")
_USAGE: Final = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})")
_COLUMNS: Final = 3
"""Of the table of cards; the one of processes has more."""


@dataclass(frozen=True, slots=True)
class Chip:
    """One device: a card may have two."""

    npu: int
    """The number of its card."""
    name: str
    """Such as 910B3, Ascend910 or 310P3."""
    health: str
    """OK, or Warning, Alarm, Critical or UNKNOWN."""
    used_mb: int
    total_mb: int


def chips_of(printed: str) -> list[Chip]:
    """The chips in their order, which is that of their device ids; none where there is no table.

    A card has two rows for each chip, or one and then one for each chip: number, name and health; then bus address and
    memory, used and in all, in its last pair of numbers.
    """
    chips: list[Chip] = []
    card = ("0", "", "")  # number, name, health
    for line in printed.splitlines():
        row = line.strip()
        cells = [cell.strip() for cell in row.strip("|").split("|")] if row.startswith("|") else []
        if len(cells) != _COLUMNS:
            continue
        named = _CARD.match(cells[0])
        usage = _USAGE.findall(cells[2])
        if _BUS.match(cells[1]) and usage:
            used, total = usage[-1]
            chips.append(Chip(int(card[0]), card[1], card[2], int(used), int(total)))
        elif named is not None and cells[1].isalpha():
            card = (named[1], named[2], cells[1])
    return chips
