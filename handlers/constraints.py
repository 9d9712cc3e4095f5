"""What a request holds its answer to: tool_choice, strict functions and response_format, as one grammar."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engine.text.parsers.family import ToolFamily
from engine.text.reasoning import thinking_family
from engine.types import AnswerForm
from generated.models import ChatCompletionRequest, CompletionRequest, NamedToolChoice, ResponseFormat
from handlers.call_grammar import Calls, Thought, rules
from handlers.errors import refused
from handlers.messages import tools_in_use
from handlers.schema_pool import Asked
from handlers.service import Service

_ANY_OBJECT: Final = {"type": "object"}
_NO_ARGUMENTS: Final = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Held:
    """What the engine holds every choice to; nothing where both are None."""

    grammar: str | None = None
    """See ``Request.grammar``."""
    text: str | None = None
    """An answer under it, for engines that are told their words; None where any made-up text is one."""


@dataclass(slots=True)
class _Plan:
    """The grammar of one request while it is put together."""

    schemas: list[Asked] = field(default_factory=list)
    calls: Calls | None = None
    json_schema: int | None = None

    def add(self, asked: Asked) -> int:
        """A schema's number."""
        self.schemas.append(asked)
        return len(self.schemas) - 1


async def held_chat(service: Service, body: ChatCompletionRequest, form: AnswerForm | None) -> Held:
    """What a conversation's answer is held to.

    Raises:
        Problem: 422 unsupported - a schema, or a combination of fields, that no grammar can hold, by name.
    """
    plan = _Plan()
    _plan_calls(plan, body, service.forms.tools)
    _plan_format(plan, body.response_format)
    if not plan.schemas:
        return Held()
    _refuse_beams(body)
    return await _made(service, plan, form, chat=True)


async def held_completion(service: Service, body: CompletionRequest, form: AnswerForm | None) -> Held:
    """What a completion is held to.

    Raises:
        Problem: as ``held_chat``.
    """
    plan = _Plan()
    _plan_format(plan, body.response_format)
    if not plan.schemas:
        return Held()
    _refuse_beams(body)
    return await _made(service, plan, form, chat=False)


def _plan_calls(plan: _Plan, body: ChatCompletionRequest, family: ToolFamily | None) -> None:
    """Tool calls, where the request or a strict function asks for them to be held."""
    if not tools_in_use(body) or not body.tools:
        return
    choice = body.tool_choice
    named = choice.function.name if isinstance(choice, NamedToolChoice) else None
    required = named is not None or choice == "required"
    formed = body.response_format is not None and body.response_format.type != "text"
    strict = next((index for index, tool in enumerate(body.tools) if tool.function.strict), None)
    if not required and strict is None and not formed:
        return
    if family is None or not family.json_arguments:
        if not required and strict is None:
            return  # no calls are read, or none can be held: the answer is what response_format says
        reason = "this deployment reads no tool calls" if family is None else f"{family.name} calls are not JSON"
        if required:
            raise refused("unsupported", f"tool_choice can be none or auto here: {reason}", "tool_choice")
        param = f"tools[{strict}].function.strict"
        raise refused("unsupported", f"{param} must be false or absent here: {reason}", param)
    schemas = {}
    for index, tool in enumerate(body.tools):
        function = tool.function
        if named in (None, function.name):
            param = f"tools[{index}].function.parameters"
            holds = required or bool(function.strict)
            schema = (_NO_ARGUMENTS if function.parameters is None else function.parameters) if holds else _ANY_OBJECT
            schemas[function.name] = plan.add(Asked(schema, param, holds and bool(function.strict), arguments=True))
    plan.calls = Calls(family, schemas, required, single=body.parallel_tool_calls is False)


def _plan_format(plan: _Plan, wanted: ResponseFormat | None) -> None:
    """The answer's own form. Where calls are required, these alone are the answer."""
    if wanted is None or wanted.type == "text" or (plan.calls is not None and plan.calls.required):
        return
    if wanted.json_schema is None:
        asked = Asked(_ANY_OBJECT, "response_format", closed=False, arguments=False)
    else:
        param = "response_format.json_schema.schema"
        asked = Asked(wanted.json_schema.schema_, param, bool(wanted.json_schema.strict), arguments=False)
    plan.json_schema = plan.add(asked)


def _refuse_beams(body: ChatCompletionRequest | CompletionRequest) -> None:
    if body.use_beam_search:
        message = "use_beam_search cannot be true here: the beams of a search are not held to a grammar"
        raise refused("unsupported", message, "use_beam_search")


async def _made(service: Service, plan: _Plan, form: AnswerForm | None, *, chat: bool) -> Held:
    told = service.forces_tool_calls
    text = rules(
        calls=plan.calls,
        json_schema=plan.json_schema,
        thought=None if told else _thought(form, chat=chat),
        special={} if form is None else {mark: token_id for token_id, mark in form.markers},
    )
    made = await service.schemas.made(text, plan.schemas, examples=told)
    return Held(made.grammar, _text(plan, made.examples) if told else None)


def _thought(form: AnswerForm | None, *, chat: bool) -> Thought | None:
    """The thinking that comes before the answer: begun by the prompt, or on chat by the model itself."""
    family = None if form is None or form.thinking is None else thinking_family(form.thinking)
    if form is None or family is None or form.thinking_open is False:
        return None
    begun = form.thinking_open is True or (chat and family.always)
    return Thought(family, begun) if begun or chat else None


def _text(plan: _Plan, examples: Sequence[Any]) -> str | None:
    """An answer of these values; None where any text is one."""
    if plan.json_schema is not None:
        return json.dumps(examples[plan.json_schema], ensure_ascii=False)
    calls = plan.calls
    if calls is None or not calls.required:
        return None
    name, number = next(iter(calls.schemas.items()))
    return calls.family.write(name, examples[number])
