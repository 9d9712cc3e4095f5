"""Rows on chat_template and chat_template_kwargs."""

from __future__ import annotations

from typing import Any

from wire import Row, bad, chat, ok, refused, wrong_type


def kwargs(**values: Any) -> dict[str, Any]:
    """A change that sets the template's variables."""
    return {"chat_template_kwargs": values}


def reserved(name: str) -> tuple[str, str]:
    """The paths that may name a reserved key."""
    return ("chat_template_kwargs", f"chat_template_kwargs.{name}")


THINKING = "chat_template_kwargs.enable_thinking"

KWARGS: list[Row] = [
    chat("kwargs-null", {"chat_template_kwargs": None}, ok()),
    chat("kwargs-empty", kwargs(), ok()),
    chat("kwargs-thinking-true", kwargs(enable_thinking=True), ok()),
    chat("kwargs-thinking-false", kwargs(enable_thinking=False), ok()),
    chat("kwargs-thinking-null", kwargs(enable_thinking=None), bad(THINKING)),
    chat("kwargs-thinking-string", kwargs(enable_thinking="true"), wrong_type(THINKING)),
    chat("kwargs-thinking-one", kwargs(enable_thinking=1), wrong_type(THINKING)),
    chat("kwargs-thinking-object", kwargs(enable_thinking={}), wrong_type(THINKING)),
    chat("kwargs-other", kwargs(mood="good", level=3), ok()),
    chat("kwargs-other-null", kwargs(mood=None), ok()),
    chat("kwargs-other-nested", kwargs(style={"tone": ["dry", None]}), ok()),
    chat("kwargs-messages", kwargs(messages=[]), bad(reserved("messages"))),
    chat("kwargs-tools", kwargs(tools=[]), bad(reserved("tools"))),
    chat("kwargs-generation-prompt", kwargs(add_generation_prompt=False), bad(reserved("add_generation_prompt"))),
    chat("kwargs-tokenize", kwargs(tokenize=True), bad(reserved("tokenize"))),
    chat("kwargs-template", kwargs(chat_template="x"), bad(reserved("chat_template"))),
    chat("kwargs-reserved-null", kwargs(messages=None), bad(reserved("messages"))),
    chat("kwargs-string", {"chat_template_kwargs": "{}"}, wrong_type("chat_template_kwargs")),
    chat("kwargs-list", {"chat_template_kwargs": []}, wrong_type("chat_template_kwargs")),
    chat("kwargs-boolean", {"chat_template_kwargs": True}, wrong_type("chat_template_kwargs")),
]

PLAIN = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
SPIN = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}x"

TEMPLATE: list[Row] = [
    chat("template-null", {"chat_template": None}, ok()),
    chat("template-text", {"chat_template": PLAIN}, ok()),
    chat("template-with-kwargs", {"chat_template": "{{ mood }}" + PLAIN, **kwargs(mood="good")}, ok()),
    chat("template-number", {"chat_template": 5}, wrong_type("chat_template")),
    chat("template-list", {"chat_template": [PLAIN]}, wrong_type("chat_template")),
    chat("template-boolean", {"chat_template": True}, wrong_type("chat_template")),
    chat("template-unfinished", {"chat_template": "{% for message in"}, bad("chat_template")),
    chat("template-unknown-tag", {"chat_template": "{% nonsense %}"}, bad("chat_template")),
    chat("template-complains", {"chat_template": "{{ raise_exception('No weekends.') }}"}, refused(422)),
    chat("template-renders-nothing", {"chat_template": "{% if false %}x{% endif %}"}, refused(422)),
    chat("template-divides-by-zero", {"chat_template": "{{ 1 // 0 }}"}, refused(422)),
    chat("template-reaches-out", {"chat_template": "{{ ''.__class__.__mro__[1].__subclasses__() }}"}, refused(422)),
    chat("template-spins", {"chat_template": SPIN}, refused((422, 500))),
    chat("template-swells", {"chat_template": "{{ 'x' * 10000000000 }}"}, refused((422, 500))),
    chat("template-file-outside", {"chat_template": "/nowhere/at/all/chat.jinja"}, bad("chat_template")),
    chat("template-file-climbs", {"chat_template": "/srv/../etc/chat.jinja"}, bad("chat_template")),
]

ROWS: list[Row] = [*KWARGS, *TEMPLATE]
