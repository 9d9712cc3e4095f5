"""Processes that do for requests what may take any time, memory or the process itself: they can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from handlers.worker_process import READY

_START_TIME_S: Final = 20.0
_INTERRUPT_S: Final = 5.0
"""In which a worker that was interrupted has to answer."""
_START: Final = "import sys; sys.path.append(sys.argv.pop()); from {module} import main; main()"
"""Finds our modules after all others; an isolated interpreter looks into no folder of ours by itself."""
_ROOT: Final = Path(__file__).parents[1]


class WorkerFault(Exception):
    """A worker gave no answer."""


class WorkersBusy(WorkerFault):
    """No worker came free in time."""


class WorkerTooSlow(WorkerFault):
    """It was killed, since its time was over."""


class WorkerLost(WorkerFault):
    """It ended, of a limit on memory most likely."""


class WorkerNotStarted(WorkerFault):
    """It did not come up."""


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What the workers of a pool get."""

    workers: int
    """Processes at most; started when needed and kept while they behave."""
    time_s: float
    """For one request."""
    wait_s: float
    """How long a request may wait for one of them."""
    memory_bytes: int
    """Of address space, for each."""
    start_s: float = _START_TIME_S
    """For one to come up."""
    interrupts: bool = False
    """Whether a worker whose request was cancelled is told so by SIGUSR1, and answers with a true member
    ``interrupted``; others are killed, and the next request waits until a new one is up."""


class WorkerPool:
    """Runs ``main`` of a module in processes, whose inside is worker_process.py."""

    def __init__(self, module: str, limits: WorkerLimits) -> None:
        """Args:
        module: its ``main`` calls ``worker_process.serve``.
        """
        self._module = module
        self._limits = limits
        self._idle: list[asyncio.subprocess.Process] = []
        self._slots = asyncio.Semaphore(limits.workers)

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """A worker's answer to a request; both are JSON objects.

        Raises:
            WorkerFault: there is none.
        """
        data = json.dumps(request).encode()
        async with self._turn():
            worker = await self._worker()
            whole = False
            reading = asyncio.ensure_future(_ask(worker, data))
            try:
                async with asyncio.timeout(self._limits.time_s):
                    answer = await asyncio.shield(reading)
                whole = not answer.get("last")
            except TimeoutError:
                raise WorkerTooSlow from None
            except (asyncio.IncompleteReadError, ConnectionError):
                raise WorkerLost from None
            except asyncio.CancelledError:
                whole = self._limits.interrupts and await _interrupted(worker, reading)
                raise
            finally:
                if whole:
                    self._idle.append(worker)
                else:
                    await _kill(worker, reading)
        return answer

    async def close(self) -> None:
        """End all idle workers."""
        while self._idle:
            await _kill(self._idle.pop())

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for a worker's turn, but not for ever: endless requests must not line up behind each other."""
        try:
            async with asyncio.timeout(self._limits.wait_s):
                await self._slots.acquire()
        except TimeoutError:
            raise WorkersBusy from None
        try:
            yield
        finally:
            self._slots.release()

    async def _worker(self) -> asyncio.subprocess.Process:
        while self._idle:
            worker = self._idle.pop()
            if worker.returncode is None:
                return worker
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-c",
            _START.format(module=self._module),
            str(self._limits.memory_bytes),
            str(_ROOT),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8", "TZ": os.environ.get("TZ", "")},
            cwd="/",
        )
        started = False
        try:
            assert worker.stdout is not None
            async with asyncio.timeout(self._limits.start_s):
                await worker.stdout.readexactly(len(READY))
            started = True
        except (TimeoutError, asyncio.IncompleteReadError):
            raise WorkerNotStarted from None
        finally:
            if not started:
                await _kill(worker)
        return worker


async def _ask(worker: asyncio.subprocess.Process, data: bytes) -> dict[str, Any]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(struct.pack(">I", len(data)) + data)
    await worker.stdin.drain()
    header = await worker.stdout.readexactly(4)
    answer: dict[str, Any] = json.loads(await worker.stdout.readexactly(struct.unpack(">I", header)[0]))
    return answer


async def _interrupted(worker: asyncio.subprocess.Process, reading: asyncio.Future[dict[str, Any]]) -> bool:
    """Whether a worker left its request and can take another: not one that had just answered, which would take the
    signal for the next request's."""
    try:
        worker.send_signal(signal.SIGUSR1)
    except ProcessLookupError:
        return False
    done, _ = await asyncio.wait([reading], timeout=_INTERRUPT_S)
    return bool(done) and reading.exception() is None and bool(reading.result().get("interrupted"))


async def _kill(worker: asyncio.subprocess.Process, reading: asyncio.Future[dict[str, Any]] | None = None) -> None:
    """End a worker, and what still reads its answer."""
    if worker.returncode is None:
        try:
            worker.kill()
        except ProcessLookupError:
            return
    if reading is not None:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    # Not wait(): asyncio ends it only after the pipe, which it no longer reads where half of a large answer is there.
    await worker.communicate()
