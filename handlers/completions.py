"""POST /v1/completions."""

from __future__ import annotations

from engine.types import Request, Stats
from generated.models import (
    Completion,
    CompletionChoice,
    CompletionChunk,
    CompletionChunkChoice,
    CompletionLogprobs,
    CompletionRequest,
)
from generated.operations import CreateCompletion, CreateCompletionAnswer
from handlers.call import Call
from handlers.constraints import held_completion
from handlers.generate import answer
from handlers.logprobs import completion_logprobs
from handlers.requests import engine_request
from handlers.running import Gathered
from handlers.sampling import Choices
from handlers.service import Service
from handlers.stream import AnswerHead, CompletionEncoder, EventStream
from handlers.usage import total_usage


class CompletionHandler:
    """Continues one text; made for one call. It is the ``Endpoint`` of text completions."""

    def __init__(self, service: Service, call: Call) -> None:
        self._service = service
        self._call = call

    async def __call__(self, request: CompletionRequest) -> CreateCompletionAnswer:
        """Generate, and answer whole or as a stream.

        Raises:
            Problem: every refusal, and every failure before the first token.
        """
        found = await answer(self._service, self._call, request, self)
        return CreateCompletion.Stream(found) if isinstance(found, EventStream) else CreateCompletion.Ok(found)

    async def prepare(self, body: CompletionRequest, wanted: Choices) -> Request:
        """See ``Endpoint.prepare``."""
        service = self._service
        info, limits = service.ready()
        ids = await service.prompts.completion(body, limits, info.vocab_size)
        form = service.forms.completion(ids)
        held = await held_completion(service, body, form)
        return engine_request(
            service, body, wanted, ids, logprobs=body.logprobs, form=form, held=held, continues_prompt=True
        )

    def whole(self, head: AnswerHead, gathered: list[Gathered], stats: Stats) -> Completion:
        """See ``Endpoint.whole``."""
        return whole_answer(head, gathered, stats)

    def beam_chunk(self, head: AnswerHead, gathered: list[Gathered], stats: Stats) -> CompletionChunk:
        """See ``Endpoint.beam_chunk``."""
        return beam_chunk(head, gathered, stats)

    def encoder(self, head: AnswerHead, count: int, stats: Stats, *, usage_apart: bool) -> CompletionEncoder:
        """See ``Endpoint.encoder``."""
        return CompletionEncoder(head, count, stats, usage_apart=usage_apart)


def whole_answer(head: AnswerHead, gathered: list[Gathered], stats: Stats) -> Completion:
    """The whole answer; text offsets run on from choice to choice."""
    made = [
        CompletionChoice(
            index=index,
            text=choice.text,
            logprobs=logprobs,
            stop_reason=choice.stop_reason,
            finish_reason=choice.ended,
        )
        for index, (choice, logprobs) in enumerate(zip(gathered, _running_on(gathered), strict=True))
    ]
    return Completion(
        id=head.id,
        object="text_completion",
        created=head.created,
        model=head.model,
        choices=made,
        usage=total_usage(stats, gathered),
    )


def beam_chunk(head: AnswerHead, gathered: list[Gathered], stats: Stats) -> CompletionChunk:
    """The one event of a beam search: all choices and the total usage; text offsets run on."""
    made = [
        CompletionChunkChoice(
            index=index,
            text=choice.text,
            logprobs=logprobs,
            stop_reason=choice.stop_reason,
            finish_reason=choice.ended,
        )
        for index, (choice, logprobs) in enumerate(zip(gathered, _running_on(gathered), strict=True))
    ]
    return CompletionChunk(
        id=head.id,
        object="text_completion",
        created=head.created,
        model=head.model,
        choices=made,
        usage=total_usage(stats, gathered),
    )


def _running_on(gathered: list[Gathered]) -> list[CompletionLogprobs | None]:
    """Each choice's log probabilities, where there are any; offsets count the texts of the choices before."""
    offset = 0
    made: list[CompletionLogprobs | None] = []
    for choice in gathered:
        made.append(completion_logprobs(choice.tokens, offset) if choice.tokens else None)
        offset += len(choice.text)
    return made
