"""One front over several engine processes: requests go to the least loaded, and one that dies takes only its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import fields

from engine.front_base import DOWN, LOADING, STOPPING, FrontCounts, LostCause, State
from engine.generation import Generation
from engine.process_front import ProcessFront
from engine.stats import EngineStats, ExecutorStats, MediaStats, MemoryStats
from engine.tally import Observed
from engine.text.tokenizer import TextTokenizer
from engine.types import AdapterError, AdapterSource, EngineError, ModelInfo, Request

_log = logging.getLogger(__name__)

REVIVE_AFTER_S = 300.0
"""An instance that died too often is tried again after so long, while others serve."""
_AFFINITY_TOKENS = 128
"""Of equally loaded instances, prompts that begin alike go to the same one, whose cache may know them."""


class MultiFront:
    """A ``Front`` over instances of one model.

    It is ready while one instance is. An instance that cannot be loaded at all, and the last one that dies too often,
    are the loss of all; another one that dies too often is tried again after ``REVIVE_AFTER_S``.
    """

    def __init__(self, instances: Sequence[ProcessFront], revive_after_s: float = REVIVE_AFTER_S) -> None:
        self.instances = list(instances)
        self._revive_after_s = revive_after_s
        self._keeping: list[asyncio.Task[None]] = []

    @property
    def tokenizer(self) -> TextTokenizer:
        """See ``Front.tokenizer``."""
        return self.instances[0].tokenizer

    @property
    def info(self) -> ModelInfo | None:
        """See ``Front.info``."""
        return next((front.info for front in self.instances if front.info is not None), None)

    @property
    def state(self) -> State:
        """Ready while one is; loading while one may become so."""
        states = {front.state for front in self.instances}
        if "draining" in states:
            return "draining"
        if self.lost is not None:
            return "down"
        return next(state for state in ("ready", "loading", "down") if state in states)

    @property
    def failure(self) -> str | None:
        """See ``Front.failure``."""
        lost = [front for front in self.instances if front.lost is not None]
        never_loaded = [front for front in lost if front.info is None]
        return next((front.failure for front in never_loaded + lost + self.instances if front.failure), None)

    @property
    def lost(self) -> LostCause | None:
        """See ``Front.lost``."""
        causes = [front.lost for front in self.instances]
        never_loaded = [front.lost for front in self.instances if front.lost is not None and front.info is None]
        if never_loaded:
            return never_loaded[0]
        return causes[0] if all(causes) else None

    @property
    def engine_stats(self) -> EngineStats:
        """The sums."""
        stats = [front.engine_stats for front in self.instances]
        executors = [entry.executor for entry in stats]
        memories = [entry.memory for entry in executors if entry.memory is not None]
        media = [entry.media for entry in executors if entry.media is not None]
        executor = ExecutorStats(
            memory=MemoryStats._make(map(sum, zip(*memories, strict=True))) if memories else None,
            media=MediaStats._make(map(sum, zip(*media, strict=True))) if media else None,
            **{
                name: sum(getattr(each, name) for each in executors)
                for name in ExecutorStats._fields
                if name not in ("memory", "media")
            },
        )
        received, queued = sum(entry.received for entry in stats), sum(entry.queued for entry in stats)
        return EngineStats(received, queued, all(entry.full for entry in stats), executor)

    @property
    def counts(self) -> FrontCounts:
        """The sums."""
        counts = [front.counts for front in self.instances]
        return FrontCounts(*(sum(getattr(each, entry.name) for each in counts) for entry in fields(FrontCounts)))

    @property
    def observed(self) -> Observed:
        """The sums."""
        return Observed.joined(front.observed for front in self.instances)

    @property
    def running(self) -> int:
        """See ``Front.running``."""
        return sum(front.running for front in self.instances)

    @property
    def waiting(self) -> int:
        """See ``Front.waiting``."""
        return sum(front.waiting for front in self.instances)

    @property
    def total_slots(self) -> int:
        """The sum."""
        return sum(front.total_slots for front in self.instances)

    @property
    def free_slots(self) -> int:
        """The sum."""
        return sum(front.free_slots for front in self.instances)

    @property
    def usage_percent(self) -> float:
        """Of the least loaded one that serves."""
        return min((front.usage_percent for front in self._ready()), default=0.0)

    @property
    def adapters(self) -> MultiAdapters:
        """See ``Front.adapters``."""
        return MultiAdapters([front for front in self.instances if front.lost is None] or self.instances)

    async def start(self) -> None:
        """See ``Front.start``."""
        for front in self.instances:
            await front.start()
        loop = asyncio.get_running_loop()
        self._keeping = [loop.create_task(self._keep(front)) for front in self.instances]

    async def wait_ready(self) -> None:
        """See ``Front.wait_ready``."""
        while self.state in ("loading", "down") and self.lost is None:
            await self._change()
        self._refuse_unless_ready(self.failure)

    async def wait_lost(self) -> LostCause:
        """See ``Front.wait_lost``."""
        while (lost := self.lost) is None:
            await self._change()
        return lost

    def submit(self, request: Request) -> Generation:
        """See ``Front.submit``; one that has no room, or not the adapter, is passed over."""
        self._refuse_unless_ready()
        refusal: EngineError | None = None
        for front in self._by_load(request):
            try:
                return front.submit(request)
            except EngineError as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    async def probe(self, timeout_s: float) -> None:
        """See ``Front.probe``: of all that serve, since requests may come to each."""
        self._refuse_unless_ready()
        probes = [front.probe(timeout_s) for front in self._ready()]
        for outcome in await asyncio.gather(*probes, return_exceptions=True):
            # One that dies meanwhile serves no more.
            if isinstance(outcome, BaseException) and not _is_down(outcome):
                raise outcome
        self._refuse_unless_ready()

    async def load_adapter(self, source: AdapterSource) -> None:
        """See ``Front.load_adapter``; instances that do not serve now have it when they do."""
        self._refuse_unless_ready()
        serving = self._ready()
        later = [front for front in self.instances if front not in serving]
        outcomes = await asyncio.gather(*(front.load_adapter(source) for front in serving), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException) and not _is_down(outcome)]
        if failures or all(outcomes):
            for front, outcome in zip(serving, outcomes, strict=True):
                if outcome is None:
                    front.unload_adapter(source.name)
            raise next(iter(failures), None) or EngineError("engine_down", DOWN)
        later += [front for front, outcome in zip(serving, outcomes, strict=True) if outcome is not None]
        for front in later:
            try:
                front.note_adapter(source)
            except AdapterError as error:
                _log.error("an instance does not get the adapter %r: %s", source.name, error)

    def unload_adapter(self, name: str) -> None:
        """See ``Front.unload_adapter``."""
        failure: AdapterError | None = None
        unloaded = False
        for front in self.instances:
            try:
                front.unload_adapter(name)
                unloaded = True
            except AdapterError as error:
                failure = error
        if failure is not None and not unloaded:
            raise failure

    async def drain(self, timeout_s: float) -> None:
        """See ``Front.drain``."""
        await asyncio.gather(*(front.drain(timeout_s) for front in self.instances))

    def set_log_level(self, level: int) -> None:
        """See ``Front.set_log_level``."""
        for front in self.instances:
            front.set_log_level(level)

    def cut(self) -> None:
        """See ``Front.cut``."""
        for front in self.instances:
            front.cut()

    async def stop(self) -> None:
        """See ``Front.stop``."""
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*(front.stop() for front in self.instances))

    def _ready(self) -> list[ProcessFront]:
        return [front for front in self.instances if front.state == "ready"]

    def _by_load(self, request: Request) -> list[ProcessFront]:
        """Those that serve, the one to ask first at the front."""
        contents = tuple(item.content_hash for item in request.media if item.start < _AFFINITY_TOKENS)
        beginning = (request.adapter, request.prompt_ids[:_AFFINITY_TOKENS], contents)
        ready = [(front.running, hash((beginning, number)), number) for number, front in enumerate(self.instances)]
        return [self.instances[number] for *_, number in sorted(ready) if self.instances[number].state == "ready"]

    def _refuse_unless_ready(self, failure: str | None = None) -> None:
        match self.state:
            case "loading":
                raise EngineError("loading", LOADING)
            case "draining":
                raise EngineError("stopping", STOPPING)
            case "down":
                raise EngineError("engine_down", failure or DOWN)

    async def _change(self) -> None:
        """Wait until something changes in one of them."""
        changes = [front.next_change() for front in self.instances]
        try:
            await asyncio.wait(changes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for change in changes:
                change.cancel()

    async def _keep(self, front: ProcessFront) -> None:
        """Try an instance that died too often again, as long as others serve."""
        while True:
            await front.wait_lost()
            if self.lost is not None:
                return
            number = self.instances.index(front) + 1
            _log.error("instance %d of %d is left out for %g s", number, len(self.instances), self._revive_after_s)
            await asyncio.sleep(self._revive_after_s)
            front.revive()


class MultiAdapters:
    """The adapters that all instances have."""

    def __init__(self, fronts: Iterable[ProcessFront]) -> None:
        self._fronts = list(fronts)

    @property
    def ready(self) -> list[AdapterSource]:
        """In the order of the first instance."""
        first, *others = [front.adapters.ready for front in self._fronts]
        return [source for source in first if all(source in other for other in others)]


def _is_down(outcome: BaseException) -> bool:
    return isinstance(outcome, EngineError) and outcome.code == "engine_down"
