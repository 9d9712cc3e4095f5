"""Runs a soak: answers alone, then the same in company with cancellations and kills, then rounds for memory."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tools.load.client import Address, exchange
from tools.load.servers import COMPLETIONS, Server
from tools.soak.answers import Seen, seen
from tools.soak.judge import Verdict, judge
from tools.soak.kinds import Wanted
from tools.soak.watch import Health, Memory, PagesInUse, memory_of

NEAR_DRAWS_ALLOWED: Final = 0.01
"""Of the drawn answers: in float32 hardly any draw falls between two tokens; many would mean that draws depend on
company."""
MEMORY_GROWTH_ALLOWED: Final = 1.05
_SETTLE_TRIES: Final = 100

REST_S = 2.0
"""Between a round and the look at memory: an engine with nothing to do gives back what its heap keeps."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of what."""

    requests: int = 500
    concurrency: int = 32
    cancelled: float = 1 / 3
    kills: int = 2
    """Of the engine, evenly spread over the requests."""
    rounds: int = 10
    round_requests: int = 50
    """Further requests of each round, without kills, after which memory is measured."""
    seed: int = 1


@dataclass(slots=True)
class Outcome:
    """What a soak found."""

    verdicts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    drawn: int = 0
    wrong: list[str] = field(default_factory=list)
    recovered_s: list[float | None] = field(default_factory=list)
    """From each kill to readiness."""
    health_slowest_s: float = 0.0
    health_unanswered: int = 0
    memory: list[Memory] = field(default_factory=list)
    """After each round."""
    pages_in_use: int | None = None
    """After everything; None: the server does not say."""

    def complaints(self) -> list[str]:
        """What must not be; empty when all is well."""
        said = list(self.wrong)
        if self.verdicts["near draw"] > max(1, NEAR_DRAWS_ALLOWED * self.drawn):
            said.append(f"{self.verdicts['near draw']} of {self.drawn} drawn answers differ by a draw")
        if None in self.recovered_s:
            said.append("the engine did not come back after a kill")
        if self.health_unanswered:
            said.append(f"GET /health was not answered {self.health_unanswered} times")
        if self.pages_in_use is None:
            said.append("the server does not say how many pages are in use")
        elif self.pages_in_use:
            said.append(f"{self.pages_in_use} pages are in use although nothing runs")
        for name in ("http_mb", "engine_mb"):
            grown = memory_growth([getattr(memory, name) for memory in self.memory])
            if grown is not None and grown > MEMORY_GROWTH_ALLOWED:
                said.append(f"{name} grew to {grown:.3f} times that after round 2")
        return said


def memory_growth(after_rounds: Sequence[float]) -> float | None:
    """Memory after the last round over that after round 2, when caches are full; None for fewer than 3 rounds."""
    if len(after_rounds) < 3 or after_rounds[1] <= 0:
        return None
    return after_rounds[-1] / after_rounds[1]


class Soak:
    """One soak on one running server."""

    def __init__(
        self,
        server: Server,
        wanted: Sequence[Wanted],
        plan: Plan,
        *,
        pages: PagesInUse,
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``server`` is up, and its process belongs to us: its engine will be killed."""
        self.outcome = Outcome()
        self._server = server
        self._address: Address = server.spec.address
        self._wanted = wanted
        self._plan = plan
        self._pages = pages
        self._told = told
        self._chance = random.Random(plan.seed)
        self._health = Health(self._address)
        self._alone: list[Seen] = []
        self._alone_s: list[float] = []

    async def run(self) -> Outcome:
        """All of it."""
        await self._answers_alone()
        watching = asyncio.create_task(self._health.watch())
        try:
            plan = self._plan
            kill_after = {plan.requests * (number + 1) // (plan.kills + 1) for number in range(plan.kills)}
            await self._load(plan.requests, kill_after, "with kills" if plan.kills else "without kills")
            for number in range(plan.rounds):
                await self._load(plan.round_requests, set(), f"round {number + 1} of {plan.rounds}")
                await asyncio.sleep(REST_S)
                self.outcome.memory.append(memory_of(self._server.roots[0]))
            await self._settle()
        finally:
            watching.cancel()
        self.outcome.recovered_s = [
            None if outage.back_s is None else outage.back_s - outage.killed_s for outage in self._health.outages
        ]
        self.outcome.health_slowest_s = self._health.slowest_s
        self.outcome.health_unanswered = self._health.unanswered
        return self.outcome

    async def _answers_alone(self) -> None:
        for number, wanted in enumerate(self._wanted):
            self._told(f"alone: {number + 1} of {len(self._wanted)} ({wanted.kind})")
            done = await exchange(self._address, COMPLETIONS, wanted.body)
            answer = seen(done, stream=wanted.body["stream"])
            if answer.error is not None or not answer.complete:
                raise RuntimeError(f"the answer alone to {wanted} failed: {answer.error}")
            self._alone.append(answer)
            self._alone_s.append(done.ended_s - done.sent_s)

    async def _load(self, requests: int, kill_after: set[int], what: str) -> None:
        """So many requests in a closed loop; the engine is killed when so many of them have been sent."""
        order = [index % len(self._wanted) for index in range(requests)]
        self._chance.shuffle(order)
        waiting: Iterator[tuple[int, int]] = iter(enumerate(order))

        async def client() -> None:
            for number, index in waiting:
                self._told(f"{what}: {number + 1} of {requests}")
                if number in kill_after:
                    self._health.kill(self._server.roots[0])
                verdict = await self._one(index)
                if verdict.kind == "error":
                    # Others would only get the same error by the hundred.
                    await self._health.until_ready()

        await asyncio.gather(*[client() for _ in range(min(self._plan.concurrency, requests))])
        await self._health.until_ready()

    async def _one(self, index: int) -> Verdict:
        wanted = self._wanted[index]
        cancel = self._chance.random() < self._plan.cancelled
        # In company an answer takes longer: most of these fall into the middle, in the queue, in prefill or in decode.
        cut_after_s = self._chance.uniform(0, 3 * self._alone_s[index]) if cancel else None
        begun_s = time.perf_counter()
        done = await exchange(self._address, COMPLETIONS, wanted.body, cut_after_s=cut_after_s)
        verdict = judge(
            self._alone[index],
            seen(done, stream=wanted.body["stream"]),
            ranked=wanted.ranked,
            drawn=wanted.drawn,
            cut=done.ending == "cut",
            engine_was_down=any(outage.overlaps(begun_s, done.ended_s) for outage in self._health.outages),
        )
        self.outcome.verdicts[verdict.kind] += 1
        self.outcome.kinds[wanted.kind] += 1
        self.outcome.drawn += wanted.drawn
        if verdict.kind == "wrong":
            self.outcome.wrong.append(f"{wanted.kind} {wanted.body}: {verdict.reason}")
        return verdict

    async def _settle(self) -> None:
        """Wait for the pages to be free; a cancelled request's are within a step."""
        for _ in range(_SETTLE_TRIES):
            self.outcome.pages_in_use = await self._pages()
            if not self.outcome.pages_in_use:
                break
            await asyncio.sleep(0.1)
