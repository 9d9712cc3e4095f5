"""What is logged, in which form and where to, and the level that may change while the server runs."""

from __future__ import annotations

import atexit
import io
import logging
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Final, Literal, TextIO

from engine.log_form import LOG_FORMS

Form = Literal["text", "json"]
Stream = Literal["stderr", "stdout"]

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
"""Log levels by the names that MindIE and Python have for them, in small letters."""

GATHER_S: Final = 0.02
"""How long lines are gathered before they are written together: waking a thread for each costs more than the line."""
MAX_UNWRITTEN: Final = 10_000
"""Lines that wait while whoever reads them does not; of more, the youngest are dropped and counted."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log of one server; the engine's processes write theirs in the same form and to the same place."""

    level: str = "info"
    """A key of ``LEVELS``."""
    form: Form = "text"
    prompts: bool = False
    """Whether the lines of requests show prompts, answers and what was wrong with a value."""
    stream: Stream = "stderr"


def level_number(name: str) -> int:
    """Python's number of a level, its name in any letter case.

    Raises:
        ValueError: there is no such level.
    """
    try:
        return LEVELS[name.lower()]
    except KeyError:
        raise ValueError(f"{name!r} is none of {', '.join(LEVELS)}") from None


def set_level(name: str) -> None:
    """Log from this level on. Raises ValueError for a name that is none."""
    logging.getLogger().setLevel(level_number(name))


class LogWriter(logging.Handler):
    """Writes lines in a thread: a reader that stands still, or a full disk, costs lines and never an answer."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.lost = 0
        """Lines that were dropped, or could not be written."""
        self._stream = stream
        self._lines: deque[str] = deque()
        self._wanted = threading.Event()
        self._closing = self._writing = False
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Format here, where what the record refers to does not change, and leave the writing."""
        if len(self._lines) >= MAX_UNWRITTEN:
            self.lost += 1
            return
        try:
            self._lines.append(self.format(record))
        except Exception:  # a wrong logging call must not end what it tells of
            self.lost += 1
            return
        if not self._wanted.is_set():
            self._wanted.set()

    def flush(self) -> None:
        """Wait until what has been logged is written, a second at most."""
        end_s = time.monotonic() + 1.0
        while (self._lines or self._writing) and time.monotonic() < end_s:
            time.sleep(0.001)

    def close(self) -> None:
        """Write what is left, unless that takes more than two seconds."""
        self._closing = True
        self._wanted.set()
        self._thread.join(2.0)
        super().close()

    def _write(self) -> None:
        while not (self._closing and not self._lines):
            self._wanted.wait()
            if not self._closing:
                time.sleep(GATHER_S)
            self._wanted.clear()
            count = len(self._lines)
            if not count:
                continue
            self._writing = True
            lines = [self._lines.popleft() for _ in range(count)]
            try:
                self._stream.write("\n".join(lines) + "\n")
                self._stream.flush()
            except (OSError, ValueError):  # the disk is full, or nobody reads any more
                self.lost += count
            self._writing = False


def log_lines_lost() -> int:
    """Lines that this process could not write."""
    return sum(handler.lost for handler in logging.getLogger().handlers if isinstance(handler, LogWriter))


def configure(settings: LogSettings, stream: TextIO | None = None) -> LogWriter:
    """Send everything that this process logs through one writer, uvicorn's lines too.

    Args:
        settings: of the deployment.
        stream: in place of the one that the settings name.
    """
    chosen: TextIO = stream or getattr(sys, settings.stream)
    if isinstance(chosen, io.TextIOWrapper):
        chosen.reconfigure(errors="backslashreplace")
    writer = LogWriter(chosen)
    writer.setFormatter(LOG_FORMS[settings.form]("server", prompts=settings.prompts))
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, LogWriter)]:
        root.removeHandler(old)
        old.close()
    root.addHandler(writer)
    set_level(settings.level)
    logging.captureWarnings(True)
    atexit.register(writer.close)
    return writer
