"""Lets the pages behind those in use take room before a step needs them."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from queue import SimpleQueue
from weakref import finalize

from engine.native.library import Library, MappedMemory

AHEAD_BYTES = 256 << 20
"""So much has room before it is needed: 80 pages of the default model, for some 50 short requests."""
_AHEAD_SHARE = 8
"""And at most one part in so many of all pages."""
_LOWEST_PRIORITY = 19


class PagesAhead:
    """A thread of the lowest priority that writes to memory first.

    The first writing to two megabytes takes the system 0.1 ms where it has them, and 4 ms in a virtual machine whose
    host has to find them. In steps that was 8 % of the time of 16 clients, until the cache had reached its size.
    """

    def __init__(
        self,
        library: Library,
        memory: MappedMemory,
        bytes_per_page: int,
        num_pages: int,
        ahead_bytes: int = AHEAD_BYTES,
    ) -> None:
        """Nothing happens before the first ``reach``.

        Args:
            library: has the function.
            memory: of the pages, in their order; the thread keeps it.
            bytes_per_page: all layers.
            num_pages: how many.
            ahead_bytes: see ``AHEAD_BYTES``.
        """
        self._ahead = min(ahead_bytes // bytes_per_page, num_pages // _AHEAD_SHARE)
        self._bytes_per_page = bytes_per_page
        self._num_pages = num_pages
        self._asked = 0
        self._next = 0
        """A page from here on calls for more."""
        self._ends: SimpleQueue[int | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=_touch, args=(library, memory, self._ends), name="pages-ahead", daemon=True
        )
        self._closed = finalize(self, self._ends.put, None)

    def reach(self, page: int) -> None:
        """A step uses ``page``."""
        if page < self._next or not self._ahead:
            return
        if not self._asked:
            self._thread.start()
        self._asked = min(page + 1 + self._ahead, self._num_pages)
        self._next = self._asked - (self._ahead + 1) // 2 if self._asked < self._num_pages else self._num_pages
        self._ends.put(self._asked * self._bytes_per_page)

    def close(self) -> None:
        """End the thread, after what it was asked for."""
        self._closed()
        if self._asked:
            self._thread.join()


def _touch(library: Library, memory: MappedMemory, ends: SimpleQueue[int | None]) -> None:
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
    done = 0
    while (end := ends.get()) is not None:
        if end > done:
            library.touch(memory.address, done, min(end, memory.size))
            done = end
