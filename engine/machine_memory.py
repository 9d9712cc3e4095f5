"""How much memory this machine still has for the pages of keys and values."""

from __future__ import annotations

import contextlib
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"), Path("/sys/fs/cgroup/memory.stat")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.stat"),
    ),
)
"""Limit, use and its parts, of the control group that a container shows as its root: version 2, then version 1."""

UNKNOWN_AVAILABLE = 2 << 30
"""Bytes taken to be available where the system does not say."""
RESERVE_BYTES = 512 << 20
"""Left alone, for the rows of a step and for other processes."""
POOL_SHARE = 0.5
"""Part of what is available beyond the reserve that the pages may take."""

CACHE_BYTES = 1 << 30
"""Prompts kept for later requests may make the process this large in any case, of a pool that nobody asked for."""
CACHE_SHARE = 0.125
"""And so much of such a pool: it is a part of what was free at the start, which others may want later. What sequences
need while they run, they get beyond that; and what they have used once, the cache may use too."""


def available_bytes() -> int:
    """Memory that could be had without swapping: the system's, or the control group's where that is less."""
    found = [_meminfo_available()]
    for limit_file, use_file, stat_file in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):
            limit = int(limit_file.read_text())
            # Cached files count as used but go when memory is short.
            found.append(limit - int(use_file.read_text()) + _inactive_file(stat_file.read_text()))
    return max(0, min(found))


def pool_bytes(limit: int | None, part: float = 1.0) -> int:
    """Bytes for the pages: ``limit`` where it is given, else a share of what is available beyond the reserve.

    ``part`` of that share, where several processes have pages.
    """
    if limit is not None:
        return limit
    return int(max(0, available_bytes() - RESERVE_BYTES) * POOL_SHARE * part)


def fraction_bytes(fraction: float, weights_bytes: int) -> int:
    """Bytes for the pages where weights and pages together may take a part of what is available, 0 if there are none.

    That is what MindIE's NPU_MEMORY_FRACTION means.
    """
    return int(max(0, available_bytes() * fraction - weights_bytes))


def cache_bytes(limit: int | None, pool: int) -> int | None:
    """How much of a pool may become used for the cache's sake: all (None) where ``limit`` has been asked for."""
    return None if limit is not None else max(CACHE_BYTES, int(pool * CACHE_SHARE))


def _meminfo_available() -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in _MEMINFO.read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024
    return UNKNOWN_AVAILABLE


def _inactive_file(stat: str) -> int:
    values = dict(line.split() for line in stat.splitlines() if line.count(" ") == 1)
    return int(values.get("inactive_file", 0))
