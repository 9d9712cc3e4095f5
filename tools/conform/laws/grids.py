"""Rules together: random requests over the members that rules read, each judged as the contract judges it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from tools.conform.asking import Ask
from tools.conform.cases import Cases
from tools.conform.errors import read_error
from tools.conform.features import FORM, NAMED, TOOL
from tools.conform.law import Finding, Law, Tier
from tools.conform.replies import shown
from tools.conform.sides import CHAT, SIDES, Side
from tools.conform.wire import Exchange

_ABSENT: Final = object()
COUNT: Final = 150
"""Requests of each grid."""
_SPARSE: Final = 0.75
"""Of the members with faults, how many are left out: some requests must have none."""
_OTHER: Final = {"type": "function", "function": {"name": "nobody"}}
_NUMBERS: Final[dict[str, tuple[Any, ...]]] = {
    "n": (_ABSENT, _ABSENT, 1, 2, 3, None), "best_of": (_ABSENT, _ABSENT, 1, 2, 3),
    "temperature": (_ABSENT, 0, 0.0, 1e-6, 0.7), "stream": (_ABSENT, False, True),
    "use_beam_search": (_ABSENT, _ABSENT, False, True), "stop": (_ABSENT, _ABSENT, [], "END", ["a", "b"]),
    "stop_token_ids": (_ABSENT, _ABSENT, [], [2], [2**40]),
}  # fmt: skip
_ENDS: Final[dict[str, tuple[Any, ...]]] = {
    "stop": (_ABSENT, _ABSENT, [], "END"), "stop_token_ids": (_ABSENT, _ABSENT, [], [2], [2**40]),
    "include_stop_str_in_output": (_ABSENT, False, True), "n": (_ABSENT, _ABSENT, 1, 2),
    "best_of": (_ABSENT, _ABSENT, 1, 2), "use_beam_search": (_ABSENT, _ABSENT, False, True),
    "logprobs": (_ABSENT, False, True), "top_logprobs": (_ABSENT, _ABSENT, 0, 1),
    "tools": (_ABSENT, [], [TOOL], [TOOL], [TOOL, TOOL]),
    "tool_choice": (_ABSENT, "none", "auto", "required", NAMED, _OTHER), "stream": (_ABSENT, True),
}  # fmt: skip
_FAULTS: Final[dict[str, tuple[Any, ...]]] = {
    "temperature": (_ABSENT, -1, "x", 0), "top_p": (_ABSENT, 0, 2), "top_k": (_ABSENT, -2, 1.5), "seed": (_ABSENT, -1),
    "stop": (_ABSENT, 5, ""), "n": (_ABSENT, 0, 2), "best_of": (_ABSENT, 0, 1), "max_tokens": (1, 0, "1"),
    "repetition_penalty": (_ABSENT, 0, 3), "presence_penalty": (_ABSENT, 3), "frequency_penalty": (_ABSENT, -3),
    "use_beam_search": (_ABSENT, 1), "ignore_eos": (_ABSENT, "true"), "skip_special_tokens": (_ABSENT, 0),
}  # fmt: skip
_CALL: Final = {"id": "call_1", "type": "function", "function": {"name": "set_light", "arguments": "{}"}}
_MESSAGE: Final[dict[str, tuple[Any, ...]]] = {
    "role": ("user", "user", "system", "assistant", "assistant", "tool", "tool"),
    "content": (
        _ABSENT, None, "", "hello", "hello", [], [{"text": "hello"}], [{"type": "text", "text": "hello"}],
        [{"type": "image_url", "text": "hello"}], [{"type": "text"}], [{}], [{"text": "hello"}, {"text": "you"}],
    ),
    "tool_calls": (_ABSENT, _ABSENT, None, [], [_CALL]), "tool_call_id": (_ABSENT, None, "call_1"),
}  # fmt: skip
_FORMS: Final[dict[str, tuple[Any, ...]]] = {
    "response_format": (
        _ABSENT, {"type": "text"}, {"type": "json_schema"}, {"type": "json_object", "json_schema": None}, FORM,
        {**FORM, "type": "text"}, {**FORM, "type": "json_object"}, {"type": "json_object"},
    ),
    "max_completion_tokens": (_ABSENT, 1, 2, None), "max_tokens": (1, 2), "stream": (_ABSENT, True),
}  # fmt: skip
_KINDS: Final = {
    "numbers": (_NUMBERS, "Choices, beams, temperature and stops: rules hold in every combination."),
    "ends": (_ENDS, "Tools, stops and logprobs: rules hold in every combination."),
    "messages": (_MESSAGE, "What a message of each role may hold: rules hold in every combination."),
    "forms": (_FORMS, "response_format and the two names of max_tokens: rules hold in every combination."),
    "order": (_FAULTS, "Of several faults the first in the contract's order is told, fields before rules."),
}


def _bodies(kind: str, side: Side, seed: int) -> Iterator[dict[str, Any]]:
    draw = random.Random(f"{kind} {side.name} {seed}")
    for _ in range(COUNT):
        body = {**side.body("mock", "hello"), "max_tokens": 1}
        inner = {} if kind == "messages" else body
        names = list(_KINDS[kind][0])
        draw.shuffle(names)  # the order of a request's members must not decide
        for name in names:
            if kind == "order" and draw.random() < _SPARSE:
                continue
            value = draw.choice(_KINDS[kind][0][name])
            if side is not CHAT and name == "logprobs" and value is not _ABSENT:
                value = int(value)
            if value is not _ABSENT:
                inner[name] = value
        if kind == "messages":
            body["messages"] = [*([{"role": "user", "content": "hello"}] * draw.randint(0, 1)), inner]
        yield body


def _verdicts(cases: Cases, kind: str, named: bool, ask: Ask, side: Side) -> Iterator[Finding]:
    for body in _bodies(kind, side, ask.target.seed):
        due = cases.verdict(side, body)
        exchange = ask.post(side, {**body, "model": ask.target.model})
        shown_body = {name: value for name, value in body.items() if name not in ("model", "messages", "prompt")}
        status = 422 if due.code else 200
        got = exchange.got.status
        if got != status:
            if not named and not _template_refuses(exchange, due.code):
                said = f"{got or exchange.got.fault}, not {status}{f' ({due.code})' if due.code else ''}"
                yield Finding(f"{shown_body}: {said}: {shown(exchange.got.body)}"[:500], (exchange,))
        elif named and due.code:
            error = read_error(exchange)
            found = (None, None) if error is None else (error.code, error.param)
            if found != (due.code, due.param):
                yield Finding(f"{shown_body}: told {found}, not {(due.code, due.param)}"[:500], (exchange,))


def _template_refuses(exchange: Exchange, code: str) -> bool:
    """Whether a conversation is refused in the words of the model's chat template: there, order and roles matter."""
    error = read_error(exchange)
    return not code and error is not None and error.code == "template_error"


def laws(cases: Cases) -> list[Law]:
    """The grids of both endpoints."""
    found = []
    for side in SIDES:
        for kind, (_, sentence) in _KINDS.items():
            if kind == "messages" and side is not CHAT:
                continue
            verdicts, told = partial(_verdicts, cases, kind, False), partial(_verdicts, cases, kind, True)
            found.append(Law(f"grid.{kind}.{side.name}", sentence, "x-rules", verdicts, ("basic",), Tier.BOUNDS, side))
            found.append(Law(f"grid-told.{kind}.{side.name}", f"{sentence[:-1]}, and code and param say which.",
                "x-rules",
                             told, ("basic",), Tier.BOUNDS, side))  # fmt: skip
    return found
