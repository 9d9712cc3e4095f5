"""From a validated request to the token ids of its prompt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from jinja2.exceptions import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

from engine.text.tokenizer import TextTokenizer
from generated.models import ChatCompletionRequest, CompletionRequest
from handlers import messages as plain
from handlers.control_tokens import ControlTokens
from handlers.errors import Problem, refused
from handlers.settings import Limits, Settings
from handlers.template_pool import TemplatePool, complaint

OFF_LOOP_CHARS: Final = 16_000
"""Prompts longer than this are rendered and tokenised in a thread, since the event loop serves everybody."""
PIECE_CHARS: Final = 65_536
"""Texts that look too long are counted in pieces of this size first."""
_CUT_TOKENS: Final = 16
"""More tokens than a cut between two pieces can add."""

_RENDERER_NAMES: Final = ("conversations", "return_assistant_tokens_mask", "continue_final_message")
_TEMPLATE_FILE_BYTES = 1024 * 1024
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Read:
    """A conversation as a template takes it."""

    forms: list[list[dict[str, Any]]]
    """The messages, in the forms to try in turn: tool arguments as objects, then as text."""
    tools: list[dict[str, Any]] | None
    marker: str | None
    """What marks control strings in the texts; None where there are none."""


class PromptMaker:
    """Renders and tokenises prompts for one tokenizer."""

    def __init__(self, tokenizer: TextTokenizer, settings: Settings, pool: TemplatePool) -> None:
        self._tokenizer = tokenizer
        self._settings = settings
        self._pool = pool
        self._control = ControlTokens(tokenizer)
        own = tokenizer.encode("", add_special_tokens=True)
        bos = tokenizer.bos_token
        bos_ids = tokenizer.encode(bos, add_special_tokens=False) if bos else []
        self._bos = bos_ids if bos_ids and own[: len(bos_ids)] == bos_ids else []

    async def chat(
        self, body: ChatCompletionRequest, limits: Limits, vocab_size: int, body_bytes: int = 0
    ) -> list[int]:
        """Token ids of a conversation, ready for the assistant's answer.

        A begin-of-sequence token that this tokenizer puts before a text is put here only where the template has not
        written it. Control tokens inside the messages are text (see control_tokens.py).

        Raises:
            Problem: 422 for media, for a template's complaint and for an empty prompt; 424 for one that is too long.
        """
        large = body_bytes > OFF_LOOP_CHARS
        template = await self._template(body)
        kwargs = _template_kwargs(body)
        read = await _maybe_threaded(large, lambda: self._read(body, template, kwargs))
        rendered = await self._render(body, template, read, kwargs, large)

        def finish() -> list[int]:
            plain_text = rendered.replace(read.marker, "") if read.marker else rendered
            self._refuse_far_too_long(plain_text, limits, "messages")
            ids = self._encode(rendered, read.marker)
            _check_roles(read.forms[-1][-len(body.messages) :], rendered)
            return _checked(ids, limits, vocab_size, "messages")

        return await _maybe_threaded(large or len(rendered) > OFF_LOOP_CHARS, finish)

    async def completion(self, body: CompletionRequest, limits: Limits, vocab_size: int) -> list[int]:
        """Token ids of a completions prompt: the text as the tokenizer takes it, or the ids as they are.

        Raises:
            Problem: 422 for no tokens; 424 for too many, and for an id outside the vocabulary.
        """
        prompt = body.prompt
        if not isinstance(prompt, str):
            return _checked(prompt, limits, vocab_size, "prompt")
        text = prompt

        def encode() -> list[int]:
            self._refuse_far_too_long(text, limits, "prompt")
            return self._tokenizer.encode(text, add_special_tokens=True)

        ids = await _maybe_threaded(len(text) > OFF_LOOP_CHARS, encode)
        return _checked(ids, limits, vocab_size, "prompt")

    def _read(self, body: ChatCompletionRequest, template: str, kwargs: dict[str, Any]) -> _Read:
        """What the template shall render, control strings of the client marked."""
        messages = plain.plain_messages(body.messages, template)
        forms = [messages]
        if any("tool_calls" in message for message in messages):
            forms.insert(0, plain.parse_arguments(messages, template))
        tools = plain.plain_tools(body.tools) if plain.tools_in_use(body) else None
        if tools and "tools" not in template:
            forms, tools = [plain.with_tools_told(form, tools) for form in forms], None
        if not self._control.occurs_in([forms, tools]):
            return _Read(forms, tools, None)
        marker = self._control.marker_for(template, forms, tools, kwargs)
        return _Read(self._control.marked(forms, marker), self._control.marked(tools, marker), marker)

    def _refuse_far_too_long(self, text: str, limits: Limits, param: str) -> None:
        """Refuse a text whose tokens no memory should have to hold, after reading as much of it as tells.

        Texts of ordinary length and density are not looked at.
        """
        most = limits.max_prompt_tokens
        if len(text) <= max(4 * most, PIECE_CHARS):
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

    async def _template(self, body: ChatCompletionRequest) -> str:
        """The template text: the request's own, or the tokenizer's."""
        sent = body.chat_template
        if sent is None:
            if self._tokenizer.chat_template is None:
                message = "The deployed model has no chat template; send one in chat_template, or use /v1/completions"
                raise refused("unsupported", message, "chat_template")
            return self._tokenizer.chat_template
        if sent.startswith("/") and sent.endswith(".jinja") and "\n" not in sent:
            return await asyncio.to_thread(_read_template, sent, self._settings.chat_template_dir)
        return sent

    async def _render(
        self, body: ChatCompletionRequest, template: str, read: _Read, kwargs: dict[str, Any], large: bool
    ) -> str:
        """Render the first form of the messages that the template can take."""
        for messages in read.forms[:-1]:
            try:
                return await self._render_once(body, template, messages, read.tools, kwargs, large)
            except Problem as problem:
                if problem.param == "messages":  # the template's own words: another try would only repeat them
                    raise
        return await self._render_once(body, template, read.forms[-1], read.tools, kwargs, large)

    async def _render_once(
        self,
        body: ChatCompletionRequest,
        template: str,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        kwargs: dict[str, Any],
        large: bool,
    ) -> str:
        special = self._tokenizer.special_tokens_map
        if body.chat_template is not None:
            own = {"messages": messages, "tools": tools, "add_generation_prompt": True}
            return await self._pool.render(template, {**special, **kwargs, **own})

        def render() -> str:
            texts, _ = render_jinja_template(
                conversations=[messages],
                tools=tools,
                chat_template=template,
                add_generation_prompt=True,
                **{**special, **kwargs},
            )
            text: str = texts[0]
            return text

        try:
            return await _maybe_threaded(large, render)
        except Exception as error:
            if type(error) is TemplateError:
                raise complaint(str(error)) from None
            _log.warning("the model's chat template failed: %r", error)
            message = "The model's chat template cannot render these messages, tools and chat_template_kwargs together"
            raise refused("template_error", message, None) from None


async def _maybe_threaded(threaded: bool, work: Callable[[], _T]) -> _T:
    return await asyncio.to_thread(work) if threaded else work()


def _template_kwargs(body: ChatCompletionRequest) -> dict[str, Any]:
    sent = body.chat_template_kwargs
    if sent is None:
        return {}
    kwargs: dict[str, Any] = sent if isinstance(sent, dict) else sent.model_dump(exclude_unset=True)
    for name in _RENDERER_NAMES:
        if name in kwargs:
            param = f"chat_template_kwargs.{name}"
            raise refused("unsupported", f"{param} is a name that the server's renderer keeps for itself", param)
    return kwargs


def _check_roles(messages: list[dict[str, Any]], rendered: str) -> None:
    """Refuse a role of the client's own that the template passed over in silence."""
    position = 0  # templates write messages in their order, so that looking for all of them reads the text once
    for index, message in enumerate(messages):
        if message["role"] in plain.KNOWN_ROLES:
            continue
        content = message["content"].strip()
        found = rendered.find(content, position)
        if found >= 0:
            position = found
        elif content not in rendered:
            path = f"messages[{index}].role"
            shown = message["role"]
            raise refused("template_error", f"{path} is {shown!r}, a role that the chat template leaves out", path)


def _read_template(path: str, folder: Path | None) -> str:
    """The text of a template file inside the allowed folder, after following links."""
    if folder is None:
        message = "This deployment takes no chat_template files; send the template's text"
        raise refused("unsupported", message, "chat_template")
    allowed = folder.resolve()
    try:
        file = Path(path).resolve(strict=True)
        if file.is_relative_to(allowed) and file.is_file() and file.stat().st_size <= _TEMPLATE_FILE_BYTES:
            return file.read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError):
        pass
    message = "chat_template names no readable .jinja file of at most 1 MiB in the folder that this deployment allows"
    raise refused("template_error", message, "chat_template")


def _checked(ids: list[int], limits: Limits, vocab_size: int, param: str) -> list[int]:
    count = len(ids)
    if not count:
        raise refused("missing", f"{param} gives no tokens at all; at least one is needed", param)
    if count > limits.max_prompt_tokens:
        message = f"{param} has {count} tokens; this deployment takes at most {limits.max_prompt_tokens}"
        raise Problem(424, "prompt_too_long", message, param)
    if min(ids) < 0 or max(ids) >= vocab_size:
        message = f"{param} has a token id outside the vocabulary, whose ids are 0 to {vocab_size - 1}"
        raise Problem(424, "invalid_token_id", message, param)
    return ids
