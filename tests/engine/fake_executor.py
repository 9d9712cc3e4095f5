"""An executor that does as a test says, and factories for engine processes that go wrong."""

from __future__ import annotations

import os
import threading
import time

from engine.executor import RequestRound
from engine.stats import ExecutorStats, MemoryStats
from engine.types import ModelInfo, StepToken


class FakeExecutor:
    """Every live choice gains the token 65 a round, for ever; ``fail`` and ``stuck`` make it misbehave.

    ``prompt_rounds`` says how many rounds a request's prompt takes before, ``idle`` who has no part in a round,
    ``homeless`` who is admitted without room: as long as one is, ``can_admit`` refuses.
    """

    def __init__(self):
        self.info = ModelInfo(1000, 100, (0,), "none", "none", "Fake")
        self.choices = {}
        self.steps = 0
        self.fail = 0
        self.stuck = False
        self.failures = {}
        self.sequences_run = 0
        self.full = False
        self.prompt_rounds = {}
        self.idle = set()
        self.refusals = {}
        self.homeless = set()
        self.unprepared = {}

    @property
    def live_sequences(self):
        return sum(map(len, self.choices.values()))

    @property
    def stats(self):
        waiting = sum(len(choices) for request_id, choices in self.choices.items() if request_id in self.homeless)
        return ExecutorStats(self.live_sequences - waiting, waiting, len(self.homeless & self.choices.keys()))

    def refuse(self, request):
        return self.refusals.get(request.request_id)

    def prepared(self, request):
        prepared = self.unprepared.get(request.request_id, True)
        if isinstance(prepared, Exception):
            raise prepared
        return prepared

    def can_admit(self, request):
        return not self.full and not self.homeless & self.choices.keys()

    def add(self, request):
        if request.request_id in self.choices:
            raise ValueError("admitted already")
        self.choices[request.request_id] = set(range(request.sampling.n))

    def remove(self, request_id):
        if not self.stuck:
            self.choices.pop(request_id, None)

    def remove_choice(self, request_id, choice):
        self.choices.get(request_id, set()).discard(choice)
        if not self.choices.get(request_id, {0}):
            del self.choices[request_id]
        return request_id in self.choices

    def step(self):
        self.steps += 1
        self.sequences_run = self.live_sequences
        if self.fail:
            self.fail -= 1
            raise RuntimeError("told to fail")
        rounds = []
        for request_id, choices in list(self.choices.items()):
            if request_id in self.idle or request_id in self.homeless:
                continue
            if self.prompt_rounds.get(request_id):
                self.prompt_rounds[request_id] -= 1
                rounds.append(RequestRound(request_id, [], None, done=False, prefilling=True))
                continue
            failure = self.failures.pop(request_id, None)
            if failure:
                del self.choices[request_id]
            tokens = [] if failure else [StepToken(choice, 65) for choice in sorted(choices)]
            rounds.append(RequestRound(request_id, tokens, None, done=bool(failure), failure=failure))
        return rounds


class PagedExecutor(FakeExecutor):
    """As if each request held one page of 100."""

    @property
    def stats(self):
        return super().stats._replace(memory=MemoryStats(100, len(self.choices), 0, 0, 0, 0, 0))


def paged():
    """A factory of the executor with pages."""
    return PagedExecutor()


class HangingExecutor(FakeExecutor):
    """Its steps never end, but for the first, in which a front's probe has its token."""

    def __init__(self, hang):
        super().__init__()
        self.hang = hang

    def step(self):
        if not self.steps:
            return super().step()
        return self.hang()


def blocking():
    """A factory of an executor whose steps wait for what never happens."""
    return HangingExecutor(threading.Event().wait)


def spinning():
    """A factory of an executor whose steps compute for ever."""

    def compute():
        while True:
            pass

    return HangingExecutor(compute)


def foretelling(*, on_long_step):
    """A factory of an executor whose second step computes for two seconds, and that says so before."""

    class Foretelling(FakeExecutor):
        def step(self):
            if self.steps == 1:
                on_long_step(3.0)
                end_s = time.process_time() + 2.0
                while time.process_time() < end_s:
                    pass
            rounds = super().step()
            for outcome in rounds:
                outcome.tokens = [StepToken(0, 65, None, None, "length", None)]
                outcome.done = True
                self.remove(outcome.request_id)
            return rounds

    return Foretelling()


def refusing():
    """A factory that cannot load."""
    raise OSError("The model folder is empty.")


def telling_its_caches():
    """A factory that cannot load, and says how large the numeric libraries may make their caches."""
    raise OSError(" ".join(os.environ[name] for name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")))


def dying():
    """A factory whose process is gone in the middle of loading."""
    os._exit(3)


def talking(*, on_progress):
    """A factory that says what it does."""
    on_progress("Half of the weights are read.")
    return FakeExecutor()


def blocking_at_once():
    """As blocking, from the first step on."""
    executor = blocking()
    executor.steps = 1
    return executor


def waiting_for_ever():
    """A factory that never has its model loaded."""
    threading.Event().wait()


def without_its_device():
    """A factory that misses its device."""
    error = RuntimeError("There is no such processor.")
    error.load_failure_cause = "device"
    raise error


def failing():
    """A factory that fails for no reason that anybody knows."""
    raise RuntimeError("it was told to")
