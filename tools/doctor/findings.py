"""What a look finds, and the order in which looks are taken: none after a fault that would explain what it sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Patient = TypeVar("Patient")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that keeps a model from running."""

    what: str
    """A sentence: what was found."""
    remedy: str
    """A sentence: what to do."""


@dataclass(frozen=True, slots=True)
class NotSeen:
    """A look that could not be taken."""

    why: str


@dataclass(frozen=True, slots=True)
class Look(Generic[Patient]):
    """One thing to look at."""

    name: str
    take: Callable[[Patient], str | Fault | NotSeen]
    """Gives what was found where nothing is wrong."""
    after: tuple[str, ...] = ()
    """Looks that have to find nothing wrong first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a look."""

    name: str
    found: str | Fault | NotSeen


def taken(looks: Sequence[Look[Patient]], patient: Patient) -> Iterator[Finding]:
    """Take looks in their order."""
    without: dict[str, str] = {}  # look: the one that it waits for in vain
    for look in looks:
        cause = next((without.get(name, "") for name in look.after if name in without), "")
        found = NotSeen(f"see {cause}") if cause else look.take(patient)
        if not isinstance(found, str):
            without[look.name] = cause or look.name
        yield Finding(look.name, found)
