"""A client with ten mistakes in nine requests: what it sends, and what has to be found."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from wire import CHAT, COMPLETIONS, MODEL, said

TOOL = {"type": "function", "function": {"name": "weather"}}
ASKED = {"model": MODEL, "messages": said("Hi"), "max_tokens": 4}
NONE: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True)
class Sent:
    """A request as it goes over the wire, and the (law, field) of each of its mistakes."""

    path: str
    body: bytes
    mistakes: tuple[tuple[str, str | None], ...] = NONE
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    late: bool = False
    """Its stream has to arrive with an event after the finish_reason."""


def chat(*mistakes: tuple[str, str | None], **members: Any) -> Sent:
    return Sent(CHAT, json.dumps({**ASKED, **members}).encode(), mistakes)


CONVERSATION = [
    *said("What is the weather?"),
    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
    {"role": "tool", "content": "18 degrees"},
]  # fmt: skip

PLANTED: list[Sent] = [
    chat(("out_of_range", "top_p"), ("best-of-at-least-n", "best_of"), n=2, best_of=1, top_p=0),
    chat(("n-needs-temperature", "n"), n=2, temperature=0),
    chat(("tool-message-needs-call-id", "messages[2].tool_call_id"), messages=CONVERSATION),
    chat(("tools-exclude-stop", "stop"), tools=[TOOL], stop=["\n"]),
    chat(("wrong_type", "seed"), seed="7"),
    Sent(CHAT, json.dumps(ASKED).encode(), (("media_type", "Content-Type"),), {"Content-Type": "text/plain"}),
    Sent(COMPLETIONS, json.dumps({"model": MODEL, "messages": said("Hi")}).encode(), (("missing", "prompt"),)),
    Sent(CHAT, b'{"model": "m", "n": 1, "n": 2, "messages": [{"role": "user", "content": "Hi"}]}',
         (("json_invalid", None),)),
    Sent(CHAT, json.dumps({**ASKED, "stream": True, "ignore_eos": True}).encode(),
         (("stream-nothing-after-finish", "choices[0]"),), late=True),
]  # fmt: skip


def swapped(stream: bytes) -> bytes:
    """A stream whose last event with text has fallen behind the one with the finish_reason."""
    *events, text, finish, done, end = stream.split(b"\n\n")
    assert b'"finish_reason":null' in text
    assert b'"finish_reason":null' not in finish
    assert (done, end) == (b"data: [DONE]", b"")
    return b"\n\n".join([*events, finish, text, done, end])
