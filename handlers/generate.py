"""What both endpoints do with a validated body: prepare it, run it, and answer whole, as a stream, or with beams."""

from __future__ import annotations

from typing import Protocol, TypeVar

from engine.types import EngineError, Request, Stats
from generated.base import ContractModel
from handlers.call import Call
from handlers.record import prompt_text
from handlers.running import Gathered, Running, gather
from handlers.sampling import AnyRequest, Choices, choices
from handlers.service import Service
from handlers.stream import AnswerHead, Encoder, EventStream, live, single

_B = TypeVar("_B", bound=AnyRequest, contravariant=True)
_A = TypeVar("_A", bound=ContractModel, covariant=True)


class Endpoint(Protocol[_B, _A]):
    """What an endpoint has of its own."""

    async def prepare(self, body: _B, wanted: Choices) -> Request:
        """The engine's request. Raises Problem for every refusal."""
        ...

    def whole(self, head: AnswerHead, gathered: list[Gathered], stats: Stats) -> _A:
        """The whole answer of finished choices."""
        ...

    def beam_chunk(self, head: AnswerHead, gathered: list[Gathered], stats: Stats) -> ContractModel:
        """The one event of a streamed beam search."""
        ...

    def encoder(self, head: AnswerHead, count: int, stats: Stats, *, usage_apart: bool) -> Encoder:
        """Writes the events of ``count`` choices."""
        ...


async def answer(service: Service, call: Call, body: _B, endpoint: Endpoint[_B, _A]) -> _A | EventStream:
    """Submit the request and wait for its first round, so that a failure until then is an ordinary error answer.

    Raises:
        Problem: every refusal, and every failure before the first token.
        ClientGone: the client has disconnected.
    """
    record = call.record
    record.model, record.streams = body.model, bool(body.stream)
    keep = record.keep_text if service.settings.logs.prompts else None
    if keep is not None:
        record.prompt = prompt_text(body)
    service.check_model(body.model)
    wanted = choices(body, service.settings.max_n)
    request = await endpoint.prepare(body, wanted)
    head = AnswerHead(call.request_id, call.now(), body.model)
    running: Running | None = None
    try:
        record.generation = service.front.submit(request)
        if record.stopped:
            record.generation.stop()
        running = Running(record.generation, call.receive, service.timeouts, call.begun_s, keep)
        first = await running.first_round()
        service.traffic.first_token(record)
        if body.stream and not wanted.beams:
            # In MindIE's form usage always stands in the choices' last events.
            apart = service.openai_form and body.stream_options is not None and bool(body.stream_options.include_usage)
            encoder = endpoint.encoder(head, wanted.count, running.generation.stats, usage_apart=apart)
            events = live(running, first, encoder, service.problem, record)
            running = None  # the stream closes it
            return events
        gathered = await gather(running, first, wanted.count, ranked=wanted.ranked)
        stats = running.generation.stats
        if body.stream:
            return single(endpoint.beam_chunk(head, gathered, stats).wire_json().encode())
        return endpoint.whole(head, gathered, stats)
    except EngineError as error:
        raise service.problem(error) from None
    finally:
        if running is not None:
            running.close()
