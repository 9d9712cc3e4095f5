"""POST /v1/chat/completions."""

from __future__ import annotations

from typing import Literal

from engine.text.tools import CallPiece, ToolCallParser
from engine.types import Request, Stats
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
from handlers import forced_calls, unsupported
from handlers.call import Call
from handlers.generate import answer
from handlers.logprobs import chat_logprobs
from handlers.messages import tools_in_use
from handlers.running import Gathered
from handlers.sampling import Choices, choices, most_tokens, sampling_params, stop_strings
from handlers.service import Service
from handlers.stream import AnswerHead, ChatEncoder, EventStream, new_call_id
from handlers.usage import decode_times_ms, prefill_time_ms, usage

Reason = Literal["stop", "length", "tool_calls"]


class ChatHandler:
    """Answers one conversation; made for one call."""

    def __init__(self, service: Service, call: Call) -> None:
        self._service = service
        self._call = call

    async def __call__(self, request: ChatCompletionRequest) -> CreateChatCompletionAnswer:
        """Render, generate, and answer whole or as a stream.

        Raises:
            Problem: every refusal, and every failure before the first token.
        """
        service, call, body = self._service, self._call, request
        service.check_model(body.model)
        wanted = choices(body, service.settings.max_n)
        prepared = await self._prepare(body, wanted)
        head = AnswerHead(call.request_id, call.now(), body.model)
        names = [tool.function.name for tool in body.tools or ()] if tools_in_use(body) else None
        full_text = service.settings.full_text_enabled
        found = await answer(
            service,
            call,
            prepared,
            wanted,
            stream=bool(body.stream),
            whole=lambda gathered, stats: whole_answer(head, gathered, stats, names),
            beam_chunk=lambda gathered, stats: beam_chunk(head, gathered, stats, names),
            encoder=lambda stats: ChatEncoder(
                head, wanted.count, stats, openai_form=service.openai_form, full_text=full_text, tool_names=names
            ),
        )
        return CreateChatCompletion.Stream(found) if isinstance(found, EventStream) else CreateChatCompletion.Ok(found)

    async def _prepare(self, body: ChatCompletionRequest, wanted: Choices) -> Request:
        service = self._service
        unsupported.refuse_response_format(body)
        unsupported.refuse_thinking_budget(body)
        forced = forced_calls.forced_text(body, service.forces_tool_calls)
        forced_calls.refuse_strict(body, service.forces_tool_calls)
        info, limits = service.ready()
        ids = await service.prompts.chat(body, limits, info.vocab_size, self._call.body_bytes)
        sampling = sampling_params(
            body,
            wanted,
            logprobs=(body.top_logprobs or 0) if body.logprobs else None,
            max_tokens=limits.output_tokens(len(ids), most_tokens(body)),
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
            forced_text=forced,
        )


def whole_answer(head: AnswerHead, gathered: list[Gathered], stats: Stats, tools: list[str] | None) -> ChatCompletion:
    """The whole answer: all choices, the usage of all of them, and the times of the rounds."""
    rounds = max(choice.token_count for choice in gathered)
    made = []
    for index, choice in enumerate(gathered):
        message, reason = _message(choice, tools)
        logprobs = chat_logprobs(choice.tokens) if choice.tokens else None
        made.append(ChatChoice(index=index, message=message, logprobs=logprobs, finish_reason=reason))
    return ChatCompletion(
        id=head.id,
        object="chat.completion",
        created=head.created,
        model=head.model,
        choices=made,
        usage=usage(stats, sum(choice.token_count for choice in gathered), rounds),
        prefill_time=prefill_time_ms(stats),
        decode_time_arr=decode_times_ms(stats, rounds),
    )


def beam_chunk(
    head: AnswerHead, gathered: list[Gathered], stats: Stats, tools: list[str] | None
) -> ChatCompletionChunk:
    """The one event of a beam search: all choices, each text in ``delta`` and in ``message``, the total usage."""
    rounds = max(choice.token_count for choice in gathered)
    made = []
    for index, choice in enumerate(gathered):
        message, reason = _message(choice, tools)
        made.append(
            ChatChunkChoice(
                index=index,
                delta=ChatDelta(role="assistant", content=message.content),
                message=message,
                logprobs=chat_logprobs(choice.tokens) if choice.tokens else None,
                finish_reason=reason,
            )
        )
    return ChatCompletionChunk(
        id=head.id,
        object="chat.completion.chunk",
        created=head.created,
        model=head.model,
        usage=usage(stats, sum(choice.token_count for choice in gathered), rounds),
        choices=made,
    )


def _message(choice: Gathered, tools: list[str] | None) -> tuple[AssistantMessage, Reason]:
    """The message of one choice and its finish reason, tool calls taken out of the text where tools are in use."""
    ended = choice.ended
    if tools is None:
        return AssistantMessage(role="assistant", content=choice.text, tool_calls=[]), ended
    parser = ToolCallParser(tools)
    content = ""
    calls: list[tuple[str, list[str]]] = []
    for piece in parser.feed(choice.text) + parser.finish():
        if not isinstance(piece, CallPiece):
            content += piece
        elif piece.name is not None:
            calls.append((piece.name, [piece.arguments]))
        else:
            calls[piece.index][1].append(piece.arguments)
    made = [
        ToolCall(function=CalledFunction(name=name, arguments="".join(parts)), id=new_call_id(), type="function")
        for name, parts in calls
    ]
    reason: Reason = "tool_calls" if made and not parser.cut_short else ended
    return AssistantMessage(role="assistant", content=content, tool_calls=made), reason
