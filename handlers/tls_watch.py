"""The TLS of the listeners: loaded at the start, and again whenever its files change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from handlers.planes import Plane
from handlers.reloading import Stamp, stamp_of
from handlers.tls import TlsError, TlsFiles
from handlers.tls_context import RenewableContext

_REMIND: Final = timedelta(days=1)
"""How often it is said again that something ends soon."""
_log = logging.getLogger(__name__)

Now = Callable[[], datetime]


def utc_now() -> datetime:
    """The time, with its zone."""
    return datetime.now(UTC)


class PlaneTls:
    """One plane's context, and the files that it was made of."""

    def __init__(self, plane: Plane, files: TlsFiles, now: Now) -> None:
        """Raises TlsError for files that cannot be used."""
        from handlers.tls_files import load

        self.plane: Plane = plane
        self.files = files
        self._now = now
        self._stamps = self._look_at()
        self._loaded = load(files, plane, now())
        self.context = RenewableContext(self._loaded.context)
        self._reminded: datetime | None = None
        self._tell(self._loaded.notes)
        self.remind()

    @property
    def cert_until(self) -> datetime:
        """When the server's certificate ends."""
        return self._loaded.cert_until

    async def look(self, always: bool) -> None:
        """Take over files that have changed; where they cannot be used, those before them go on serving."""
        from handlers.tls_files import load

        stamps = self._look_at()
        changed = [path for path, stamp in stamps.items() if stamp != self._stamps.get(path)]
        if changed or always:
            self._stamps = stamps
            try:
                loaded = await asyncio.to_thread(load, self.files, self.plane, self._now())
            except TlsError as error:
                _log.error("the TLS files before it stay in use: %s", error)
            else:
                self._loaded = loaded
                self.context.current = loaded.context
                self._reminded = None
                self._tell(loaded.notes)
                if changed:
                    names = ", ".join(map(str, changed))
                    _log.warning("new connections to the %s plane use the renewed %s", self.plane, names)
        self.remind()

    def remind(self) -> None:
        """Say what ends soon, once a day."""
        from handlers.tls_files import time_notes

        now = self._now()
        if self._reminded is None or now - self._reminded >= _REMIND:
            self._reminded = now
            self._tell(time_notes(self._loaded, self.plane, now))

    def _tell(self, notes: Iterable[str]) -> None:
        for note in notes:
            _log.warning("%s", note)

    def _look_at(self) -> dict[Path, Stamp | None]:
        return {path: stamp_of(path) for path in self.files.all()}


class TlsInUse:
    """The planes that are served with TLS."""

    def __init__(self, planes: Mapping[Plane, PlaneTls]) -> None:
        self.planes = planes

    @classmethod
    def load(cls, files: Mapping[Plane, TlsFiles], now: Now = utc_now) -> TlsInUse:
        """Read the files of each plane.

        Raises:
            TlsError: some cannot be used.
        """
        return cls({plane: PlaneTls(plane, each, now) for plane, each in files.items()})

    @property
    def name(self) -> str:
        """For the log."""
        return "the files of TLS"

    @property
    def contexts(self) -> dict[Plane, ssl.SSLContext]:
        """For the listeners."""
        return {plane: each.context for plane, each in self.planes.items()}

    async def look(self, *, always: bool = False) -> None:
        """Take over what has changed."""
        for plane in self.planes.values():
            await plane.look(always)
