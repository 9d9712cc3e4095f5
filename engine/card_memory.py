"""How much of a card's memory the pages of keys and values may have."""

from __future__ import annotations

from typing import Final

import torch

from engine.loader import LoadError
from engine.types import LoadFailureCause

RESERVE_BYTES = 1 << 30
"""Left alone, for the rows of a step and for what the runtime takes later."""
DEFAULT_SHARE = 0.9
"""Of what is free once the weights are loaded, beyond the reserve."""
LEAST_BYTES = 64 << 20
"""With less, where nobody asked for a size, a server would start and run hardly any prompt."""


CARDS: Final = {"npu": "`npu-smi info`", "cuda": "`nvidia-smi`"}
"""Kinds of cards, and what shows who uses one."""


class CardFull(LoadError):
    """A card has too little memory left for keys and values."""

    load_failure_cause: LoadFailureCause = "device"


def pool_bytes(limit: int | None, part: float = 1.0, kind: str = "npu") -> int:
    """Bytes for the pages: ``limit`` where it is given, else a share of what the current card has free.

    ``part`` of that share, where several processes have pages on it.

    Raises:
        CardFull: what was measured is less than ``LEAST_BYTES``.
    """
    if limit is not None:
        return limit
    free, total = _free_and_total(kind)
    return _enough(kind, int(max(0, free - RESERVE_BYTES) * DEFAULT_SHARE * part), free, total)


def fraction_bytes(fraction: float, part: float = 1.0, kind: str = "npu") -> int:
    """Bytes for the pages where all that is on the current card may take a part of its memory.

    That is what MindIE's NPU_MEMORY_FRACTION means. The weights are loaded already; with them count the runtime and
    other processes. ``part`` of what is left, where several processes have pages on the card.

    Raises:
        CardFull: that is less than ``LEAST_BYTES``.
    """
    free, total = _free_and_total(kind)
    return _enough(kind, int(max(0, total * fraction - (total - free)) * part), free, total)


def _enough(kind: str, found: int, free: int, total: int) -> int:
    if found >= LEAST_BYTES:
        return found
    raise CardFull(
        f"The card has {_gib(free)} of {_gib(total)} free beside the weights, and {_gib(found)} of it would be for "
        f"keys and values, where {_gib(LEAST_BYTES)} are the least: {CARDS[kind]} lists what else is on the card; a "
        "larger NPU_MEMORY_FRACTION, or npuMemSize, gives them more."
    )


def _free_and_total(kind: str) -> tuple[int, int]:
    """Bytes of the current card. ``kind`` is the part of torch that knows it: npu (torch_npu adds that) or cuda."""
    free, total = getattr(torch, kind).mem_get_info()
    return int(free), int(total)


def _gib(count: int) -> str:
    return f"{count / 2**30:.2f} GiB"
