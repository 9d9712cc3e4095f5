"""The loop body inside an engine: a queue, admission in order of arrival, one executor round at a time, and stamps."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from engine.executor import Executor, RankLost, RequestRound
from engine.stats import EngineStats
from engine.types import GrammarError, Request, RequestFailure, StepOutput
from engine.wire import Cancel, EngineCommand, RemoveChoice, Submit

_log = logging.getLogger(__name__)

ROUND_FAILED = "The engine failed while it ran this request."
QUEUE_FULL = "The queue is full: {waiting} requests wait already."
_FAILED_ROUNDS_IN_A_ROW = 3
"""After so many the executor is taken to be broken for good (a lost device, say)."""
_IDLE_S = 0.002


class EngineBroken(Exception):
    """The executor cannot go on; its process has to be started anew. ``outputs`` are still to be delivered."""

    def __init__(self, outputs: list[StepOutput | RequestFailure]) -> None:
        super().__init__("the executor cannot go on")
        self.outputs = outputs


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an engine takes on."""

    max_batch_size: int = 64
    """Sequences that run at the same time, over all requests."""
    max_queue: int = 1024
    """Requests that may wait for room; more are refused."""


@dataclass(slots=True)
class _Waiting:
    request: Request
    submitted_ns: int


@dataclass(slots=True)
class _Live:
    """The time since an admitted request's last token, or since its submission."""

    since_ns: int
    ran_ns: int = 0
    """Of it, in rounds that ran a part of its prompt."""
    reserved: bool = False
    """It has a place of its own."""


class Scheduler:
    """Admits requests in order of arrival and runs rounds. Not thread safe."""

    def __init__(
        self,
        executor: Executor,
        max_batch_size: int,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        *,
        max_queue: int | None = None,
    ) -> None:
        """Args:
        executor: what runs the rounds.
        max_batch_size: sequences that run at the same time.
        clock_ns: must be the clock that submission times were taken with.
        max_queue: requests that may wait after a round has begun; of more, the youngest fail. None: any number.
        """
        self._executor = executor
        self._max_batch_size = max_batch_size
        self._max_queue = max_queue
        self._clock_ns = clock_ns
        self._queue: deque[_Waiting] = deque()
        self._live: dict[str, _Live] = {}
        self._refused: list[RequestFailure] = []
        self._failed_rounds = 0
        self._received = 0
        self._full = False

    @property
    def has_work(self) -> bool:
        """A round would do something."""
        return bool(self._queue or self._live or self._refused)

    @property
    def queued(self) -> int:
        """Requests that wait to be admitted."""
        return len(self._queue)

    @property
    def stats(self) -> EngineStats:
        """The state between two rounds."""
        return EngineStats(self._received, len(self._queue), self._full, self._executor.stats)

    def apply(self, command: EngineCommand) -> None:
        """Obey the front, in what concerns requests; the rest is for whoever runs the rounds."""
        match command:
            case Submit(request, submitted_ns):
                self.submit(request, submitted_ns)
            case Cancel(request_id):
                self.cancel(request_id)
            case RemoveChoice(request_id, choice):
                self.remove_choice(request_id, choice)
            case _:
                pass

    def submit(self, request: Request, submitted_ns: int) -> None:
        """Queue a request that was submitted at ``submitted_ns``, or refuse it when it can never run.

        One with a reserved place comes first, and is admitted whatever runs.
        """
        self._received += 1
        refusal = self._executor.refuse(request)
        if refusal is not None:
            self._refused.append(RequestFailure(request.request_id, "too_long", refusal))
            return
        try:
            self._executor.prepared(request)
        except GrammarError as error:
            self._refused.append(RequestFailure(request.request_id, "unsupported", str(error)))
            return
        waiting = _Waiting(request, submitted_ns)
        if request.reserved:
            self._queue.appendleft(waiting)
        else:
            self._queue.append(waiting)

    def cancel(self, request_id: str) -> None:
        """Forget a request, queued or running; an unknown id is fine."""
        self._full = False
        if self._live.pop(request_id, None) is not None:
            self._executor.remove(request_id)
        else:
            self._queue = deque(waiting for waiting in self._queue if waiting.request.request_id != request_id)

    def remove_choice(self, request_id: str, choice: int) -> None:
        """End one choice of a running request, from outside."""
        self._full = False
        if request_id in self._live and not self._executor.remove_choice(request_id, choice):
            del self._live[request_id]

    def run_round(self) -> list[StepOutput | RequestFailure]:
        """Admit what fits, run one round and report it.

        Raises:
            EngineBroken: the round failed, and the executor cannot go on.
            RankLost: the same, and whose requests have failed is for the front to tell, which sees who ended.
        """
        outputs: list[StepOutput | RequestFailure] = [*self._refused]
        self._refused.clear()
        try:
            self._admit(outputs)
            if not self._live:
                if self._queue:
                    time.sleep(_IDLE_S)  # all of them are being prepared, in other threads
                return outputs
            start = self._clock_ns()
            rounds = self._executor.step()
        except RankLost:
            raise
        except Exception:
            _log.exception("a round failed")
            self._fail_running(outputs)
            return outputs
        self._failed_rounds = 0
        end = self._clock_ns()
        batch_size = self._executor.sequences_run
        for round_ in rounds:
            live = self._live[round_.request_id]
            live.ran_ns += end - start
            if round_.prefilling:
                continue  # its time is reported with the token that it leads to
            outputs.append(_report(round_, batch_size, end - live.since_ns - live.ran_ns, live.ran_ns))
            if self._full and (round_.done or any(token.finish_reason for token in round_.tokens)):
                self._full = False
            if round_.done:
                del self._live[round_.request_id]
            else:
                live.since_ns, live.ran_ns = end, 0
        return outputs

    def _admit(self, outputs: list[StepOutput | RequestFailure]) -> None:
        if not self._queue:
            return
        newest, blocked = self._admit_what_fits(outputs)
        unstarted = self._executor.stats.unstarted
        self._full = blocked or bool(unstarted)
        if self._full and self._max_queue is not None:
            # Only here it is known who waits: the front has sent them while a round was running.
            message = QUEUE_FULL.format(waiting=self._max_queue)
            while self._queue and len(self._queue) + unstarted > self._max_queue:
                outputs.append(RequestFailure(self._queue.pop().request.request_id, "queue_full", message))
            if newest is not None and unstarted > self._max_queue:
                self.cancel(newest)
                outputs.append(RequestFailure(newest, "queue_full", message))

    def _admit_what_fits(self, outputs: list[StepOutput | RequestFailure]) -> tuple[str | None, bool]:
        """In order of arrival; requests that are being prepared let others pass, for so long.

        Returns:
            The id of the last request that was admitted, the only one that may wait in the executor, if any; and
            whether one found no room.
        """
        newest = None
        place = 0
        while place < len(self._queue):
            head = self._queue[place]
            try:
                if not self._executor.prepared(head.request):
                    place += 1
                    continue
            except GrammarError as error:
                del self._queue[place]
                outputs.append(RequestFailure(head.request.request_id, "unsupported", str(error)))
                continue
            if not head.request.reserved and not self._has_room(head.request):
                return newest, True
            del self._queue[place]
            try:
                self._executor.add(head.request)
            except RankLost:
                raise
            except Exception:
                _log.exception("a request was not admitted")
                outputs.append(RequestFailure(head.request.request_id, "internal", ROUND_FAILED))
            else:
                self._live[head.request.request_id] = _Live(head.submitted_ns, reserved=head.request.reserved)
                if not head.request.reserved:
                    newest = head.request.request_id
        return newest, False

    def _has_room(self, request: Request) -> bool:
        live = self._executor.live_sequences - sum(live.reserved for live in self._live.values())
        # A request wider than the limit runs when nothing else does.
        if live and live + request.sampling.n > self._max_batch_size:
            return False
        return self._executor.can_admit(request)

    def _fail_running(self, outputs: list[StepOutput | RequestFailure]) -> None:
        """End every request of the failed round, and find out whether the executor lets go of them."""
        request_ids = list(self._live)
        self._live.clear()
        outputs += [RequestFailure(request_id, "internal", ROUND_FAILED) for request_id in request_ids]
        self._failed_rounds += 1
        try:
            for request_id in request_ids:
                self._executor.remove(request_id)
            clean = self._executor.live_sequences == 0
        except Exception:
            _log.exception("the executor did not let go of its requests")
            clean = False
        if not clean or self._failed_rounds >= _FAILED_ROUNDS_IN_A_ROW:
            raise EngineBroken(outputs)


def _report(round_: RequestRound, batch_size: int, wait_ns: int, step_ns: int) -> StepOutput | RequestFailure:
    if round_.failure is not None:
        return RequestFailure(round_.request_id, "internal", round_.failure)
    return StepOutput(
        request_id=round_.request_id,
        batch_size=batch_size,
        queue_wait_us=max(0, wait_ns) // 1000,
        step_us=step_ns // 1000,
        tokens=round_.tokens,
        beams=round_.beams,
        cached_tokens=round_.cached_tokens,
        done=round_.done,
    )
