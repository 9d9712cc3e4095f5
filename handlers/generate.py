"""What both endpoints do with a prepared request: run it, and answer whole, as a stream, or with beams as one event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.types import EngineError, Request, Stats
from generated.base import ContractModel
from handlers.call import Call
from handlers.running import Gathered, Running, gather
from handlers.sampling import Choices
from handlers.service import Service
from handlers.stream import Encoder, EventStream, live, single

_A = TypeVar("_A", bound=ContractModel)
Make = Callable[[list[Gathered], Stats], _A]
"""Builds an answer from its finished choices."""


async def answer(
    service: Service,
    call: Call,
    request: Request,
    wanted: Choices,
    *,
    stream: bool,
    whole: Make[_A],
    beam_chunk: Make[ContractModel],
    encoder: Callable[[Stats], Encoder],
) -> _A | EventStream:
    """Submit the request and wait for its first round, so that a failure until then is an ordinary error answer.

    Raises:
        Problem: the engine refused or failed.
        ClientGone: the client has disconnected.
    """
    running: Running | None = None
    try:
        running = Running(service.front.submit(request), call.receive, service.timeouts, call.begun_s)
        first = await running.first_round()
        if stream and not wanted.beams:
            events = live(running, first, encoder(running.generation.stats), service.problem)
            running = None  # the stream closes it
            return events
        choices = await gather(running, first, wanted.count, ranked=wanted.ranked)
        stats = running.generation.stats
        if stream:
            return single(beam_chunk(choices, stats).wire_json().encode())
        return whole(choices, stats)
    except EngineError as error:
        raise service.problem(error) from None
    finally:
        if running is not None:
            running.close()
