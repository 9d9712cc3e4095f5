"""Which families' marks this deployment reads in answers, and how the answer to one request is taken apart."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from typing import Final

from engine.text.parsers import TOOL_FAMILIES, tool_family, tool_family_seen_in
from engine.text.parsers.family import ToolFamily
from engine.text.reasoning import THINKING_FAMILIES, ThinkingFamily, thinking_family, thinking_family_seen_in
from engine.text.tokenizer import TextTokenizer
from engine.types import AnswerForm
from generated.models import ChatCompletionRequest
from handlers.messages import tools_in_use
from handlers.settings import Settings

AUTO: Final = "auto"
NONE: Final = "none"
_ALPHANUMERIC: Final = string.ascii_letters + string.digits
_TAIL_TOKENS: Final = 16
"""The end of a prompt that shows whether thinking is open: a mark, and white space after it."""


def tool_parsers() -> list[str]:
    """What the setting ``tool_parser`` may be."""
    return [AUTO, NONE, *(name for family in TOOL_FAMILIES for name in (family.name, *family.aliases))]


def reasoning_parsers() -> list[str]:
    """What the setting ``reasoning_parser`` may be."""
    return [AUTO, NONE, *(name for family in THINKING_FAMILIES for name in (family.name, *family.aliases))]


def check_parsers(settings: Settings) -> None:
    """Refuse names that no family has.

    Raises:
        ValueError: naming the setting, and all that is allowed.
    """
    for setting, given, allowed in (
        ("tool_parser", settings.tool_parser, tool_parsers()),
        ("reasoning_parser", settings.reasoning_parser, reasoning_parsers()),
    ):
        if given not in allowed:
            raise ValueError(f"{setting} is {given!r}; allowed are {', '.join(allowed)}")


class AnswerForms:
    """The families of one deployment: those that its settings name, or those whose marks its chat template shows."""

    def __init__(self, tokenizer: TextTokenizer, settings: Settings) -> None:
        """Raises ValueError for a name that no family has."""
        check_parsers(settings)
        self._tokenizer = tokenizer
        template = settings.chat_template or tokenizer.chat_template
        for_tools = settings.chat_template or tokenizer.chat_templates.get("tool_use", template)
        self.tools = _chosen_tools(settings.tool_parser, for_tools)
        """The family whose tool calls are read; None to leave them in the text."""
        self.thinking = _chosen_thinking(settings.reasoning_parser, template)
        """The family whose thinking is told apart; None to leave it in the text."""
        self._thinking_markers = self._special(() if self.thinking is None else self.thinking.markers)
        self._tool_markers = self._special(() if self.tools is None else self.tools.markers)

    def chat(self, body: ChatCompletionRequest, prompt_ids: Sequence[int]) -> AnswerForm | None:
        """How the answer to a conversation is taken apart; None where all of it is content."""
        tools = self.tools if tools_in_use(body) else None
        if tools is None and self.thinking is None:
            return None
        return AnswerForm(
            tools=None if tools is None else tools.name,
            tool_names=() if tools is None else tuple(tool.function.name for tool in body.tools or ()),
            single_call=tools is not None and body.parallel_tool_calls is False,
            thinking=None if self.thinking is None else self.thinking.name,
            thinking_open=self._thinking_open(prompt_ids),
            markers=self._thinking_markers + (() if tools is None else self._tool_markers),
        )

    def completion(self, prompt_ids: Sequence[int]) -> AnswerForm | None:
        """The same for a text that is continued: thinking stays in it and is counted."""
        if self.thinking is None:
            return None
        return AnswerForm(
            thinking=self.thinking.name,
            thinking_open=self._thinking_open(prompt_ids),
            count_only=True,
            markers=self._thinking_markers,
        )

    def new_call_id(self) -> str:
        """An id for a tool call: "call_" and eight letters or digits, or what the family's templates ask for."""
        if self.tools is not None and self.tools.short_call_ids:
            return "".join(random.choices(_ALPHANUMERIC, k=9))
        return "call_" + "".join(random.choices(_ALPHANUMERIC, k=8))

    def _thinking_open(self, prompt_ids: Sequence[int]) -> bool | None:
        if self.thinking is None:
            return None
        tail = self._tokenizer.decode(prompt_ids[-_TAIL_TOKENS:], skip_special_tokens=False)
        return self.thinking.prompt_leaves(tail)

    def _special(self, markers: Sequence[str]) -> tuple[tuple[int, str], ...]:
        """The markers that are one special token each, with their ids."""
        added, special = self._tokenizer.added_tokens, self._tokenizer.special_ids
        return tuple((token, text) for token, text in added.items() if token in special and text in markers)


def _chosen_tools(setting: str, template: str | None) -> ToolFamily | None:
    if setting == NONE:
        return None
    return tool_family_seen_in(template) if setting == AUTO else tool_family(setting)


def _chosen_thinking(setting: str, template: str | None) -> ThinkingFamily | None:
    if setting == NONE:
        return None
    return thinking_family_seen_in(template) if setting == AUTO else thinking_family(setting)
