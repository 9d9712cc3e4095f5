"""A worker that never ends its large answer, as one does that is killed while it writes."""

from __future__ import annotations

import struct
import sys
import time

from handlers.worker_process import READY

ANSWER_BYTES = 1 << 24
PIECE = bytes(1024)


def main() -> None:
    """Write more than the reader keeps unread, then a little now and then."""
    sink = sys.stdout.buffer
    sink.write(READY + struct.pack(">I", ANSWER_BYTES) + bytes(1 << 20))
    sink.flush()
    for _ in range(ANSWER_BYTES // 2 // len(PIECE)):
        sink.write(PIECE)
        sink.flush()
        time.sleep(0.01)
