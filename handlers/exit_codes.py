"""With which code the server ends, and what each says; sysexits.h's numbers where it has one."""

from __future__ import annotations

from typing import Final

OK: Final = 0
"""Stopped as it was told: everything that ran has been answered, or was told that the server stops."""
CUT_SHORT: Final = 1
"""A second signal ended it before that."""
USAGE: Final = 2
"""The command line is wrong."""
WEIGHTS: Final = 66
"""The model's files are missing, unreadable or not whole."""
DEVICE: Final = 69
"""The processor or accelerator that was asked for is not there, or its memory is full."""
CRASH_LOOP: Final = 70
"""The engine died again and again, or failed in a way that nobody foresaw."""
CONFIG: Final = 78
"""The settings cannot be used."""
PORT_IN_USE: Final = 98
"""Another process listens there (Linux's EADDRINUSE)."""
