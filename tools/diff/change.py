"""One change between two versions, and the example that shows what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Side = Literal["request", "answer", "operation"]


class Effect(StrEnum):
    """What a change does to those who use the API."""

    BREAKING = "breaking"
    """Something that worked no longer does."""
    RELAXATION = "relaxation"
    """Something that was refused now works."""
    NOTICE = "notice"
    """Worth knowing: nothing that worked fails for it."""


@dataclass(frozen=True)
class Example:
    """A request or an answer that was judged by both versions."""

    at: str
    """The operation, such as ``POST /v1/completions``, with the status of an answer."""
    body: Any
    before: str
    """What the old version says of it."""
    after: str
    """What the new version says of it; of an answer the other way round, what a reader of the old version says."""
    code: str = ""
    """The code that is given where it is refused."""
    deployment: Mapping[str, Any] = field(default_factory=dict)
    """The deployment that both were asked for; empty: one without any feature."""


@dataclass
class Change:
    """One thing that differs between two versions of the contract."""

    side: Side
    where: str
    """The path of a member, the id of a rule, or an operation."""
    keyword: str
    """What differs there: a keyword of the schema, ``member``, ``rule``, ``x-normalize``, ``status`` and so on."""
    old: Any
    """None: not there."""
    new: Any
    narrows: bool
    """Whether it may refuse or take away something, by what it is."""
    widens: bool
    """Whether it may allow something, by what it is."""
    operations: list[str] = field(default_factory=list)
    model: str = ""
    """Of an answer: the schema in which it stands."""
    line_old: int | None = None
    line_new: int | None = None
    breaks: Example | None = None
    relaxes: Example | None = None
    tells: Example | None = None
    """Still refused, but told otherwise; or what is only met by those who sent members that nobody knew."""
    note: str = ""

    @property
    def effect(self) -> Effect:
        """By the examples; where there is none, by what the change is."""
        if self.breaks is not None:
            return Effect.BREAKING
        if self.narrows and self.tells is None and not (self.relaxes is not None and self.widens):
            return Effect.BREAKING
        if self.relaxes is not None or (self.widens and not self.narrows):
            return Effect.RELAXATION if self.side != "answer" else Effect.NOTICE
        return Effect.NOTICE

    @property
    def example(self) -> Example | None:
        """The one to show."""
        wanted = {Effect.BREAKING: self.breaks, Effect.RELAXATION: self.relaxes, Effect.NOTICE: self.tells}
        return wanted[self.effect]

    @property
    def proven(self) -> bool:
        """Whether an example was found that shows the effect."""
        return self.example is not None or self.effect is Effect.NOTICE
