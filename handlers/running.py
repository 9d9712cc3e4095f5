"""A request while it runs: the client that may go away, and the choices of a whole answer as they grow."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from starlette.types import Receive

from engine.generation import Generation
from engine.types import AnswerReason, CallPiece, ChoiceDelta, EngineError, TokenText


class ClientGone(Exception):
    """Nobody waits for this answer any more; the engine has been told."""


class Running:
    """A submitted request tied to its client: it is given up as soon as the client disconnects.

    ``close`` must be called when nothing more is wanted; it is safe to call at any time.
    """

    def __init__(self, generation: Generation, receive: Receive) -> None:
        self.generation = generation
        self._gone = False
        self._watcher = asyncio.create_task(self._watch(receive))

    async def next_round(self) -> list[ChoiceDelta] | None:
        """The next round's deltas, None at the end.

        Raises:
            EngineError: the engine could not finish.
            ClientGone: the client has disconnected.
        """
        try:
            return await anext(self.generation)
        except StopAsyncIteration:
            if self._gone:
                raise ClientGone from None
            return None

    async def first_round(self) -> list[ChoiceDelta]:
        """The first round's deltas; as ``next_round``, but there must be one."""
        deltas = await self.next_round()
        if deltas is None:
            raise EngineError("internal", "The engine ended the request without an answer")
        return deltas

    def close(self) -> None:
        """Stop watching the client, and tell the engine that no more is wanted."""
        self._watcher.cancel()
        self.generation.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
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
