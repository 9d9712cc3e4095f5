"""The end of the server: begun once, by a signal or by GET /stopService, over when nothing runs any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.front import Front


class Ending:
    """Drains the engine, and tells when that is done. Belongs to the front's event loop."""

    def __init__(self, front: Front, on_begin: Callable[[], None] = lambda: None) -> None:
        """``on_begin`` is called once, when it begins."""
        self._front = front
        self._on_begin = on_begin
        self._begun = asyncio.Event()
        self._drain: asyncio.Task[None] | None = None

    @property
    def begun(self) -> bool:
        """Nothing new is taken any more."""
        return self._drain is not None

    @property
    def over(self) -> bool:
        """Nothing runs any more."""
        return self._drain is not None and self._drain.done()

    def begin(self, timeout_s: float) -> None:
        """Refuse what is new, and let what runs finish within ``timeout_s``; the second time nothing happens."""
        if self._drain is None:
            self._drain = asyncio.get_running_loop().create_task(self._front.drain(timeout_s))
            self._begun.set()
            self._on_begin()

    def hurry(self) -> None:
        """End what still runs now; its clients are told that the server stops."""
        self._front.cut()

    async def wait_begun(self) -> None:
        """Wait until nothing new is taken any more."""
        await self._begun.wait()

    async def wait(self) -> None:
        """Wait until it has begun and nothing runs any more; whoever waits may be cancelled without effect on it."""
        await self._begun.wait()
        assert self._drain is not None
        await asyncio.wait([self._drain])
