"""A request while it runs: the client that may go away, and the choices of a whole answer as they grow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from starlette.types import Receive

from engine.front_base import STOPPING
from engine.generation import Generation
from engine.types import AnswerReason, CallPiece, ChoiceDelta, EngineError, TokenText

_T = TypeVar("_T")
_TOKEN_LATE: Final = (
    "No token came within {s:g} s, the longest that this deployment waits for one (its setting tokenTimeout)"
)
_ANSWER_LATE: Final = (
    "The answer was not complete within {s:g} s, all that this deployment gives it (its setting e2eTimeout)"
)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """After how many seconds a request fails."""

    token_s: float
    """Between two of its tokens, and until the first."""
    whole_s: float
    """Altogether."""


def too_late(timeouts: Timeouts) -> EngineError:
    """Of a request that has waited for its first token longer than it may."""
    if timeouts.token_s <= timeouts.whole_s:
        return EngineError("timeout", _TOKEN_LATE.format(s=timeouts.token_s))
    return EngineError("timeout", _ANSWER_LATE.format(s=timeouts.whole_s))


class ClientGone(Exception):
    """Nobody waits for this answer any more; the engine has been told."""


class Stopped(Exception):
    """Somebody has asked for the request's end."""


async def prepared(
    work: Coroutine[Any, Any, _T],
    receive: Receive,
    timeouts: Timeouts,
    begun_s: float,
    *,
    stopped: Awaitable[object],
    stopping: Awaitable[object],
) -> _T:
    """What has to be done before a request can be submitted, unless nobody waits for it any more.

    Args:
        work: what to do; it has ended when this returns, in whatever way.
        receive: gives the client's disconnect.
        timeouts: after how long the request fails.
        begun_s: when it came, on ``time.monotonic``'s clock.
        stopped: ends when somebody asks for the request's end.
        stopping: ends when the server begins to stop.

    Raises:
        ClientGone: the client has disconnected.
        Stopped: see ``stopped``.
        EngineError: timeout or stopping.
    """
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnect(receive))
    asked, ending = asyncio.ensure_future(stopped), asyncio.ensure_future(stopping)
    everything: list[asyncio.Future[Any]] = [doing, leaving, asked, ending]
    left_s = begun_s + min(timeouts.token_s, timeouts.whole_s) - time.monotonic()
    try:
        await asyncio.wait(everything, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        if leaving.done():
            raise ClientGone
        if asked.done():
            raise Stopped
        raise EngineError("stopping", STOPPING) if ending.done() else too_late(timeouts)
    finally:
        for each in everything:
            each.cancel()
        await asyncio.wait(everything)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Running:
    """A submitted request tied to its client: it is given up as soon as the client disconnects, or when it is late.

    ``close`` must be called when nothing more is wanted; it is safe to call at any time.
    """

    def __init__(
        self,
        generation: Generation,
        receive: Receive,
        timeouts: Timeouts,
        begun_s: float,
        keep: Callable[[list[ChoiceDelta]], None] | None = None,
    ) -> None:
        """Args:
        generation: what the front runs.
        receive: gives the client's disconnect.
        timeouts: after how long it fails.
        begun_s: when the request came, on ``time.monotonic``'s clock.
        keep: gets every round as well.
        """
        self.generation = generation
        self._timeouts = timeouts
        self._begun_s = begun_s
        self._keep = keep
        self._gone = False
        self._loop = asyncio.get_running_loop()
        self._watcher = self._loop.create_task(self._watch(receive))
        self._timer: asyncio.TimerHandle | None = None
        self._check_time()

    async def next_round(self) -> list[ChoiceDelta] | None:
        """The next round's deltas, None at the end.

        Raises:
            EngineError: the engine could not finish, or not in time.
            ClientGone: the client has disconnected.
        """
        try:
            deltas = await anext(self.generation)
        except StopAsyncIteration:
            if self._gone:
                raise ClientGone from None
            return None
        if self._keep is not None:
            self._keep(deltas)
        return deltas

    async def first_round(self) -> list[ChoiceDelta]:
        """The first round's deltas; as ``next_round``, but there must be one."""
        deltas = await self.next_round()
        if deltas is None:
            raise EngineError("internal", "The engine ended the request without an answer")
        return deltas

    def close(self) -> None:
        """Stop watching the client, and tell the engine that no more is wanted."""
        self._watcher.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self.generation.cancel()

    def _check_time(self) -> None:
        """Fail a request that is late, else look again when it could be: once a timeout, not once a token."""
        if self.generation.ended:
            return
        now_s, limits = time.monotonic(), self._timeouts
        whole_left_s = self._begun_s + limits.whole_s - now_s
        token_left_s = self.generation.heard_s + limits.token_s - now_s
        if whole_left_s <= 0:
            self.generation.fail(EngineError("timeout", _ANSWER_LATE.format(s=limits.whole_s)))
        elif token_left_s <= 0:
            self.generation.fail(EngineError("timeout", _TOKEN_LATE.format(s=limits.token_s)))
        else:
            self._timer = self._loop.call_later(min(whole_left_s, token_left_s), self._check_time)

    async def _watch(self, receive: Receive) -> None:
        await _disconnect(receive)
        self._gone = True
        self.generation.cancel()


@dataclass(slots=True)
class Gathered:
    """One choice of a whole answer."""

    pieces: list[str] = field(default_factory=list)
    tokens: list[TokenText] = field(default_factory=list)
    token_count: int = 0
    logprob_sum: float = 0.0
    finish_reason: AnswerReason | None = None
    stop_reason: str | int | None = None
    reasoning_pieces: list[str] = field(default_factory=list)
    calls: list[CallPiece] = field(default_factory=list)
    reasoning_tokens: int | None = None
    """None where the model does not think."""

    @property
    def text(self) -> str:
        """All of the choice's text."""
        return "".join(self.pieces)

    @property
    def reasoning(self) -> str:
        """All of the choice's thinking."""
        return "".join(self.reasoning_pieces)

    @property
    def mean_logprob(self) -> float:
        """What choices are ranked by."""
        return self.logprob_sum / max(self.token_count, 1)

    def add(self, delta: ChoiceDelta) -> None:
        """Take the next delta of this choice."""
        if delta.text:
            self.pieces.append(delta.text)
        if delta.reasoning:
            self.reasoning_pieces.append(delta.reasoning)
        self.calls += delta.calls
        self.tokens += delta.tokens
        self.token_count += delta.token_count
        self.logprob_sum += delta.logprob_sum
        if delta.finish_reason is not None:
            self.finish_reason = delta.finish_reason
            self.stop_reason = delta.stop_reason
            self.reasoning_tokens = delta.reasoning_tokens

    @property
    def ended(self) -> AnswerReason:
        """Why the choice ended.

        Raises:
            EngineError: it has not, although the engine sends no more.
        """
        if self.finish_reason is None:
            raise EngineError("internal", "The engine ended the request before every choice was complete")
        return self.finish_reason


async def gather(running: Running, first: list[ChoiceDelta], count: int, *, ranked: bool) -> list[Gathered]:
    """Read a request to its end: all choices in order, or best mean logprob first.

    Raises:
        EngineError: the engine could not finish.
        ClientGone: the client has disconnected.
    """
    choices = [Gathered() for _ in range(count)]
    deltas: list[ChoiceDelta] | None = first
    while deltas is not None:
        for delta in deltas:
            choices[delta.index].add(delta)
        deltas = await running.next_round()
    if ranked:
        choices.sort(key=lambda choice: -choice.mean_logprob)
    return choices
