"""Loads adapters in an engine process: a thread reads the files beside the rounds, and what was read is kept."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from engine.executor import Executor, ReadAdapter
from engine.types import AdapterError
from engine.wire import AdapterLoaded, LoadAdapter

_log = logging.getLogger(__name__)

UNEXPECTED = "the engine failed while it loaded it; the cause is in its log."


class AdapterLoading:
    """The adapters on their way, one file at a time. Belongs to the thread that runs the executor."""

    def __init__(self, executor: Executor, on_read: Callable[[], None]) -> None:
        """``on_read`` is called in another thread when ``finish`` has something to do."""
        self._executor = executor
        self._on_read = on_read
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="adapters")
        self._reading: list[tuple[LoadAdapter, Future[ReadAdapter]]] = []

    def start(self, command: LoadAdapter) -> None:
        """Begin to read an adapter's files."""
        read = self._thread.submit(self._executor.read_adapter, command.folder, command.max_rank)
        self._reading.append((command, read))
        read.add_done_callback(lambda _: self._on_read())

    def finish(self) -> list[AdapterLoaded]:
        """Hand what has been read to the executor; returns what became of it."""
        if not self._reading:
            return []
        done = [entry for entry in self._reading if entry[1].done()]
        self._reading = [entry for entry in self._reading if entry not in done]
        return [AdapterLoaded(command.number, self._keep(command, read)) for command, read in done]

    def _keep(self, command: LoadAdapter, read: Future[ReadAdapter]) -> str | None:
        """None, or why the adapter cannot be had."""
        try:
            self._executor.load_adapter(command.number, command.name, read.result())
        except AdapterError as error:
            return str(error)
        except Exception:
            _log.exception("an adapter was not loaded")
            return UNEXPECTED
        return None
