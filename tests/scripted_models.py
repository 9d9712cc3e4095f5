"""Models that write what a script says, one for each family of tool calls, with templates in the family's form."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from engine.mock_front import MockFront
from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.parsers.family import ToolFamily
from handlers.service import Service
from handlers.settings import Settings


def template_of(family: ToolFamily) -> str:
    """A small chat template that lists tools and writes calls in the family's form.

    Where arguments are no JSON it knows neither tools nor calls, so that both are told in text.
    """
    calls = ""
    if family.json_arguments:
        before, after = family.head.split("{name}")
        refusal = "{{ raise_exception('an id has nine characters') }}"
        length = f"{{%- if call.id | length != 9 %}}{refusal}{{%- endif %}}" if family.short_call_ids else ""
        calls = (
            "{%- if message.tool_calls %}"
            + _text(family.opens)
            + "{%- for call in message.tool_calls %}"
            + length
            + "{%- if not loop.first %}"
            + _text(family.between)
            + "{%- endif %}"
            + _text(before)
            + "{{- call.function.name }}"
            + _text(after)
            + "{{- call.function.arguments }}"
            + _text(family.tail)
            + "{%- endfor %}"
            + _text(family.closes)
            + "{%- endif %}"
        )
    tools = "{%- if tools %}{{- tools | tojson }}{%- endif %}" if family.json_arguments else ""
    return (
        tools
        + "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
        + "{%- if message.content %}{{- message.content }}{%- endif %}"
        + calls
        + "{{- '<|im_end|>\\n' }}{%- endfor %}"
        + "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
    )


def _text(text: str) -> str:
    """A template that writes this text."""
    return "{{- " + json.dumps(text, ensure_ascii=False) + " }}" if text else ""


class Script:
    """What a model writes, reply by reply, and the prompts that it was given."""

    def __init__(self, replies: Sequence[str]) -> None:
        self._left = list(replies)
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> str:
        """The next reply."""
        self.prompts.append(prompt)
        return self._left.pop(0)


def scripted_service(
    replies: Callable[[str], str | None], template: str, special_tokens: Sequence[str] = (), **settings: Any
) -> Service:
    """A service whose model writes what it is told."""
    front = MockFront(mock_tokenizer(template, special_tokens), replies=replies)
    return Service(Settings(**{"model_name": "scripted", **settings}), front)
