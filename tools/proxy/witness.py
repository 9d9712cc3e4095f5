"""The proxy's end of the pipe to the process that judges: never waited for, and bounded."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.proxy.frames import Frame, Kind

MAX_UNJUDGED_BYTES: Final = 64 * 2**20
"""What may wait to be judged; what comes on connections beyond that is passed on without."""
_ROOT: Final = Path(__file__).resolve().parents[2]
_PROGRAM: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from tools.proxy.judge import main; sys.exit(main(sys.argv[1:]))"
)


class Witness:
    """Tells another process what passes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """``process``: that of ``start``."""
        self.process = process
        assert process.stdin is not None
        self._pipe = process.stdin.transport
        self._loop = asyncio.get_running_loop()
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._skipped: set[int] = set()

    @classmethod
    async def start(cls, options: Sequence[str]) -> Witness:
        """Start the process; it is one of its own session, so that a terminal's signals do not reach it."""
        program = [sys.executable, "-c", _PROGRAM, str(_ROOT), *options]
        return cls(
            await asyncio.create_subprocess_exec(*program, stdin=asyncio.subprocess.PIPE, start_new_session=True)
        )

    def tell(self, kind: Kind, link: int, payload: bytes = b"") -> None:
        """Pass something on to be judged, after everything else that the loop has to do now."""
        if link in self._skipped:
            if kind not in (Kind.SERVER_CLOSED, Kind.CLIENT_CLOSED):
                return
            self._skipped.discard(link)
        elif self._waiting_bytes + len(payload) > MAX_UNJUDGED_BYTES and kind in (Kind.REQUEST, Kind.BODY, Kind.ANSWER):
            self._skipped.add(link)
            kind, payload = Kind.SKIPPED, b""
        data = Frame(kind, link, time.time(), payload).packed()
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(data)
        self._pending_bytes += len(data)

    @property
    def _waiting_bytes(self) -> int:
        return self._pending_bytes + self._pipe.get_write_buffer_size()

    def _flush(self) -> None:
        data = b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        if not self._pipe.is_closing():
            self._pipe.write(data)

    async def finish(self) -> int:
        """Let everything be judged and counted; returns the exit code."""
        self._flush()
        self._pipe.close()
        return await self.process.wait()
