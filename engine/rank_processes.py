"""The processes of one engine, one a rank, as the front sees them: started, watched and ended together."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.context import SpawnProcess

from engine.process import EngineSpec, run_engine, run_follower

END_S = 1.0
"""What the first process gets to end by itself where another is gone, or its socket is closed: it then says why."""


class RankProcesses:
    """The first speaks to the front, and to the others, which nobody else speaks to. When one ends, all do."""

    def __init__(self, spec: EngineSpec) -> None:
        """Start them.

        Raises:
            OSError: that cannot be done; none is left.
        """
        context = multiprocessing.get_context("spawn")
        self.socket, its = socket.socketpair()
        """Our end of the socket to the first process."""
        pipes = [context.Pipe() for _ in range(spec.ranks - 1)]
        first = context.Process(target=run_engine, args=(its, spec, [mine for mine, _ in pipes]), name="engine")
        others = [
            context.Process(target=run_follower, args=(other, spec, rank), name=f"engine-rank-{rank}")
            for rank, (_, other) in enumerate(pipes, 1)
        ]
        self._all: list[SpawnProcess] = []
        self._first_gone: int | None = None
        try:
            for process in (first, *others):
                process.start()
                self._all.append(process)
        except OSError:
            self.kill()
            self.socket.close()
            raise
        finally:
            its.close()
            for pipe in pipes:
                for end in pipe:
                    end.close()

    @property
    def pids(self) -> list[int]:
        """Process ids by rank."""
        return [process.pid for process in self._all if process.pid is not None]

    @property
    def alive(self) -> bool:
        """Whether any still runs."""
        return any(process.is_alive() for process in self._all)

    def watch(self, on_end: Callable[[], None]) -> None:
        """Call ``on_end``, perhaps more than once, when the first process has ended, or soon after another has.

        Belongs to the running loop.
        """
        for rank, process in enumerate(self._all):
            asyncio.get_running_loop().add_reader(process.sentinel, partial(self._gone, rank, on_end))

    def unwatch(self) -> None:
        """Undo ``watch``; again is fine."""
        for process in self._all:
            asyncio.get_running_loop().remove_reader(process.sentinel)

    def kill(self) -> None:
        """End those that run still, stopped ones too."""
        for process in self._all:
            process.kill()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until all have ended, or for so long."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        for process in self._all:
            process.join(None if deadline_s is None else max(0.0, deadline_s - time.monotonic()))

    def end(self) -> str:
        """Wait a little for the first to end, end all, and say how it came, as the end of a sentence."""
        self._all[0].join(END_S)
        self.kill()
        self.join()
        rank = self._first_gone or 0
        ended = how_it_ended(self._all[rank].exitcode or 0)
        return f"lost its rank {rank}, which {ended}" if rank else ended

    def close(self) -> None:
        """Let go of what the system holds of processes that have ended."""
        for process in self._all:
            process.close()

    def _gone(self, rank: int, on_end: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._all[rank].sentinel)
        if self._first_gone is None:
            self._first_gone = rank
        if rank:
            loop.call_later(END_S, on_end)
        else:
            on_end()


def how_it_ended(exit_code: int) -> str:
    """What an exit code of ``multiprocessing`` says, as the end of a sentence."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    hint = " (as the system does when memory is short)" if -exit_code == signal.SIGKILL else ""
    return f"was ended by {name}{hint}"
