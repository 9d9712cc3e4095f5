"""Moves memory that is read in every step into huge pages, where the system lets a process ask for that."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable

_HUGE = 2 << 20
_COLLAPSE = 25
"""Linux's MADV_COLLAPSE (6.1 and later): do it now, rather than some time."""
_GAP = 64 << 10
"""Memory that lies no further apart than this is treated as one piece: matrices are smaller than a huge page."""


def use_huge_pages(pieces: Iterable[tuple[int, int]]) -> int:
    """Ask for huge pages under pieces of memory, given as (address, bytes).

    A product that streams its weights reads them up to a quarter faster from huge pages, since there are 512 times
    fewer addresses to translate.

    Returns:
        Bytes that now lie in huge pages; 0 where the system does not do that, which is no failure.
    """
    if not sys.platform.startswith("linux"):
        return 0
    try:
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return 0
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    moved = 0
    for start, end in _joined(pieces):
        first, last = -(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE
        if last > first and madvise(first, last - first, _COLLAPSE) == 0:
            moved += last - first
    return moved


def _joined(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of memory (first address, address behind) that the pieces make up."""
    runs: list[tuple[int, int]] = []
    for address, size in sorted(pieces):
        if runs and address - runs[-1][1] <= _GAP:
            runs[-1] = (runs[-1][0], max(runs[-1][1], address + size))
        else:
            runs.append((address, address + size))
    return runs
