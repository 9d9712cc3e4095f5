"""The process that renders chat templates sent in requests; started by template_pool.py, isolated (``python -I``).

A template that broke out of Jinja's sandbox would find a process with little memory, no file that it could open or
write, no request of anybody else, and a few seconds to live.

In: ``{"template", "conversation", "max_bytes"}``, the conversation being a template_forms.Conversation. Out: a
template_forms.Rendered, and ``last``.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from jinja2.sandbox import ImmutableSandboxedEnvironment

from handlers.chat_jinja import SPENT, Fault, environment
from handlers.template_forms import CallForm, ChatTemplate, Conversation, Rendered
from handlers.worker_process import serve

_WARM_UP: Final = "{{ strftime_now('%d %b %Y %H:%M:%S %Z') }}{{ messages | pprint }}{{ lipsum(1) }}{{ none_such.name }}"
"""Uses all that is imported late, since the process can open no file later."""


def answer(made: ImmutableSandboxedEnvironment, request: dict[str, Any]) -> Rendered:
    """Answer one request; a template that is at fault is an answer too."""
    try:
        template = ChatTemplate(made, request["template"])
        sent = request["conversation"]
        conversation = Conversation(**{**sent, "call_form": CallForm(*sent.get("call_form", ()))})
        return template.render(conversation, request["max_bytes"])
    except MemoryError:
        return Rendered(fault=Fault("memory"))
    except RecursionError:
        return Rendered(fault=Fault("depth"))


def main() -> None:
    """Serve requests from stdin until it closes. Argument: the memory limit in bytes."""
    made = environment()
    answer(made, {"template": _WARM_UP, "conversation": {"messages": []}, "max_bytes": 10_000})

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        given = answer(made, request)
        spent = given.fault is not None and given.fault.kind in SPENT
        return {**asdict(given), "last": spent}  # the next request then gets a fresh process

    serve(reply, opens_files=False)


def rendered(answer: dict[str, Any]) -> Rendered:
    """An answer as it came through the pipe."""
    fault, place = answer["fault"], answer["needs_object"]
    return Rendered(
        answer["text"],
        None if fault is None else Fault(*fault),
        answer["left_out"],
        None if place is None else (place[0], place[1]),
    )
