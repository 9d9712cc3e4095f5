"""What this process has open in a folder."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def open_below(folder: Path) -> list[str]:
    """Paths in it, links followed, one for each descriptor."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of this listing is gone
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(place for place in found if place.startswith(f"{folder.resolve()}/"))
