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
from handlers.generate import answer
from handlers.logprobs import completion_logprobs
from handlers.running import Gathered
from handlers.sampling import Choices, choices, sampling_params, stop_strings
from handlers.service import Service
from handlers.stream import AnswerHead, CompletionEncoder, EventStream
from handlers.unsupported import refuse_response_format
from handlers.usage import usage


class CompletionHandler:
    """Continues one text; made for one call."""

    def __init__(self, service: Service, call: Call) -> None:
        self._service = service
        self._call = call

    async def __call__(self, request: CompletionRequest) -> CreateCompletionAnswer:
        """Generate, and answer whole or as a stream.

        Raises:
            Problem: every refusal, and every failure before the first token.
        """
        service, call, body = self._service, self._call, request
        service.check_model(body.model)
        wanted = choices(body, service.settings.max_n)
        prepared = await self._prepare(body, wanted)
        head = AnswerHead(call.request_id, call.now(), body.model)
        found = await answer(
            service,
            call,
            prepared,
            wanted,
            stream=bool(body.stream),
            whole=lambda gathered, stats: whole_answer(head, gathered, stats),
            beam_chunk=lambda gathered, stats: beam_chunk(head, gathered, stats),
            encoder=lambda stats: CompletionEncoder(head, wanted.count, stats),
        )
        return CreateCompletion.Stream(found) if isinstance(found, EventStream) else CreateCompletion.Ok(found)

    async def _prepare(self, body: CompletionRequest, wanted: Choices) -> Request:
        service = self._service
        refuse_response_format(body)
        info, limits = service.ready()
        ids = await service.prompts.completion(body, limits, info.vocab_size)
        sampling = sampling_params(
            body,
            wanted,
            logprobs=body.logprobs,
            max_tokens=limits.output_tokens(len(ids), body.max_tokens),
            vocab_size=info.vocab_size,
            model=service.defaults,
        )
        return Request(
            request_id=service.engine_id(),
            prompt_ids=tuple(ids),
            sampling=sampling,
            stop=stop_strings(body),
            include_stop_str_in_output=bool(body.include_stop_str_in_output),
            skip_special_tokens=body.skip_special_tokens is not False,
            continues_prompt=True,
        )


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
        usage=usage(stats, sum(choice.token_count for choice in gathered), _rounds(gathered)),
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
        usage=usage(stats, sum(choice.token_count for choice in gathered), _rounds(gathered)),
    )


def _rounds(gathered: list[Gathered]) -> int:
    return max(choice.token_count for choice in gathered)


def _running_on(gathered: list[Gathered]) -> list[CompletionLogprobs | None]:
    """Each choice's log probabilities, where there are any; offsets count the texts of the choices before."""
    offset = 0
    made: list[CompletionLogprobs | None] = []
    for choice in gathered:
        made.append(completion_logprobs(choice.tokens, offset) if choice.tokens else None)
        offset += len(choice.text)
    return made
