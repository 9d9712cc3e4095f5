"""Gives memory that the C library keeps for later use back to the system."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

IDLE_S = 1.0
"""So long the engine has nothing to do before it gives memory back: not between two requests of one client."""


def trimmer() -> Callable[[], None]:
    """A function that gives back what is free inside the heap; it does nothing where the C library cannot.

    The blocks of a step differ in size with its rows, so that the heap grows by pieces that fit nothing: some 150 MB
    within 200 requests of all kinds. Giving them back takes milliseconds.
    """
    if not sys.platform.startswith("linux"):
        return _nothing
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's own
    if trim is None:
        return _nothing
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return lambda: trim(0) and None


def _nothing() -> None:
    """Where there is nothing to call."""
