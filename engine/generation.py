"""One request as its consumer sees it: an asynchronous iterator of rounds that never piles up without bound."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from engine.text.output import merge_deltas
from engine.types import AnswerReason, ChoiceDelta, EngineError, Stats

_MERGE_AT = 256
"""Rounds that wait unread before they are merged into one; more would only cost memory."""


class GenerationState:
    """What the front knows of a running generation: the rounds that nobody has read yet, and how it ended."""

    def __init__(self) -> None:
        self.heard_s = time.monotonic()
        """When the engine last reported a round of this request; before that, when it was submitted."""
        self.first_s: float | None = None
        """When the engine reported the first round; None before."""
        self.generated = 0
        """Tokens of all choices, read or not."""
        self.reasons: list[AnswerReason] = []
        """Why choices ended, in the order in which they did."""
        self._unread: list[list[ChoiceDelta]] = []
        self._error: EngineError | None = None
        self._ended = False
        self._reader: asyncio.Future[None] | None = None

    @property
    def ended(self) -> bool:
        """Nothing will be added."""
        return self._ended

    def add(self, deltas: list[ChoiceDelta]) -> None:
        """A round's deltas. A reader that lags gets the rounds that it missed as one."""
        if self._ended or not deltas:
            return
        self._unread.append(deltas)
        if len(self._unread) >= _MERGE_AT:
            self._unread = [merge_deltas(self._unread)]
        self._wake()

    def end(self, error: EngineError | None = None) -> None:
        """The request is over; with an error, the reader gets it after the deltas that came before."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake()

    def discard(self) -> None:
        """Nobody wants the rest."""
        self._unread.clear()
        self._error = None
        self._ended = True
        self._wake()

    async def read(self) -> list[ChoiceDelta] | None:
        """Everything unread as one round; None at the end. Raises the EngineError that ended the request."""
        while not self._unread:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._ended:
                return None
            if self._reader is not None and not self._reader.done():
                raise RuntimeError("a generation has one reader")
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        unread, self._unread = self._unread, []
        return unread[0] if len(unread) == 1 else merge_deltas(unread)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class Generation:
    """The answer to one submitted request: iterate it once, one list of deltas a scheduler round.

    A slow consumer gets the rounds that it missed merged into one list. Use it on the front's event loop only.
    """

    def __init__(
        self, state: GenerationState, stats: Stats, cancel: Callable[[], None], stop: Callable[[], None] | None = None
    ) -> None:
        """Args:
        state: what it has not read.
        stats: grow as rounds arrive.
        cancel: tells the engine that nobody wants the rest.
        stop: ends the answer where it stands, which is told as its last round; None where that cannot be.
        """
        self.stats = stats
        self._state = state
        self._cancel = cancel
        self._stop = stop
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> list[ChoiceDelta]:
        """The next round's deltas.

        Raises:
            EngineError: the engine could not finish the request; what was generated before has been returned.
        """
        deltas = await self._state.read()
        if deltas is None:
            raise StopAsyncIteration
        return deltas

    def __del__(self) -> None:
        # A consumer that went away without a word; the collector may run in any thread.
        if not self._state.ended and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    @property
    def ended(self) -> bool:
        """The engine does nothing for it any more; what it did may not have been read yet."""
        return self._state.ended

    @property
    def heard_s(self) -> float:
        """When the engine last reported a round of this request, or its submission: seconds of ``time.monotonic``."""
        return self._state.heard_s

    @property
    def first_s(self) -> float | None:
        """When the engine reported the first round, in seconds of ``time.monotonic``; None before."""
        return self._state.first_s

    @property
    def generated(self) -> int:
        """Tokens of all choices so far, read or not."""
        return self._state.generated

    @property
    def reasons(self) -> list[AnswerReason]:
        """Why choices ended, in the order in which they did."""
        return self._state.reasons

    def fail(self, error: EngineError) -> None:
        """Give the request up with an error, which comes after the rounds that have not been read."""
        self._state.end(error)
        self._cancel()

    def stop(self) -> None:
        """End the answer where it stands: whoever iterates gets what there is, every choice with its end."""
        if self._stop is not None:
            self._stop()

    def cancel(self) -> None:
        """Give the request up: the engine drops it at its next round, and the iteration ends. Safe to repeat."""
        self._state.discard()
        self._cancel()
