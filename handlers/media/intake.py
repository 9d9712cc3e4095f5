"""What a deployment reads media with: sources, workers that decode, and the files of running requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from handlers.media.limits import MediaLimits
from handlers.media.parts import MediaPart, PreparedMedia, SourceFile

if TYPE_CHECKING:
    from handlers.media.spool import Spool


class Sources(Protocol):
    """``MediaSources`` as it is used here."""

    async def files(self, parts: Sequence[MediaPart], spool: Spool) -> list[SourceFile]:
        """A file for each part, in order. Raises Problem."""
        ...

    def close(self) -> None:
        """Take no more."""
        ...


class Pool(Protocol):
    """``MediaPool`` as it is used here."""

    async def start(self) -> None:
        """Start a process ahead of the first request. Raises Problem; the cause is in the log."""
        ...

    async def prepare(self, file: SourceFile, spool: Spool) -> PreparedMedia:
        """The encoder's input. Raises Problem."""
        ...

    async def close(self) -> None:
        """End the processes."""
        ...


class Folders(Protocol):
    """``Spools`` as it is used here."""

    def open(self) -> Spool:
        """For one request."""
        ...

    def close(self) -> None:
        """Remove all."""
        ...


class Intake:
    """Makes of parts what the engine takes. Belongs to one event loop."""

    def __init__(self, sources: Sources, pool: Pool, spools: Folders) -> None:
        self._sources = sources
        self._pool = pool
        self._spools = spools

    @classmethod
    def of(cls, limits: MediaLimits, folder: Path) -> Intake:
        """For a model folder; only here the packages of the extra `media` are imported.

        Raises:
            OSError: no folder can be made for the files of requests.
        """
        from handlers.media.pool import MediaPool
        from handlers.media.sources import MediaSources
        from handlers.media.spool import Spools

        return cls(MediaSources(limits), MediaPool(limits, folder), Spools(limits))

    async def start(self) -> None:
        """Have a process ready for the first request. Raises Problem where there is none."""
        await self._pool.start()

    async def prepare(self, parts: Sequence[MediaPart], kept: ExitStack, take: Callable[[PreparedMedia], None]) -> None:
        """Read and decode all parts, and hand each on in their order.

        One item of a request is decoded at a time: twenty images of one request must not stand before the first of
        another, and those behind one that makes the prompt too long cost nothing.

        Args:
            parts: of the request.
            kept: what closes when the request has ended; the files go then.
            take: may raise Problem, which ends it.

        Raises:
            Problem: 422 for the first part that cannot be had, 503 without room on the disk or for the decoding.
        """
        spool = self._spools.open()
        kept.callback(spool.close)
        for file in await self._sources.files(parts, spool):
            take(await self._pool.prepare(file, spool))

    async def close(self) -> None:
        """End the processes, and remove all files."""
        self._sources.close()
        await self._pool.close()
        self._spools.close()
