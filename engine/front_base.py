"""What every front does wherever its engine runs: admit requests, route the engine's reports, end generations."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Literal

from engine.generation import Generation, GenerationState
from engine.log_form import PRIVATE
from engine.lora_book import AdapterBook
from engine.probes import Probes
from engine.scheduler import QUEUE_FULL, Limits
from engine.stats import EngineStats
from engine.tally import Observed
from engine.text.output import RequestText
from engine.text.tokenizer import TextTokenizer
from engine.types import (
    AdapterError,
    AdapterSource,
    ChoiceDelta,
    EngineError,
    FailureCode,
    LoadFailureCause,
    ModelInfo,
    Request,
    RequestFailure,
    StepOutput,
)
from engine.wire import AdapterLoaded, Cancel, EngineCommand, RemoveChoice, Submit, UnloadAdapter

_log = logging.getLogger(__name__)

State = Literal["loading", "ready", "draining", "down"]
LostCause = LoadFailureCause | Literal["deaths"]
"""Why there is no engine any more: it could not be loaded, or it died too often."""

LOADING = "The model is still loading."
STOPPING = "The server is stopping."
DOWN = "The engine is down."
_INCOMPLETE = "The engine ended this request before it was complete."


@dataclass(slots=True)
class FrontCounts:
    """What has happened since the front was made, however often the engine was started."""

    prompt_tokens: int = 0
    """Of requests that have begun to be answered."""
    generated_tokens: int = 0
    """In answers."""
    engine_restarts: int = 0
    preemptions: int = 0
    """Of engines that are gone; the one that runs tells its own."""


@dataclass(slots=True)
class _Running:
    number: int
    """Of the submission, from 1 for each start of the engine."""
    text: RequestText
    state: GenerationState
    width: int
    adapter_number: int = 0
    started: bool = False
    """A round has been reported, so it is in the batch and not in the queue."""


class FrontBase(ABC):
    """Routing between the engine's messages and the generations; subclasses say how commands reach the engine."""

    def __init__(self, tokenizer: TextTokenizer, limits: Limits, adapters: AdapterBook | None = None) -> None:
        self.tokenizer = tokenizer
        self.limits = limits
        self.adapters = adapters or AdapterBook()
        self._loads: dict[int, asyncio.Future[None]] = {}
        self.info: ModelInfo | None = None
        self.state: State = "loading"
        self.failure: str | None = None
        self.engine_stats = EngineStats()
        """The engine's state, as it said last; a new engine's is all zeros."""
        self.counts = FrontCounts()
        self.observed = Observed()
        self._running: dict[str, _Running] = {}
        self._submitted = 0
        self._sent = 0
        """Requests that this start of the engine was sent."""
        self._unstarted = 0
        self._unstarted_gone = 0
        """Requests that ended unstarted since the engine has told its state."""
        self.lost: LostCause | None = None
        """Set when the engine is down and not started again."""
        self._probes = Probes()
        self._changed: set[asyncio.Future[None]] = set()

    @property
    def running(self) -> int:
        """Requests that have been submitted and are not over."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that wait for room and have never run, so far as is known: there are at least so many."""
        for_place = self._waiting_for_place
        stats = self.engine_stats
        if not (stats.full and stats.waiting):
            return for_place
        # Those that it found no room for, without those that are gone since; and all that it has not seen yet.
        unseen = 0
        for running in reversed(self._running.values()):
            if running.number <= stats.received:
                break
            unseen += 1
        return max(for_place, min(self._unstarted, stats.waiting - self._unstarted_gone + unseen))

    @property
    def _waiting_for_place(self) -> int:
        """Requests for which the batch has no place, whatever memory there is."""
        free = self.limits.max_batch_size - sum(
            running.text.open_choices for running in self._running.values() if running.started
        )
        fits = 0
        for running in self._running.values():
            if not running.started:
                if running.width > free and free < self.limits.max_batch_size:
                    break
                free -= running.width
                fits += 1
        return self._unstarted - fits

    @property
    def total_slots(self) -> int:
        """See ``Front.total_slots``."""
        return self.limits.max_batch_size

    @property
    def free_slots(self) -> int:
        """See ``Front.free_slots``."""
        taken = sum(running.text.open_choices for running in self._running.values())
        return max(0, self.total_slots - taken) if self.state == "ready" else 0

    @property
    def usage_percent(self) -> float:
        """See ``Front.usage_percent``."""
        executor = self.engine_stats.executor
        memory = executor.memory
        pages = memory.pages_used / memory.pages_total if memory is not None and memory.pages_total else 0.0
        return 100 * max(pages, min(1.0, executor.running / self.limits.max_batch_size))

    def submit(self, request: Request) -> Generation:
        """See ``Front.submit``.

        Raises:
            EngineError: loading, stopping, engine_down, queue_full or unknown_model.
        """
        self._refuse_unless_ready()
        # Only a long line is worth a closer look at who waits and who merely has not reported yet.
        if self._unstarted >= self.limits.max_queue and not self._has_room(request.sampling.n):
            raise EngineError("queue_full", QUEUE_FULL.format(waiting=self.limits.max_queue))
        # Clients may choose equal ids, and a report on a cancelled request may still be on its way.
        self._submitted += 1
        self._sent += 1
        request = replace(request, request_id=f"{self._submitted}:{request.request_id}")
        text = RequestText(request, self.tokenizer)
        running = _Running(self._sent, text, GenerationState(), request.sampling.n)
        if request.adapter is not None:
            running.adapter_number = self.adapters.take(request.adapter)
            request = replace(request, adapter_number=running.adapter_number)
        self._running[request.request_id] = running
        self._unstarted += 1
        self._send(Submit(request, time.monotonic_ns()))
        name = request.request_id
        return Generation(running.state, text.stats, lambda: self._cancel(name), lambda: self._stop(name))

    async def wait_ready(self) -> None:
        """See ``Front.wait_ready``."""
        while self.state == "loading" or (self.state == "down" and self.lost is None):
            await self.change()
        if self.state == "down":
            raise EngineError("engine_down", self.failure or DOWN)
        if self.state == "draining":
            raise EngineError("stopping", STOPPING)

    async def wait_lost(self) -> LostCause:
        """See ``Front.wait_lost``."""
        while self.lost is None:
            await self.change()
        return self.lost

    async def probe(self, timeout_s: float) -> None:
        """See ``Front.probe``."""
        self._refuse_unless_ready()
        await self._probe(timeout_s)

    async def drain(self, timeout_s: float) -> None:
        """See ``Front.drain``."""
        self._set_state("draining")
        try:
            async with asyncio.timeout(timeout_s):
                while self._running:
                    await self.change()
        except TimeoutError:
            self.cut()

    def set_log_level(self, level: int) -> None:
        """See ``Front.set_log_level``."""
        return  # an engine in this process logs as the rest of it does

    def cut(self) -> None:
        """See ``Front.cut``."""
        self._cancel_all(EngineError("stopping", STOPPING))

    async def load_adapter(self, source: AdapterSource) -> None:
        """See ``Front.load_adapter``."""
        self._refuse_unless_ready()
        command = self.adapters.begin(source)
        done = self._loads[command.number] = asyncio.get_running_loop().create_future()
        self._send(command)
        await done

    def unload_adapter(self, name: str) -> None:
        """See ``Front.unload_adapter``."""
        number = self.adapters.leave(name)
        if number is not None:
            self._send(UnloadAdapter(number))

    @abstractmethod
    def _send(self, command: EngineCommand) -> None:
        """Hand a command to the engine without waiting."""

    def _receive(self, outputs: list[StepOutput | RequestFailure], stats: EngineStats | None = None) -> None:
        """Take one round's report: to the texts, and from them to whoever waits. ``stats`` None: as before."""
        now_s = time.monotonic()
        for output in outputs:
            running = self._running.get(output.request_id)
            if running is None:  # a probe, or it was cancelled while this report was on its way
                if self._probes.take(output) and isinstance(output, StepOutput) and not output.done:
                    self._send(Cancel(output.request_id))
                continue
            if isinstance(output, RequestFailure):
                self._finish(output.request_id, EngineError(output.code, output.message))
                continue
            state = running.state
            if running.started:
                self.observed.round(now_s - state.heard_s, output)
            else:
                running.started = True
                state.first_s = now_s
                self._unstarted -= 1
                self.counts.prompt_tokens += running.text.stats.prompt_tokens
                self.observed.prompt_tokens.add(running.text.stats.prompt_tokens)
            state.heard_s = now_s
            try:
                progress = running.text.take(output)
            except Exception:
                _log.exception("a request's output could not be turned into text", extra=PRIVATE)
                self._send(Cancel(output.request_id))
                self._finish(output.request_id, EngineError("internal", _INCOMPLETE))
                continue
            self._tell(state, progress.deltas)
            if not output.done:
                for choice in progress.ended_by_text:
                    self._send(RemoveChoice(output.request_id, choice))
            if running.text.finished:
                self._finish(output.request_id)
            elif output.done:
                self._finish(output.request_id, EngineError("internal", _INCOMPLETE))
        if stats is not None:
            self.engine_stats = stats
            self._unstarted_gone = 0

    def _tell(self, state: GenerationState, deltas: list[ChoiceDelta]) -> None:
        state.add(deltas)
        for delta in deltas:
            self.counts.generated_tokens += delta.token_count
            state.generated += delta.token_count
            if delta.finish_reason is not None:
                state.reasons.append(delta.finish_reason)

    async def _probe(self, timeout_s: float | None) -> None:
        """Generate one token beside all requests. Raises EngineError as ``Front.probe`` does."""
        request = self._probes.begin()
        self._sent += 1
        self._send(Submit(request, time.monotonic_ns()))
        try:
            await self._probes.outcome(request, timeout_s)
        except EngineError as error:
            if error.code == "timeout":
                self._send(Cancel(request.request_id))
            raise

    def _adapter_answered(self, answer: AdapterLoaded) -> None:
        """The engine has an adapter, or cannot have it."""
        if answer.failure is None:
            self.adapters.loaded(answer.number)
        else:
            self.adapters.drop(answer.number)
        done = self._loads.pop(answer.number, None)
        if done is not None and not done.done():
            done.set_exception(AdapterError(answer.failure)) if answer.failure else done.set_result(None)

    def _fail_loads(self, error: EngineError) -> None:
        """The engine is gone: whoever waits for an adapter gets this error."""
        for number, done in self._loads.items():
            self.adapters.drop(number)
            if not done.done():
                done.set_exception(error)
        self._loads.clear()

    def _refuse_unless_ready(self) -> None:
        if self.state == "loading":
            raise EngineError("loading", LOADING)
        if self.state == "draining":
            raise EngineError("stopping", STOPPING)
        if self.state == "down":
            raise EngineError("engine_down", DOWN)

    def _finish(self, request_id: str, error: EngineError | None = None) -> None:
        running = self._running.pop(request_id)
        if running.started:
            self.observed.generated_tokens.add(running.state.generated)
        else:
            self._unstarted -= 1
            self._unstarted_gone += 1
        if running.adapter_number and self.adapters.give_back(running.adapter_number):
            self._send(UnloadAdapter(running.adapter_number))
        running.state.end(error)
        if not self._running:
            self._announce()

    def _fail_all(self, code: FailureCode, message: str) -> None:
        """The engine is gone: every generation ends with this error, and the next engine starts from nothing."""
        for request_id in list(self._running):
            self._finish(request_id, EngineError(code, message))
        self.counts.preemptions += self.engine_stats.executor.preemptions
        self.engine_stats = EngineStats()
        self._sent = 0
        self._fail_loads(EngineError(code, message))
        self._probes.fail(EngineError(code, message))

    def _cancel_all(self, error: EngineError) -> None:
        for request_id in list(self._running):
            self._send(Cancel(request_id))
            self._finish(request_id, error)
        self._fail_loads(error)
        self._probes.fail(error)

    def _cancel(self, request_id: str) -> None:
        if request_id in self._running:
            self._send(Cancel(request_id))
            self._finish(request_id)

    def _stop(self, request_id: str) -> None:
        running = self._running.get(request_id)
        if running is not None:
            self._tell(running.state, running.text.stop())
            self._cancel(request_id)

    def _has_room(self, width: int) -> bool:
        waiting = self.waiting
        if waiting:
            return waiting < self.limits.max_queue
        live = sum(running.text.open_choices for running in self._running.values())
        return self.limits.max_queue > 0 or live == 0 or live + width <= self.limits.max_batch_size

    def _set_state(self, state: State, failure: str | None = None) -> None:
        if (self.state, state) == ("ready", "draining") or (state == "ready" and self.counts.engine_restarts):
            _log.info("the engine is %s", state, extra={"fields": {"restarts": self.counts.engine_restarts}})
        self.state, self.failure = state, failure
        self._announce()

    async def change(self) -> None:
        """Wait until the state changes or the last request ends."""
        await self.next_change()

    def next_change(self) -> asyncio.Future[None]:
        """Done when the state changes or the last request ends the next time."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.add(change)
        change.add_done_callback(self._changed.discard)
        return change

    def _announce(self) -> None:
        for change in list(self._changed):
            if not change.done():
                change.set_result(None)
