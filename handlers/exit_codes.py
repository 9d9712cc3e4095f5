"""What the exit codes of the server mean."""

from __future__ import annotations

from typing import Final

OK: Final = 0
"""Stopped, and what ran has been answered."""
USAGE: Final = 2
"""The command line."""
WEIGHTS: Final = 66
"""The model cannot be had: no such folder, unreadable, not whole, of a kind that is not served."""
DEVICE: Final = 69
CRASH_LOOP: Final = 70
"""The engine died too often."""
CONFIG: Final = 78
"""config.json."""
PORT_IN_USE: Final = 98
