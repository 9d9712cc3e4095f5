"""Runs laws against a server: cheap ones first, some together, a failure twice more, and nothing beyond the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tools.conform.asking import Ask
from tools.conform.law import Finding, Law, Outcome, Skip, Unanswered, UsedUp

TRIES: Final = 3
MOST_FINDINGS: Final = 20
"""Of one law; more say nothing new."""
Told = Callable[[Outcome], None]


def run(ask: Ask, laws: Sequence[Law], concurrency: int, told: Told) -> list[Outcome]:
    """The outcomes, in the order of the laws; ``told`` hears each as it comes.

    A law is tried again where it failed, with answers of its own, so that "flaky" means a server that answers equal
    requests in different ways. Of laws that judge request by request only those that failed are sent again.
    """
    attempts = [ask, *(ask.again() for _ in range(TRIES - 1))]
    found: dict[str, Outcome] = {}
    ordered = sorted(laws, key=lambda law: law.tier)

    def one(law: Law) -> Outcome:
        outcome = judged(law, attempts)
        told(outcome)
        return outcome

    with ThreadPoolExecutor(max(1, concurrency)) as pool:
        together = [law for law in ordered if law.together]
        for law, outcome in zip(together, pool.map(one, together), strict=True):
            found[law.id] = outcome
    for law in ordered:
        if not law.together:
            found[law.id] = one(law)
    return [found[law.id] for law in laws]


def judged(law: Law, attempts: Sequence[Ask]) -> Outcome:
    """One law, tried once if it is kept, else once with each attempt's answers."""
    first: tuple[Finding, ...] = ()
    failed = tries = 0
    for ask in attempts:
        shown = [exchange for finding in first for exchange in finding.exchanges]
        try:
            found = tried(law, ask.only_again(shown) if failed and law.together else ask)
        except Skip as skip:
            return Outcome(law, "skip", str(skip)) if not failed else _failed(law, first, failed, tries)
        except UsedUp as used_up:
            return Outcome(law, "skip", str(used_up)) if not failed else _failed(law, first, failed, tries)
        tries += 1
        if found:
            failed += 1
            first = first or found
        elif not failed:
            return Outcome(law, "pass")
    return _failed(law, first, failed, tries)


def _failed(law: Law, findings: tuple[Finding, ...], failed: int, tries: int) -> Outcome:
    return Outcome(law, "fail" if failed == tries else "flaky", "", findings, failed, tries)


def tried(law: Law, ask: Ask) -> tuple[Finding, ...]:
    """What one try of a law finds. Raises Skip and UsedUp.

    A law that trips over an answer has found something too: the answer has a shape that it must not have.
    """
    found: list[Finding] = []
    try:
        ask.need(law.side, *law.needs)
        for finding in law.check(ask, law.side):
            found.append(finding)
            if len(found) >= MOST_FINDINGS:
                break
    except Unanswered as unanswered:
        found.append(unanswered.finding)
    except (Skip, UsedUp):
        if not found:
            raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        found.append(Finding(f"an answer has a shape that cannot be judged ({type(error).__name__}: {error})"[:300]))
    return tuple(found)
