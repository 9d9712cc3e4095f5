"""POST /v1/chat/completions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from engine.types import CallPiece, EngineError, MediaItem, Request, Stats
from generated.models import (
    AssistantMessage,
    CalledFunction,
    ChatChoice,
    ChatChunkChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionRequest,
    ChatDelta,
    ToolCall,
)
from generated.operations import CreateChatCompletion, CreateChatCompletionAnswer
from handlers.call import Call
from handlers.constraints import held_chat
from handlers.generate import answer
from handlers.logprobs import chat_logprobs
from handlers.media.parts import MediaPart
from handlers.media.placing import Placing
from handlers.requests import engine_request
from handlers.running import Gathered, Stopped, prepared
from handlers.sampling import Choices
from handlers.service import Service
from handlers.stream import AnswerHead, ChatEncoder, EventStream
from handlers.thinking_budget import thinking_budget
from handlers.usage import decode_times_ms, prefill_time_ms, rounds, total_usage

NewId = Callable[[], str]
"""Makes an id for a tool call."""


class ChatHandler:
    """Answers one conversation; made for one call. It is the ``Endpoint`` of chat."""

    def __init__(self, service: Service, call: Call) -> None:
        self._service = service
        self._call = call

    async def __call__(self, request: ChatCompletionRequest) -> CreateChatCompletionAnswer:
        """Render, generate, and answer whole or as a stream.

        Raises:
            Problem: every refusal, and every failure before the first token.
        """
        found = await answer(self._service, self._call, request, self)
        return CreateChatCompletion.Stream(found) if isinstance(found, EventStream) else CreateChatCompletion.Ok(found)

    async def prepare(self, body: ChatCompletionRequest, wanted: Choices) -> Request:
        """See ``Endpoint.prepare``. Media come last: a request that is refused for anything else reads none."""
        service = self._service
        info, limits = service.ready()
        parts = service.media_of(body)
        ids = await service.prompts.chat(body, limits, info.vocab_size, self._call.body_bytes, parts)
        form = service.forms.chat(body, ids)
        held, budget = await held_chat(service, body, form), thinking_budget(service, body, form)
        ids, media = await self._with_media(ids, parts) if parts else (ids, ())
        return engine_request(
            service,
            body,
            wanted,
            ids,
            logprobs=(body.top_logprobs or 0) if body.logprobs else None,
            form=form,
            held=held,
            thinking_budget=budget,
            media=media,
        )

    async def _with_media(
        self, ids: Sequence[int], parts: Sequence[MediaPart]
    ) -> tuple[list[int], tuple[MediaItem, ...]]:
        """The prompt with the tokens of its media in place of their placeholders."""
        service, call = self._service, self._call
        info, limits = service.ready()
        placing = Placing(ids, parts, info.media_tokens, limits)
        stopped = asyncio.Event()
        call.record.on_stop = stopped.set
        if call.record.stopped:
            stopped.set()
        began_s = time.monotonic()
        try:
            await prepared(
                service.intake.prepare(parts, call.kept, placing.add),
                call.receive,
                service.timeouts,
                call.begun_s,
                stopped=stopped.wait(),
                stopping=service.ending.wait_begun(),
            )
        except Stopped:
            return list(ids), ()  # it ends as soon as the engine has it
        except EngineError as error:
            raise service.problem(error) from None
        finally:
            call.record.media_s = time.monotonic() - began_s
        ids, call.record.media = placing.placed()
        return ids, call.record.media

    def whole(self, head: AnswerHead, gathered: list[Gathered], stats: Stats) -> ChatCompletion:
        """See ``Endpoint.whole``."""
        return whole_answer(head, gathered, stats, self._service.forms.new_call_id)

    def beam_chunk(self, head: AnswerHead, gathered: list[Gathered], stats: Stats) -> ChatCompletionChunk:
        """See ``Endpoint.beam_chunk``."""
        return beam_chunk(head, gathered, stats, self._service.forms.new_call_id)

    def encoder(self, head: AnswerHead, count: int, stats: Stats, *, usage_apart: bool) -> ChatEncoder:
        """See ``Endpoint.encoder``."""
        service = self._service
        return ChatEncoder(
            head,
            count,
            stats,
            openai_form=service.openai_form,
            full_text=service.settings.full_text_enabled,
            new_call_id=service.forms.new_call_id,
            usage_apart=usage_apart,
        )


def whole_answer(head: AnswerHead, gathered: list[Gathered], stats: Stats, new_call_id: NewId) -> ChatCompletion:
    """The whole answer: all choices, the usage of all of them, and the times of the rounds."""
    made = [
        ChatChoice(
            index=index,
            message=_message(choice, new_call_id),
            logprobs=chat_logprobs(choice.tokens) if choice.tokens else None,
            finish_reason=choice.ended,
        )
        for index, choice in enumerate(gathered)
    ]
    return ChatCompletion(
        id=head.id,
        object="chat.completion",
        created=head.created,
        model=head.model,
        choices=made,
        usage=total_usage(stats, gathered),
        prefill_time=prefill_time_ms(stats),
        decode_time_arr=decode_times_ms(stats, rounds(gathered)),
    )


def beam_chunk(head: AnswerHead, gathered: list[Gathered], stats: Stats, new_call_id: NewId) -> ChatCompletionChunk:
    """The one event of a beam search: all choices, each text in ``delta`` and in ``message``, the total usage."""
    made = []
    for index, choice in enumerate(gathered):
        message = _message(choice, new_call_id)
        delta = ChatDelta(role="assistant", content=message.content)
        if message.reasoning_content is not None:
            delta.reasoning_content = message.reasoning_content
        made.append(
            ChatChunkChoice(
                index=index,
                delta=delta,
                message=message,
                logprobs=chat_logprobs(choice.tokens) if choice.tokens else None,
                finish_reason=choice.ended,
            )
        )
    return ChatCompletionChunk(
        id=head.id,
        object="chat.completion.chunk",
        created=head.created,
        model=head.model,
        usage=total_usage(stats, gathered),
        choices=made,
    )


def _message(choice: Gathered, new_call_id: NewId) -> AssistantMessage:
    """The message of one choice; ``reasoning_content`` is there only where there was thinking."""
    message = AssistantMessage(role="assistant", content=choice.text, tool_calls=_tool_calls(choice.calls, new_call_id))
    if choice.reasoning:
        message.reasoning_content = choice.reasoning
    return message


def _tool_calls(pieces: list[CallPiece], new_call_id: NewId) -> list[ToolCall]:
    """The whole calls of their pieces."""
    calls: list[tuple[str, list[str]]] = []
    for piece in pieces:
        if piece.name is not None:
            calls.append((piece.name, []))
        calls[piece.index][1].append(piece.arguments)
    return [
        ToolCall(function=CalledFunction(name=name, arguments="".join(parts)), id=new_call_id(), type="function")
        for name, parts in calls
    ]
