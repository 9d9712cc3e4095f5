"""What a law is, what it finds, and how one came out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

from tools.conform.sides import CHAT, SIDES, Side
from tools.conform.wire import Exchange

if TYPE_CHECKING:
    from tools.conform.asking import Ask

Status = Literal["pass", "fail", "flaky", "skip"]


class Tier(IntEnum):
    """When a law is tried: what decides much for little comes first, so that a small budget still says most."""

    WIRE = 0
    """One request a verdict, refused before a token is made."""
    BOUNDS = 1
    """Values at the bounds: a token a request at most."""
    FORM = 2
    """What every answer must look like."""
    MEANING = 3
    """A few short answers are compared."""
    LONG = 4
    """Many tokens, or megabytes."""


@dataclass(frozen=True)
class Finding:
    """One way in which a server broke a law."""

    message: str
    exchanges: tuple[Exchange, ...] = ()
    """What shows it, in the order in which it was sent."""


@dataclass(frozen=True)
class Law:
    """One sentence that a server must keep, and the function that tries it."""

    id: str
    """Parts with dots between; the first is the group."""
    sentence: str
    source: str
    """Where the contract says so: a ruling's row, a member or a rule of the spec."""
    check: Callable[[Ask, Side], Iterable[Finding]]
    needs: tuple[str, ...] = ()
    """Features that a server may lack; see ``tools.conform.features``."""
    tier: Tier = Tier.MEANING
    side: Side = CHAT
    """The endpoint that it is tried on, where it is about one."""

    @property
    def group(self) -> str:
        """The first part of the id."""
        return self.id.partition(".")[0]

    @property
    def together(self) -> bool:
        """Whether it may run beside others: what compares generated text runs alone."""
        return self.tier <= Tier.BOUNDS


@dataclass(frozen=True)
class Outcome:
    """How a law came out."""

    law: Law
    status: Status
    reason: str = ""
    """Why it was skipped."""
    findings: tuple[Finding, ...] = ()
    failed: int = 0
    """Of ``tries``, how many failed; a law that fails once is tried twice more."""
    tries: int = 1


def both(
    name: str,
    sentence: str,
    source: str,
    check: Callable[[Ask, Side], Iterable[Finding]],
    needs: tuple[str, ...] = (),
    tier: Tier = Tier.MEANING,
) -> list[Law]:
    """A law of each endpoint: the endpoint's name is the last part of its id."""
    return [Law(f"{name}.{side.name}", sentence, source, check, needs, tier, side) for side in SIDES]


class Skip(Exception):
    """The law does not apply to this server or to what its model wrote; the text says why."""


class UsedUp(Exception):
    """The budget of requests or tokens does not allow the next request; the text says which."""


class Unanswered(Exception):
    """A request that a law needs was not answered as it had to be; this is the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding
