"""Looks at files while the server runs: all that is watched, every two seconds and on SIGHUP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

POLL_S: Final = 2.0
"""How often files are looked at, in seconds; SIGHUP looks at once."""
_log = logging.getLogger(__name__)

Stamp = tuple[int, int, int]


class Watch(Protocol):
    """Something that follows files."""

    @property
    def name(self) -> str:
        """What it follows, for the log."""
        ...

    async def look(self, *, always: bool = False) -> None:
        """Take over what has changed; with ``always`` read files that look the same, too."""
        ...


def stamp_of(path: Path) -> Stamp | None:
    """What changes when a file does: time in ns, size in bytes, inode. None where it cannot be seen."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def follow(watches: Sequence[Watch]) -> None:
    """Look until cancelled; what goes wrong in one look is logged, and tried again at the next."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    main = threading.current_thread() is threading.main_thread()
    if main:
        loop.add_signal_handler(signal.SIGHUP, asked.set)
    try:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asked.wait(), POLL_S)
            always = asked.is_set()
            asked.clear()
            for watch in watches:
                try:
                    await watch.look(always=always)
                except Exception:
                    _log.exception("%s could not be followed", watch.name)
    finally:
        if main:
            loop.remove_signal_handler(signal.SIGHUP)
