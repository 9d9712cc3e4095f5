"""Follows config.json while the server runs: applies what reloads, names what needs a restart, keeps old values of a
broken file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from handlers.config_file import ConfigError, ConfigFile, key_of, leaves, path_text
from handlers.reloading import stamp_of
from handlers.service import Service
from handlers.settings import Settings

_log = logging.getLogger(__name__)

Reread = Callable[[], tuple[ConfigFile, Settings]]
"""Reads the file anew, as at a start. Raises ConfigError."""


@dataclass(frozen=True, slots=True)
class DynamicLevel:
    """LogConfig of a file: a log level that holds for some hours."""

    level: str
    until: datetime

    @classmethod
    def of(cls, file: ConfigFile, now: datetime) -> DynamicLevel | None:
        """The level that a file asks for; its hours count from its own time, or from ``now`` without one."""
        level = file.value("LogConfig.dynamicLogLevel")
        if not level:
            return None
        hours = file.value("LogConfig.dynamicLogLevelValidHours") or 2
        since = file.value("LogConfig.dynamicLogLevelValidTime")
        begun = datetime.fromisoformat(since) if since else now
        return cls(str(level).lower(), begun + timedelta(hours=hours))


class ConfigWatch:
    """Looks at the file of a running server, and changes its service."""

    def __init__(
        self,
        service: Service,
        file: ConfigFile,
        reread: Reread,
        base_level: str,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        """Args:
        service: what changes.
        file: as it was at the start.
        reread: see ``Reread``.
        base_level: the log level without LogConfig.
        now: the local time.
        """
        self._service = service
        self._file = file
        self._reread = reread
        self._base_level = base_level
        self._now = now
        self._stamp = stamp_of(file.path)
        self._dynamic = DynamicLevel.of(file, now())
        self._level: str | None = None
        self._follow_level()

    @property
    def name(self) -> str:
        """The file."""
        return str(self._file.path)

    async def look(self, *, always: bool = False) -> None:
        """Take over what has changed; with ``always`` read a file that looks the same, too."""
        stamp = stamp_of(self._file.path)
        if always or stamp != self._stamp:
            self._stamp = stamp
            await self._reload()
        self._follow_level()

    async def _reload(self) -> None:
        try:
            file, settings = await asyncio.to_thread(self._reread)
        except ConfigError as error:
            faults = "; ".join(str(fault) for fault in error.faults)
            _log.error("%s cannot be used, the values before it stay: %s", self._file.path, faults)
            return
        old, new = _values(self._file), _values(file)
        changed = [path for path in {**old, **new} if old.get(path) != new.get(path)]
        self._file = file
        if not changed:
            return
        waiting = [path for path in changed if not _reloads(path)]
        applied = [path for path in changed if _reloads(path)]
        service = self._service
        service.reload(
            replace(
                service.settings,
                open_ai_support=settings.open_ai_support,
                token_timeout=settings.token_timeout,
                e2e_timeout=settings.e2e_timeout,
            )
        )
        if any(path[0] == "LogConfig" for path in applied):
            self._dynamic = DynamicLevel.of(file, self._now())
        for path in applied:
            _log.warning("%s: %s is now %r", file.path, path_text(path), new.get(path, "absent"))
        if waiting:
            names = ", ".join(path_text(path) for path in waiting)
            _log.warning("%s: a restart is needed for what changed in %s", file.path, names)

    def _follow_level(self) -> None:
        dynamic = self._dynamic
        level = dynamic.level if dynamic is not None and self._now() < dynamic.until else self._base_level
        if level != self._level:
            self._service.set_log_level(level)
            self._level = level


def _values(file: ConfigFile) -> dict[tuple[str | int, ...], Any]:
    return dict(leaves(file.raw))


def _reloads(path: tuple[str | int, ...]) -> bool:
    key = key_of(path)
    return key is not None and key.reload
