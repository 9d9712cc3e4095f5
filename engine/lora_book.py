"""The front's book of adapters: which names requests may use, which load of a name each uses, and when one may go."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.types import AdapterError, AdapterSource, EngineError
from engine.wire import LoadAdapter

MAX_NAME_CHARACTERS = 256
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_NAME_CHARACTERS}}}")

_GONE = "The adapter {name!r} is not loaded any more."


def check_name(name: str) -> None:
    """Raise AdapterError for what cannot be an adapter's name."""
    if _NAME.fullmatch(name) is None:
        raise AdapterError(f"a name has 1 to {MAX_NAME_CHARACTERS} letters, digits, dots, underscores or hyphens.")


@dataclass(frozen=True, slots=True)
class AdapterLimits:
    """What a deployment takes, under MindIE's names."""

    max_loras: int = 0
    """Adapters at the same time; 0: those that the deployment starts with, and no other may be loaded."""
    max_lora_rank: int = 0
    """Largest rank of an adapter; 0: any, and no adapter may be loaded while the server runs."""

    @property
    def allow_loading(self) -> bool:
        """Whether adapters may be loaded while the server runs."""
        return self.max_loras > 0 and self.max_lora_rank > 0


@dataclass(slots=True)
class _Adapter:
    source: AdapterSource
    number: int
    ready: bool = False
    leaving: bool = False
    requests: int = 0
    """That run with it."""


class AdapterBook:
    """All adapters of one front. Every load gets a number that is never given again, so that nothing which was made
    with one load of a name is taken for that of another.
    """

    def __init__(self, sources: Iterable[AdapterSource] = (), limits: AdapterLimits | None = None) -> None:
        """Args:
        sources: what the deployment starts with; requests may name them as soon as there is an engine.
        limits: None for the defaults.

        Raises:
            AdapterError: the sources break a limit or share a name; here the message says which.
        """
        self.limits = limits or AdapterLimits()
        self._adapters: dict[int, _Adapter] = {}
        self._latest = 0
        sources = list(sources)
        if self.limits.max_loras and len(sources) > self.limits.max_loras:
            raise AdapterError(f"{len(sources)} adapters are given; at most {self.limits.max_loras} fit (maxLoras).")
        for source in sources:
            try:
                self._enter(source).ready = True  # an engine has them before it takes requests
            except AdapterError as error:
                raise AdapterError(f"the adapter {source.name[:100]!r} cannot be used: {error}") from error

    @property
    def ready(self) -> list[AdapterSource]:
        """Those that requests may use, in the order in which they came."""
        return [adapter.source for adapter in self._adapters.values() if adapter.ready and not adapter.leaving]

    def commands(self) -> list[LoadAdapter]:
        """What a new engine process has to load: all that are not leaving."""
        return [self._command(adapter) for adapter in self._adapters.values() if not adapter.leaving]

    def begin(self, source: AdapterSource) -> LoadAdapter:
        """Note a new adapter, which is not ready yet.

        Raises:
            AdapterError: there is no room, or the name is taken or cannot be one.
        """
        limit = self.limits.max_loras
        if len(self._adapters) >= limit:
            leaving = sum(adapter.leaving for adapter in self._adapters.values())
            still = f", {leaving} of them until their last requests end" if leaving else ""
            raise AdapterError(f"{len(self._adapters)} adapters are loaded{still}; at most {limit} fit (maxLoras).")
        return self._command(self._enter(source))

    def note(self, source: AdapterSource) -> LoadAdapter:
        """Note an adapter for the next engine, which has it before it takes requests.

        Raises:
            AdapterError: as ``begin``.
        """
        command = self.begin(source)
        self._adapters[command.number].ready = True
        return command

    def name_of(self, number: int) -> str:
        """The name of a load."""
        return self._adapters[number].source.name

    def loaded(self, number: int) -> None:
        """The engine has it; an unknown one is fine."""
        if number in self._adapters:
            self._adapters[number].ready = True

    def drop(self, number: int) -> None:
        """The engine does not have it; an unknown one is fine."""
        self._adapters.pop(number, None)

    def take(self, name: str) -> int:
        """A request begins to use an adapter; its number.

        Raises:
            EngineError: unknown_model: it is not there.
        """
        adapter = next(self._named(name), None)
        if adapter is None or not adapter.ready:
            raise EngineError("unknown_model", _GONE.format(name=name[:100]))
        adapter.requests += 1
        return adapter.number

    def give_back(self, number: int) -> bool:
        """A request is over; whether the engine may forget its adapter now."""
        adapter = self._adapters.get(number)
        if adapter is None:
            return False
        adapter.requests -= 1
        return self._gone(adapter)

    def leave(self, name: str) -> int | None:
        """No new request may use an adapter; its number when the engine may forget it at once.

        Raises:
            AdapterError: it is not there.
        """
        adapter = next(self._named(name), None)
        if adapter is None or not adapter.ready:
            raise AdapterError("it is not loaded.")
        adapter.leaving = True
        return adapter.number if self._gone(adapter) else None

    def _enter(self, source: AdapterSource) -> _Adapter:
        check_name(source.name)
        same = next(self._named(source.name), None)
        if same is not None:
            raise AdapterError("it is loaded already." if same.ready else "it is being loaded already.")
        self._latest += 1
        adapter = self._adapters[self._latest] = _Adapter(source, self._latest)
        return adapter

    def _named(self, name: str) -> Iterator[_Adapter]:
        """The one that new requests for a name use, if there is one."""
        return (adapter for adapter in self._adapters.values() if adapter.source.name == name and not adapter.leaving)

    def _command(self, adapter: _Adapter) -> LoadAdapter:
        source = adapter.source
        return LoadAdapter(adapter.number, source.name, source.folder, self.limits.max_lora_rank or None)

    def _gone(self, adapter: _Adapter) -> bool:
        gone = adapter.leaving and not adapter.requests
        if gone:
            del self._adapters[adapter.number]
        return gone
