"""The form of answers and streams: many kinds of request, judged by the laws that check and proxy share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from tools.conform.asking import Ask
from tools.conform.features import FORM, NAMED, TOOL
from tools.conform.law import Finding, Law, Tier
from tools.conform.replies import shown
from tools.conform.sides import CHAT, SIDES, Side
from tools.conform.wire import Exchange
from tools.laws.answers import Answers
from tools.laws.requests import Requests
from tools.laws.table import LAWS as SHARED

_TOOLS: Final[dict[str, Any]] = {"tools": [TOOL], "tool_choice": NAMED, "max_tokens": 120, "temperature": 0}


def _kinds(side: Side) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """Requests with the features that each needs; all are sent whole and as a stream."""
    several: dict[str, Any] = {"n": 3, "temperature": 1.2, "seed": 5}
    made: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        ((), {"max_tokens": 12}),
        (("greedy",), {"max_tokens": 1, "temperature": 0}),
        (("greedy", "ignore_eos"), {"max_tokens": 40, "temperature": 0, "ignore_eos": True}),
        (("n", "seed"), {**several, "max_tokens": 8}),
        (("logprobs",), {"max_tokens": 8, **side.logprobs(0)}),
        (("logprobs", "greedy"), {"max_tokens": 8, "temperature": 0, **side.logprobs(side.most_top)}),
        (("logprobs", "n", "seed"), {**several, "max_tokens": 6, **side.logprobs(2)}),
        (
            ("logprobs", "n", "seed", "ignore_eos"),
            {**several, "max_tokens": 30, "ignore_eos": True, **side.logprobs(1)},
        ),
        (("stop",), {"max_tokens": 24, "stop": ["e", " the"]}),
        (("stop", "n", "seed"), {**several, "max_tokens": 24, "stop": "a"}),
        (("include_stop",), {"max_tokens": 24, "stop": ["e", " the"], "include_stop_str_in_output": True}),
        (("stop_token_ids",), {"max_tokens": 24, "stop_token_ids": list(range(400))}),
        (("best_of", "n"), {**several, "n": 2, "best_of": 2, "max_tokens": 6}),
        (("stream",), {"max_tokens": 6, "stream_options": {"include_usage": True}}),
        (("n", "seed", "stream"), {**several, "max_tokens": 6, "stream_options": {"include_usage": True}}),
        (("beams",), {"use_beam_search": True, "n": 3, "max_tokens": 6}),
        (("beams", "logprobs"), {"use_beam_search": True, "n": 2, "max_tokens": 6, **side.logprobs(1)}),
        (("response_format", "greedy"), {"response_format": FORM, "max_tokens": 120, "temperature": 0}),
    ]
    return (
        [*made, (("named_tool",), _TOOLS), (("tools",), {"tools": [TOOL], "max_tokens": 24})] if side is CHAT else made
    )


def _exchanges(ask: Ask, side: Side) -> Iterator[tuple[dict[str, Any], str | None, Exchange]]:
    for place, (needs, fields) in enumerate(_kinds(side)):
        if any(ask.lacks(side, name) for name in needs):
            continue
        for streamed in (False, True):
            body = ask.body(side, {**fields, **({"stream": True} if streamed else {})})
            req_id = f"law-{place}" if place % 3 == 0 else None
            yield body, req_id, ask.post(side, body, req_id=req_id)
    if ask.lacks(side, "best_of") is None:
        body = ask.body(
            side, {"best_of": 3, "n": 1, "temperature": 1.2, "seed": 2, "max_tokens": 6, **side.logprobs(0)}
        )
        yield body, None, ask.post(side, body)
    for body in (ask.body(side, {"temperature": -1}), ask.body(side, {"n": 0, "stream": True}), {}):
        yield body, None, ask.post(side, body)


def _breaches(ask: Ask, side: Side) -> dict[str, list[Finding]]:
    """What the shared laws say of all of them, by law."""
    requests, answers = Requests(ask.target.deployment), Answers()
    found: dict[str, list[Finding]] = {}
    for body, req_id, exchange in _exchanges(ask, side):
        headers = {"content-type": "application/json", **({"req-id": req_id} if req_id is not None else {})}
        raw = json.dumps(body).encode()
        asked = requests.read("POST", f"/v1{side.path}", raw, headers).asked
        got = exchange.got
        if asked is None or got.fault:
            found.setdefault("answer-status", []).append(Finding(f"no whole answer: {got.fault}", (exchange,)))
            continue
        if got.status >= 400 and not requests.read("POST", f"/v1{side.path}", raw, headers).breaches:
            said = f"a request whose parts are offered one by one is answered {got.status}: {shown(got.body)}"
            found.setdefault("answer-status", []).append(Finding(said, (exchange,)))
        for breach in answers.breaches(asked, got.status, got.headers, got.body):
            told = found.setdefault(breach.law, [])
            told.append(Finding(f"{breach.field}: {breach.message}"[:400], (exchange,)))
    return found


def _check(law: str, ask: Ask, side: Side) -> Iterator[Finding]:
    yield from ask.memo(("forms", side.name), lambda: _breaches(ask, side)).get(law, [])


LAWS: Final[list[Law]] = [
    Law(
        f"form.{side.name}.{law}", entry.sentence, "answers, streams", partial(_check, law), ("basic",), Tier.FORM, side
    )
    for side in SIDES
    for law, entry in SHARED.items()
]
