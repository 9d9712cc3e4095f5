"""Runs a function in a forked process: a hostile file finds no other request's memory there, and may end it at will."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

_MAX_ANSWER_BYTES: Final = 1 << 16
_PR_SET_PDEATHSIG: Final = 1


class Children:
    """Forks one child for each call, which ends in time, when ``interrupt`` is called, or with this process."""

    def __init__(self, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Args:
        answer: takes and gives JSON objects.
        """
        self._answer = answer
        self._child = 0
        self._interrupted = False
        # Found now: the child of a process with threads should look for as little as possible.
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def ask(self, request: dict[str, Any], time_s: float) -> dict[str, Any]:
        """The function's answer; or ``{"interrupted": true}``; or ``{"late": true}`` where it took longer; or
        ``{"ended": signal or status}`` where the child ended without one."""
        read, write = os.pipe()
        parent = os.getpid()
        self._child = os.fork()
        if not self._child:
            self._run(request, parent, write)
        os.close(write)
        if self._interrupted:  # before there was anything to end
            os.kill(self._child, signal.SIGKILL)
        data, late = self._read(read, time_s)
        os.close(read)
        if late:
            os.kill(self._child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(self._reaped())
        if self.was_interrupted():
            return {"interrupted": True}
        if late:
            return {"late": True}
        try:
            answer = json.loads(data)
        except ValueError:
            answer = None
        return answer if isinstance(answer, dict) else {"ended": -status if status < 0 else status}

    def interrupt(self) -> None:
        """End the child that runs, or the one that is about to; for a handler of signals."""
        self._interrupted = True
        if self._child:
            os.kill(self._child, signal.SIGKILL)

    def was_interrupted(self) -> bool:
        """Whether the request that is being answered was; it is told once."""
        interrupted, self._interrupted = self._interrupted, False
        return interrupted

    def _reaped(self) -> int:
        child = self._child
        # Until it is reaped its number is nobody else's; afterwards it may be, and must not be killed.
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        self._child = 0
        return os.waitpid(child, 0)[1]

    def _run(self, request: dict[str, Any], parent: int, write: int) -> None:
        try:
            if self._libc is not None:
                self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == parent:
                # The pipes to the server are the parent's: nothing that runs here may speak on them.
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, 0)
                os.dup2(nowhere, 1)
                with open(write, "wb") as sink:
                    sink.write(json.dumps(self._answer(request)).encode())
        finally:
            os._exit(0)

    def _read(self, pipe: int, time_s: float) -> tuple[bytes, bool]:
        """What came until the pipe's end, and whether that came too late or was too much."""
        deadline = time.monotonic() + time_s
        data = b""
        while len(data) <= _MAX_ANSWER_BYTES:
            rest = deadline - time.monotonic()
            if rest <= 0 or not select.select([pipe], [], [], rest)[0]:
                return data, True
            piece = os.read(pipe, _MAX_ANSWER_BYTES)
            if not piece:
                return data, False
            data += piece
        return data, True
