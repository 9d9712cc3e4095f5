"""The front whose engine is a process of its own, started anew when it dies, and ended when it hangs."""

from __future__ import annotations

import asyncio
import atexit
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace

from engine.front_base import STOPPING, FrontBase
from engine.link import EngineLink
from engine.lora_book import AdapterBook
from engine.process import EngineSpec
from engine.rank_processes import RankProcesses
from engine.scheduler import Limits
from engine.silence import HangLimits, Silence, cpu_seconds
from engine.text.tokenizer import TextTokenizer
from engine.types import AdapterSource, EngineError, ModelInfo
from engine.wire import (
    AdapterLoaded,
    EngineCommand,
    EngineMessage,
    LoadFailed,
    LoadProgress,
    LongStep,
    Ping,
    Quit,
    Ready,
    Round,
    SetLogLevel,
)

_log = logging.getLogger(__name__)

_ENDED = "The engine process ended unexpectedly."
_HUNG = "The engine process did not answer any more and was ended."
_GIVEN_UP = (
    "The engine process ended {deaths} times within {minutes:g} minutes and is not started again; the last one {ended}."
)
_KILLED = "did not answer any more and was killed"
_NOT_STARTED = "The engine process could not be started."
_REMINDED_S = 60.0
"""An engine that loads in silence is spoken of so often."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a front stops starting its engine anew."""

    max_deaths: int = 3
    """So many within the window, and the engine stays down."""
    window_s: float = 300.0


@dataclass(slots=True)
class _Engine:
    """One engine process, with those of its other ranks."""

    processes: RankProcesses
    silence: Silence
    link: EngineLink | None = None
    info: ModelInfo | None = None
    """Of its model, when that is loaded."""
    awaited: set[int] = field(default_factory=set)
    """Adapters that it must load before requests may come."""
    load_failure: LoadFailed | None = None
    asked: bool = False
    """It has been asked for a sign of life, and has said nothing since."""
    reminders: int = 0
    """How often it was said that it loads in silence."""
    hung: bool = False
    over: bool = False


class ProcessFront(FrontBase):
    """A ``Front`` whose engine is a child process, started anew when it dies, and ended when it hangs."""

    def __init__(
        self,
        tokenizer: TextTokenizer,
        spec: EngineSpec,
        *,
        limits: Limits | None = None,
        restart: RestartPolicy | None = None,
        hang: HangLimits | None = None,
        stop_grace_s: float = 5.0,
        adapters: AdapterBook | None = None,
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Args:
        tokenizer: the model's, for this side of the process boundary.
        spec: what the engine process runs; its ``max_batch_size`` and ``max_queue`` are taken from ``limits``.
        limits: batch and queue.
        restart: when to give up on an engine that dies again and again.
        hang: when an engine that says nothing is ended.
        stop_grace_s: seconds that ``stop`` waits before it kills the process.
        adapters: those that every engine process begins with. One that cannot be loaded at the first start is a
            failure of that; at a later one it is left out.
        on_progress: gets the sentences that an engine says while it loads.
        """
        super().__init__(tokenizer, limits or Limits(), adapters)
        self.progress: str | None = None
        """The latest sentence of a loading engine."""
        self._on_progress = on_progress
        self._spec = replace(spec, max_batch_size=self.limits.max_batch_size, max_queue=self.limits.max_queue)
        self._restart = restart or RestartPolicy()
        self._hang = hang or HangLimits()
        self._stop_grace_s = stop_grace_s
        self._deaths: deque[float] = deque()
        self._engine: _Engine | None = None
        self._begun: RankProcesses | None = None
        """An engine that was started before the loop."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the engine."""
        return self._engine.processes.pids[0] if self._engine else None

    @property
    def pids(self) -> list[int]:
        """Process ids of all ranks of the engine; the first is ``pid``."""
        return self._engine.processes.pids if self._engine else []

    def begin(self) -> None:
        """Start the engine process already, before there is a loop to ``start`` in: it loads meanwhile.

        Raises:
            OSError: it cannot be started.
        """
        atexit.register(self._kill)
        self._begun = RankProcesses(self._spec)

    async def start(self) -> None:
        """See ``Front.start``."""
        if self._begun is None:
            atexit.register(self._kill)
        self._watching = asyncio.get_running_loop().create_task(self._watch())
        await self._launch()

    async def stop(self) -> None:
        """See ``Front.stop``."""
        self._set_state("draining")
        self._cancel_all(EngineError("stopping", STOPPING))
        if self._watching is not None:
            self._watching.cancel()
        await asyncio.gather(*self._tasks)  # a process that is being started must be known before it can be ended
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.over = True
            if engine.link is not None:
                engine.processes.unwatch()
                engine.link.send(Quit())
            await asyncio.to_thread(engine.processes.join, self._stop_grace_s)
            if engine.processes.alive:
                engine.processes.kill()
                await asyncio.to_thread(engine.processes.join)
            if engine.link is not None:
                engine.link.close()
            engine.processes.close()
        atexit.unregister(self._kill)

    def note_adapter(self, source: AdapterSource) -> None:
        """Have an adapter when requests may come next; for an engine that is not ready.

        Raises:
            AdapterError: there is no room, or the name is taken.
        """
        command = self.adapters.note(source)
        if self._engine is not None and self._engine.info is not None:
            self._engine.awaited.add(command.number)
            self._send(command)

    def set_log_level(self, level: int) -> None:
        """See ``Front.set_log_level``."""
        self._spec = replace(self._spec, log_level=level)
        self._send(SetLogLevel(level))

    def revive(self) -> None:
        """Start the engine again after it was given up; its deaths are forgotten."""
        if self.lost is not None and self.state == "down":
            self.lost = None
            self._deaths.clear()
            self.counts.engine_restarts += 1
            self._spawn_task(self._launch())

    async def _launch(self) -> None:
        """Start a process and listen to it; it reports when it is ready."""
        if self.state == "draining":
            return
        self._set_state("loading")
        begun, self._begun = self._begun, None
        try:
            processes = begun if begun is not None else await asyncio.to_thread(RankProcesses, self._spec)
        except OSError:
            _log.exception("the engine process could not be started")
            self.lost = "other"
            self._set_state("down", _NOT_STARTED)
            return
        engine = self._engine = _Engine(processes, Silence(self._hang))
        engine.link = EngineLink(
            processes.socket, lambda message: self._on_message(engine, message), lambda: self._on_end(engine)
        )
        processes.watch(engine.link.end)

    def _send(self, command: EngineCommand) -> None:
        if self._engine is not None and self._engine.link is not None:
            self._engine.link.send(command)

    async def _watch(self) -> None:
        """End an engine that hangs."""
        while True:
            await asyncio.sleep(self._hang.tick_s)
            engine = self._engine
            if engine is None or engine.link is None:
                continue
            loading = engine.info is None or bool(engine.awaited)
            stats = self.engine_stats
            owes = loading or engine.asked or bool(self._running) or stats.received != self._sent or not stats.idle
            if not owes:
                engine.asked = owes = True
                self._send(Ping())
            cpu_s, *others = [cpu_seconds(pid) if owes else None for pid in engine.processes.pids]
            measured = self.state != "loading"
            if engine.silence.hangs(owes=owes, loading=loading, cpu_s=cpu_s, measured=measured, others_cpu_s=others):
                _log.error("the engine process does not answer any more; it is killed")
                engine.hung = True
                engine.link.end()
            elif loading and engine.silence.silent_s >= _REMINDED_S * (engine.reminders + 1):
                engine.reminders += 1
                silent_s, said = engine.silence.silent_s, self.progress or "nothing"
                _log.warning("the engine loads and has been silent for %d s; it said last: %s", silent_s, said)

    def _on_message(self, engine: _Engine, message: EngineMessage) -> None:
        engine.silence.broken(message.expected_s if isinstance(message, LongStep) else 0.0)
        engine.asked = False
        match message:
            case Round(outputs, stats):
                self._receive(outputs, stats)
            case LoadProgress(sentence):
                self.progress = sentence
                self._on_progress(sentence)
            case Ready(info, stats):
                engine.info = info
                self.engine_stats = stats
                for command in self.adapters.commands():
                    engine.awaited.add(command.number)
                    self._send(command)
                self._begin_when_loaded(engine)
            case AdapterLoaded(number, failure):
                if failure is not None and number in engine.awaited:
                    sentence = f"The adapter {self.adapters.name_of(number)!r} cannot be loaded: {failure}"
                    if self.info is None:
                        engine.load_failure = LoadFailed(sentence, "weights")
                    else:
                        _log.error("%s It is left out.", sentence)
                self._adapter_answered(message)
                if number in engine.awaited:
                    engine.awaited.discard(number)
                    self._begin_when_loaded(engine)
            case LoadFailed():
                engine.load_failure = message

    def _begin_when_loaded(self, engine: _Engine) -> None:
        """Requests may come once the model and its adapters are there, and a token has been generated."""
        if engine.awaited or engine.info is None:
            return
        if engine.load_failure is not None:
            self._send(Quit())  # its end is reported like that of an engine without a model
            return
        self.info = engine.info
        self._spawn_task(self._warm_up(engine))

    async def _warm_up(self, engine: _Engine) -> None:
        """An engine that cannot generate is as good as dead."""
        try:
            await self._probe(None)  # silence has its own limits
        except EngineError as error:
            if engine is self._engine and self.state == "loading" and engine.link is not None:
                _log.error("the engine generates nothing: %s", error.message)
                engine.link.end()
            return
        if engine is self._engine and self.state == "loading" and not engine.awaited:
            self._set_state("ready")

    def _on_end(self, engine: _Engine) -> None:
        """The process is gone, or its end of the socket is, which is as bad."""
        engine.processes.unwatch()
        if engine.over:
            return
        engine.over = True
        self._engine = None
        if engine.hung:
            engine.processes.kill()
        why = _HUNG if engine.hung else _ENDED
        self._fail_all("engine_down", why)
        if self.state != "draining":
            self._set_state("down", why)
        self._spawn_task(self._after_end(engine))

    async def _after_end(self, engine: _Engine) -> None:
        """Wait for the process's end, say how it came, and begin again unless that would help nothing."""
        ended = await asyncio.to_thread(engine.processes.end)
        if engine.hung:
            ended = _KILLED
        if engine.load_failure is not None:
            ended = f"could not load: {engine.load_failure.sentence.rstrip('.')}"
        engine.processes.close()
        if self.state == "draining":
            return
        if engine.load_failure is not None and self.info is None:
            # The first load says what is wrong with the model or the machine; another try would say the same.
            self.lost = engine.load_failure.cause
            self._set_state("down", engine.load_failure.sentence)
            return
        now = time.monotonic()
        self._deaths.append(now)
        while self._deaths[0] < now - self._restart.window_s:
            self._deaths.popleft()
        if len(self._deaths) >= self._restart.max_deaths:
            minutes = self._restart.window_s / 60
            sentence = _GIVEN_UP.format(deaths=len(self._deaths), minutes=minutes, ended=ended)
            _log.error(sentence)
            self.lost = "deaths"
            self._set_state("down", sentence)
            return
        _log.error("the engine process %s; it is started again", ended)
        self.counts.engine_restarts += 1
        await self._launch()

    def _spawn_task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _kill(self) -> None:
        # At the interpreter's end, where nobody called ``stop``: multiprocessing would wait for the engine for ever.
        processes = self._engine.processes if self._engine else self._begun
        if processes is not None:
            processes.kill()
