"""A progress bar on a terminal, single lines anywhere else."""

from __future__ import annotations

import time
from typing import TextIO

_WIDTH = 24


class Progress:
    """Tells how far a run is, what it does, and when it may end."""

    def __init__(self, total: int, stream: TextIO) -> None:
        """``total`` steps; whatever is written goes to ``stream``."""
        self._total = max(total, 1)
        self._stream = stream
        self._done = 0
        self._begun_s = time.monotonic()
        self._bar = stream.isatty()
        self._shown = ""

    def now(self, what: str) -> None:
        """What is being done. Without a terminal, equal lines are written once."""
        share = self._done / self._total
        if not self._bar:
            if what != self._shown:
                self._stream.write(f"[{self._done}/{self._total}] {what}\n")
                self._stream.flush()
            self._shown = what
            return
        filled = round(share * _WIDTH)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        self._stream.write(f"\r\x1b[K{bar} {self._done}/{self._total}{self._rest()}  {what}")
        self._stream.flush()

    def step(self) -> None:
        """One of the steps is over."""
        self._done += 1

    def close(self) -> None:
        """Take the bar away."""
        if self._bar:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _rest(self) -> str:
        if self._done == 0:
            return ""
        left_s = (time.monotonic() - self._begun_s) / self._done * (self._total - self._done)
        return f", {left_s / 60:.0f} min left" if left_s >= 90 else f", {left_s:.0f} s left"
