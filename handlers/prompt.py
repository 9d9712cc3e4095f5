"""From a validated request to the token ids of its prompt."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from engine.text.parsers.family import ToolFamily
from engine.text.parsers.hermes import HERMES
from engine.text.tokenizer import TextTokenizer
from generated.models import ChatCompletionRequest, CompletionRequest
from handlers import messages as plain
from handlers.chat_jinja import environment
from handlers.control_tokens import ControlTokens
from handlers.errors import Problem, refused
from handlers.media.parts import MediaPart
from handlers.media.placing import MediaTokens, check_placeholders
from handlers.settings import Limits, Settings
from handlers.template_faults import Source, text_of
from handlers.template_file import requested_template
from handlers.template_forms import CallForm, ChatTemplate, Conversation
from handlers.template_pool import TemplatePool

OFF_LOOP_CHARS: Final = 16_000
"""Prompts longer than this are rendered and tokenised in a thread, since the event loop serves everybody."""
PIECE_CHARS: Final = 65_536
"""Texts that look too long are counted in pieces of this size first."""
_CUT_TOKENS: Final = 16
"""More tokens than a cut between two pieces can add."""

_OBSERVATION: Final = "<|observation|>"
"""Opens a tool's result in GLM's vocabularies; their older templates know no role named tool."""
_T = TypeVar("_T")
_MODEL: Final = Source("The model's chat template", "the model's chat template", None, sys.maxsize, sys.maxsize)
_SENT: Final = Source("chat_template", "chat_template", "chat_template", sys.maxsize, sys.maxsize)


class PromptMaker:
    """Renders and tokenises prompts for one tokenizer."""

    def __init__(
        self,
        tokenizer: TextTokenizer,
        settings: Settings,
        pool: TemplatePool,
        family: ToolFamily = HERMES,
        media_tokens: MediaTokens = (),
    ) -> None:
        """Args:
        tokenizer: of the model.
        settings: of the deployment.
        pool: renders templates that requests bring.
        family: how the model writes calls, told where a template has no place for tools.
        media_tokens: what it takes besides text.
        """
        self._tokenizer = tokenizer
        self._settings = settings
        self._pool = pool
        self._media_tokens = media_tokens
        self._control = ControlTokens(tokenizer, {token for _, token in media_tokens})
        self._family = family
        self._environment = environment()
        self._compiled: dict[str, ChatTemplate] = {}
        self._observer = "observation" if _OBSERVATION in tokenizer.added_tokens.values() else "tool"
        own = tokenizer.encode("", add_special_tokens=True)
        bos = tokenizer.bos_token
        bos_ids = tokenizer.encode(bos, add_special_tokens=False) if bos else []
        self._bos = bos_ids if bos_ids and own[: len(bos_ids)] == bos_ids else []

    async def chat(
        self,
        body: ChatCompletionRequest,
        limits: Limits,
        vocab_size: int,
        body_bytes: int = 0,
        parts: Sequence[MediaPart] = (),
    ) -> list[int]:
        """Token ids of a conversation, ready for the assistant's answer, with one placeholder for each media part.

        A begin-of-sequence token that this tokenizer puts before a text is put here only where the template has not
        written it. Control tokens inside the messages are text (see control_tokens.py).

        Args:
            body: the request.
            limits: of the deployment.
            vocab_size: of the model.
            body_bytes: size of the body.
            parts: its media; a prompt that has any is not cut.

        Raises:
            Problem: 422 for a template's complaint, for one that loses media, and for an empty prompt; 424 for a prompt
                that is too long.
        """
        large = body_bytes > OFF_LOOP_CHARS
        template = await self._template(body)
        kwargs = _template_kwargs(body)
        given, marker = await _maybe_threaded(large, lambda: self._read(body, template, kwargs))
        rendered = await self._render(body, template, given, large)

        def finish() -> list[int]:
            plain_text = rendered.replace(marker, "") if marker else rendered
            self._refuse_far_too_long(plain_text, limits, "messages")
            ids = self._encode(rendered, marker)
            check_placeholders(ids, parts, self._media_tokens, _MODEL if body.chat_template is None else _SENT)
            return self._checked(ids, limits, vocab_size, "messages", cut=not parts)

        return await _maybe_threaded(large or len(rendered) > OFF_LOOP_CHARS, finish)

    async def completion(self, body: CompletionRequest, limits: Limits, vocab_size: int) -> list[int]:
        """Token ids of a completions prompt: the text as the tokenizer takes it, or the ids as they are.

        Raises:
            Problem: 422 for no tokens; 424 for too many, and for an id outside the vocabulary.
        """
        prompt = body.prompt
        if not isinstance(prompt, str):
            return self._checked(prompt, limits, vocab_size, "prompt")
        text = prompt

        def encode() -> list[int]:
            self._refuse_far_too_long(text, limits, "prompt")
            return self._tokenizer.encode(text, add_special_tokens=True)

        ids = await _maybe_threaded(len(text) > OFF_LOOP_CHARS, encode)
        return self._checked(ids, limits, vocab_size, "prompt")

    def _read(
        self, body: ChatCompletionRequest, template: str, kwargs: dict[str, Any]
    ) -> tuple[Conversation, str | None]:
        """What the template shall show, and what marks the client's control strings in it; None where it has none."""
        messages = plain.plain_messages(body.messages, template)
        own = [index for index, message in enumerate(messages) if message["role"] not in plain.KNOWN_ROLES]
        tools = plain.plain_tools(body.tools) if plain.tools_in_use(body) else None
        variables = {**self._tokenizer.special_tokens_map, **self._thinking(), **kwargs}
        given = Conversation(messages, tools, variables, own, self._observer, self._call_form(messages))
        if not self._control.occurs_in([messages, tools]):
            return given, None
        marker = self._control.marker_for(template, messages, tools, kwargs)
        marked = [self._control.marked(message, marker, data=message["role"] == "tool") for message in messages]
        return replace(given, messages=marked, tools=self._control.marked(tools, marker)), marker

    def _call_form(self, messages: list[dict[str, Any]]) -> CallForm:
        """How calls look in text; where arguments are no JSON there, they are spelled beside the client's own."""
        family = self._family
        form = CallForm(family.head, family.tail, family.opens, family.between, family.closes)
        if family.json_arguments:
            return form
        for function in (call["function"] for message in messages for call in message.get("tool_calls") or ()):
            if function["object"] is not None:
                function["spelled"] = family.arguments_as(function["object"])
        return form._replace(sample="<its arguments, name=value, with commas between>")

    def _thinking(self) -> dict[str, Any]:
        """The model's own switch of its chain of thought, where its tokenizer_config.json has one."""
        default = self._tokenizer.enable_thinking
        return {} if default is None else {"enable_thinking": default}

    def _refuse_far_too_long(self, text: str, limits: Limits, param: str) -> None:
        """Refuse a text whose tokens no memory should have to hold, after reading as much of it as tells.

        Texts of ordinary length and density are not looked at.
        """
        most = limits.max_prompt_tokens
        if self._settings.truncation or len(text) <= max(4 * most, PIECE_CHARS):
            return
        count = 0
        for start in range(0, len(text), PIECE_CHARS):
            piece = text[start : start + PIECE_CHARS]
            count += len(self._tokenizer.encode(piece, add_special_tokens=False)) - _CUT_TOKENS
            if count > most:
                message = f"{param} has far more tokens than the {most} that this deployment takes"
                raise Problem(424, "prompt_too_long", message, param)

    def _encode(self, rendered: str, marker: str | None) -> list[int]:
        if marker is None:
            ids = self._tokenizer.encode(rendered, add_special_tokens=False)
        else:
            ids = self._control.encode(rendered, marker)
        return ids if ids[: len(self._bos)] == self._bos else self._bos + ids

    def _checked(self, ids: list[int], limits: Limits, vocab_size: int, param: str, *, cut: bool = True) -> list[int]:
        """A prompt that the deployment takes; one that is too long is cut where the deployment cuts."""
        count, most = len(ids), limits.max_prompt_tokens
        cuts = self._settings.truncation if cut else 0
        if not count:
            raise refused("missing", f"{param} gives no tokens at all; at least one is needed", param)
        if count > most and not cuts:
            message = f"{param} has {count} tokens; this deployment takes at most {most}"
            raise Problem(424, "prompt_too_long", message, param)
        if count > most:
            ids = ids[:most] if cuts < 0 else ids[-most:]
        if min(ids) < 0 or max(ids) >= vocab_size:
            message = f"{param} has a token id outside the vocabulary, whose ids are 0 to {vocab_size - 1}"
            raise Problem(424, "invalid_token_id", message, param)
        return ids

    async def _template(self, body: ChatCompletionRequest) -> str:
        """The template text: the request's own, the deployment's, or the tokenizer's."""
        sent = body.chat_template
        if sent is not None:
            if sent.startswith("/") and sent.endswith(".jinja") and "\n" not in sent:
                return await asyncio.to_thread(requested_template, sent, self._settings.chat_template_dir)
            return sent
        if self._settings.chat_template is not None:
            return self._settings.chat_template
        named = self._tokenizer.chat_templates
        name = "tool_use" if "tool_use" in named and plain.tools_in_use(body) else "default"
        if name not in named:
            known = f" (its templates are named {', '.join(sorted(named))})" if named else ""
            message = (
                f"The deployed model has no default chat template{known}; "
                "send one in chat_template, or use /v1/completions"
            )
            raise refused("unsupported", message, "chat_template")
        return named[name]

    async def _render(self, body: ChatCompletionRequest, template: str, given: Conversation, large: bool) -> str:
        if body.chat_template is not None:
            return await self._pool.render(template, given)
        trusted = self._compiled.get(template)
        if trusted is None:
            trusted = self._compiled[template] = ChatTemplate(self._environment, template)
        made = await _maybe_threaded(large, lambda: trusted.render(given, sys.maxsize))
        return text_of(made, given, _MODEL)


async def _maybe_threaded(threaded: bool, work: Callable[[], _T]) -> _T:
    return await asyncio.to_thread(work) if threaded else work()


def _template_kwargs(body: ChatCompletionRequest) -> dict[str, Any]:
    sent = body.chat_template_kwargs
    return {} if sent is None else sent.model_dump(exclude_unset=True)
