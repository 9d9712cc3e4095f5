"""The process that renders chat templates sent in requests; started by template_pool.py, isolated (``python -I``).

A template that broke out of Jinja's sandbox would find a process with little memory, no file that it could open or
write, no request of anybody else, and a few seconds to live.

On its pipes each message is a 4-byte big-endian length and that many bytes of JSON. In: ``{"template",
"conversation", "max_bytes"}``, the conversation being a template_forms.Conversation. Out: a template_forms.Rendered.
"""

from __future__ import annotations

import json
import resource
import struct
import sys
from dataclasses import asdict
from typing import Any, BinaryIO, Final

from jinja2.sandbox import ImmutableSandboxedEnvironment

from handlers.chat_jinja import SPENT, Fault, environment
from handlers.template_forms import CallForm, ChatTemplate, Conversation, Rendered

READY: Final = b"ready"
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
    memory = int(sys.argv[1])
    made = environment()
    answer(made, {"template": _WARM_UP, "conversation": {"messages": []}, "max_bytes": 10_000})
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sink.write(READY)
    sink.flush()
    while (request := _read(source)) is not None:
        given = answer(made, request)
        data = json.dumps(asdict(given)).encode()
        sink.write(struct.pack(">I", len(data)) + data)
        sink.flush()
        if given.fault is not None and given.fault.kind in SPENT:
            return  # the next request gets a fresh process


def rendered(answer: dict[str, Any]) -> Rendered:
    """An answer as it came through the pipe."""
    fault, place = answer["fault"], answer["needs_object"]
    return Rendered(
        answer["text"],
        None if fault is None else Fault(*fault),
        answer["left_out"],
        None if place is None else (place[0], place[1]),
    )


def _read(source: BinaryIO) -> dict[str, Any] | None:
    header = source.read(4)
    if len(header) < 4:
        return None
    request: dict[str, Any] = json.loads(source.read(struct.unpack(">I", header)[0]))
    return request
