"""The engine's only door for the HTTP side."""

from __future__ import annotations

from typing import Protocol

from engine.front_base import FrontCounts, LostCause, State
from engine.generation import Generation
from engine.process import EngineSpec
from engine.process_front import ProcessFront, RestartPolicy
from engine.scheduler import Limits
from engine.silence import HangLimits
from engine.stats import EngineStats
from engine.tally import Observed
from engine.text.tokenizer import TextTokenizer
from engine.types import AdapterSource, ModelInfo, Request

__all__ = ["EngineSpec", "Front", "Generation", "HangLimits", "Limits", "ProcessFront", "RestartPolicy", "State"]


class ReadyAdapters(Protocol):
    """The adapters as the handlers see them."""

    @property
    def ready(self) -> list[AdapterSource]:
        """Those that requests may use, in the order in which they came."""
        ...


class Front(Protocol):
    """The engine as the handlers see it. All of it belongs to one event loop."""

    @property
    def tokenizer(self) -> TextTokenizer:
        """The model's."""
        ...

    @property
    def info(self) -> ModelInfo | None:
        """None until the model has been loaded once."""
        ...

    @property
    def state(self) -> State:
        """What it does."""
        ...

    @property
    def failure(self) -> str | None:
        """A sentence, when ``state`` is "down"."""
        ...

    @property
    def lost(self) -> LostCause | None:
        """Set when the engine is down and not started again."""
        ...

    @property
    def engine_stats(self) -> EngineStats:
        """The engine's state, as it said last; zeros while there is none."""
        ...

    @property
    def counts(self) -> FrontCounts:
        """What has happened."""
        ...

    @property
    def observed(self) -> Observed:
        """What it has seen of its requests' tokens."""
        ...

    @property
    def running(self) -> int:
        """Requests that have been submitted and are not over."""
        ...

    @property
    def waiting(self) -> int:
        """Those of them that wait for room, so far as is known."""
        ...

    @property
    def total_slots(self) -> int:
        """Sequences that may run at the same time."""
        ...

    @property
    def free_slots(self) -> int:
        """How many of these places no request has, running or waiting; none of an engine that is not ready."""
        ...

    @property
    def adapters(self) -> ReadyAdapters:
        """Which adapters there are."""
        ...

    async def start(self) -> None:
        """Begin to load the model; returns at once."""
        ...

    async def wait_ready(self) -> None:
        """Wait for the model. Raises EngineError when it cannot be loaded."""
        ...

    def submit(self, request: Request) -> Generation:
        """Queue a request. Raises EngineError: loading, stopping, engine_down, queue_full or unknown_model."""
        ...

    async def load_adapter(self, source: AdapterSource) -> None:
        """Load an adapter while others are served; when this returns, requests may name it.

        Raises:
            AdapterError: it cannot be had; nothing has changed.
            EngineError: loading, stopping or engine_down.
        """
        ...

    def unload_adapter(self, name: str) -> None:
        """Take an adapter from new requests at once, and from the engine when its last request is over.

        Raises:
            AdapterError: it is not loaded.
        """
        ...

    @property
    def usage_percent(self) -> float:
        """How loaded the engine is: its pages in use, or its batch, whichever is more, in percent."""
        ...

    async def wait_lost(self) -> LostCause:
        """Wait until the engine is down and not started again; that may be for ever."""
        ...

    async def probe(self, timeout_s: float) -> None:
        """Generate one token, in a place beside all requests that never waits in the queue.

        Raises:
            EngineError: loading, stopping or engine_down; timeout when it took longer; what went wrong in the engine.
        """
        ...

    def set_log_level(self, level: int) -> None:
        """Log from this level on in the engine's processes, those to come included."""
        ...

    def cut(self) -> None:
        """End what runs: it fails as stopping."""
        ...

    async def drain(self, timeout_s: float) -> None:
        """Refuse new requests and let the running ones finish; those left after ``timeout_s`` fail as stopping."""
        ...

    async def stop(self) -> None:
        """End the engine; requests that still run fail as stopping."""
        ...
