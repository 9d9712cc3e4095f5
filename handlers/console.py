"""Sentences for whoever started the server, on streams that may be full, closed, or read by nobody."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def say(text: str, stream: TextIO) -> None:
    """Print a line at once. A stream that does not take it (a full disk, say) costs the line and nothing else."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=stream, flush=True)


def let_go() -> None:
    """Forget what the standard streams did not take, else Python would end with exit code 120; for ``atexit``."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
