"""Sentences for whoever started the server, on streams that may be full, closed, or read by nobody."""

from __future__ import annotations

import contextlib
from typing import TextIO


def say(text: str, stream: TextIO) -> None:
    """Print a line at once. A stream that does not take it (a full disk, say) costs the line and nothing else."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=stream, flush=True)
