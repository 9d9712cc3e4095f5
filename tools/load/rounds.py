"""The comparison itself: every case on every server in turns, round by round, on a machine that has to be quiet."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tools.load.cases import Case
from tools.load.client import Address, Exchange, exchange
from tools.load.events import streamed_answer
from tools.load.figures import Figures, decode_figures, turn_figures
from tools.load.neighbour import neighbour
from tools.load.prompts import Prompts
from tools.load.quiet import Reading, Usage, usage, wait_until_quiet
from tools.load.servers import COMPLETIONS, ServerSpec

WARM_UP_REQUESTS = 2
WARM_UP_TOKENS = 8


class Target(Protocol):
    """What a round needs of a server."""

    spec: ServerSpec
    model: str

    @property
    def roots(self) -> list[int]: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...


class Send(Protocol):
    """``client.exchange``."""

    async def __call__(
        self, address: Address, path: str, body: dict[str, Any], *, timeout_s: float = 600.0
    ) -> Exchange: ...


@dataclass(frozen=True, slots=True)
class Patience:
    """What counts as quiet, and how long to insist on it."""

    below_cores: float = 0.1
    wait_s: float = 300.0
    """For a quiet moment before each turn."""
    retries: int = 2
    """Further tries of a turn in which it was not quiet."""


@dataclass(slots=True)
class Turn:
    """One load on one server."""

    server: str
    case: str
    round: int
    figures: Figures
    usage: Usage
    memory_gb_s: tuple[float, float]
    """The host's memory read speed just before and just after."""
    noisy: bool
    """Others used more than they may, in every try; this is the quietest."""
    tries: int
    failures: list[str] = field(default_factory=list)
    """Of the requests."""
    short: int = 0
    """Answers with fewer tokens than asked for."""
    uncounted: int = 0
    """Answers whose tokens were counted as events, since the server did not say."""
    prompt_tokens: list[int] = field(default_factory=list)
    cached_tokens: list[int] = field(default_factory=list)


class Rounds:
    """Runs turns. All servers are up; each is frozen except in its turn."""

    def __init__(
        self,
        prompts: Prompts,
        patience: Patience,
        *,
        probe: Callable[[], float],
        read: Callable[[Sequence[int]], Reading],
        told: Callable[[str], None] = lambda _: None,
        send: Send = exchange,
        pause: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        """Args:
        probe: the host's memory speed in GB/s, now.
        read: takes a reading, given the root processes that belong to the measurement.
        told: called with what is being done.
        """
        self._prompts = prompts
        self._patience = patience
        self._probe = probe
        self._read = read
        self._told = told
        self._send = send
        self._pause = pause
        self._load = 0

    async def run(
        self, servers: Sequence[Target], cases: Sequence[Case], rounds: int, done: Callable[[Turn], None]
    ) -> list[Turn]:
        """All turns. Each case goes through the servers before the next case, another server first in each round:
        what is compared was measured within a minute, and no server always follows the same one.
        """
        turns = []
        for number in range(rounds):
            for case in cases:
                first = number % len(servers)
                for server in (*servers[first:], *servers[:first]):
                    turns.append(await self.turn(server, case, number))
                    done(turns[-1])
        return turns

    async def turn(self, server: Target, case: Case, number: int) -> Turn:
        """One server's turn: thawed, warmed up, measured when it is quiet, frozen again."""
        label = f"round {number + 1}: {server.spec.name}, {case.title}"
        self._told(label)
        server.thaw()
        try:
            best: Turn | None = None
            for tries in range(1, self._patience.retries + 2):
                if best is not None:
                    self._told(f"{label} (again: others used {best.usage.disturbance:.2f} cores)")
                found = await self._once(server, case, number, label)
                if best is None or found.usage.disturbance < best.usage.disturbance:
                    best = found
                best.tries = tries
                if not best.noisy:
                    break
            assert best is not None
            return best
        finally:
            server.freeze()

    async def _once(self, server: Target, case: Case, number: int, label: str) -> Turn:
        await self._warm_up(server)
        await wait_until_quiet(
            lambda: self._read(server.roots),
            below_cores=self._patience.below_cores,
            patience_s=self._patience.wait_s,
            pause=self._pause,
            told=lambda seen: self._told(f"{label} (waiting: others use {seen.disturbance:.2f} cores)"),
        )
        self._load += 1
        spec = server.spec
        bodies = [
            spec.request(prompt, case.output_tokens, server.model) for prompt in case.prompts(self._prompts, self._load)
        ]
        with neighbour(case.neighbour_cores) as beside:
            mine = [*server.roots, *beside]
            speed_before = self._probe()
            gc.collect()
            before = self._read(mine)
            begun_s = time.perf_counter()
            exchanges = await self._closed_loop(spec, bodies, case.concurrency)
            wall_s = time.perf_counter() - begun_s
            seen = usage(before, self._read(mine))
            speed_after = self._probe()
        answers = [streamed_answer(done) for done in exchanges]
        good = [answer for answer in answers if answer.failure is None]
        return Turn(
            server=spec.name,
            case=case.name,
            round=number,
            figures=turn_figures(answers, wall_s) | (decode_figures(answers) if case.one_wave else {}),
            usage=seen,
            memory_gb_s=(speed_before, speed_after),
            noisy=seen.disturbance >= self._patience.below_cores,
            tries=1,
            failures=[answer.failure for answer in answers if answer.failure is not None],
            short=sum(answer.output_tokens < case.output_tokens for answer in good),
            uncounted=sum(not answer.counted for answer in good),
            prompt_tokens=[answer.prompt_tokens for answer in good if answer.prompt_tokens is not None],
            cached_tokens=[answer.cached_tokens for answer in good if answer.cached_tokens is not None],
        )

    async def _warm_up(self, server: Target) -> None:
        """Not counted: a thawed server's memory is not in the processor's caches, and its timers have run out."""
        self._load += 1
        texts = self._prompts.separate(self._load, WARM_UP_REQUESTS, 32)
        bodies = [server.spec.request(text, WARM_UP_TOKENS, server.model) for text in texts]
        await self._closed_loop(server.spec, bodies, WARM_UP_REQUESTS)

    async def _closed_loop(self, spec: ServerSpec, bodies: Sequence[dict[str, Any]], clients: int) -> list[Exchange]:
        """Each client sends its next request when it has the answer to its last; nothing is parsed meanwhile."""
        waiting = iter(bodies)
        done: list[Exchange] = []

        async def client() -> None:
            for body in waiting:
                done.append(await self._send(spec.address, COMPLETIONS, body))

        await asyncio.gather(*[client() for _ in range(clients)])
        return done
