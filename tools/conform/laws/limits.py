"""Limits of a deployment: the longest prompt, the room that is left after it, the most choices, the largest body."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from tools.conform.asking import Ask
from tools.conform.errors import faults_of_form, read_error
from tools.conform.law import Finding, Law, Skip, Tier, both
from tools.conform.laws.bytes import post
from tools.conform.replies import read
from tools.conform.sides import COMPLETIONS, Side
from tools.conform.wire import Exchange

BODY_BYTES: Final = 40 * 1024 * 1024
"""maxRequestLength, unless the deployment says otherwise."""
MOST_CHOICES: Final = 128
"""maxN, likewise."""
_MOST_PROMPT: Final = 200_000
"""Tokens of the longest prompt that is tried."""


def _context(ask: Ask) -> tuple[int, int]:
    """Tokens of prompt and answer together, and of the longest prompt. Raises Skip where the server does not tell."""
    config, info = ask.json_of("/v1/config") or {}, ask.json_of("/info") or {}
    whole, prompt = config.get("maxSeqLen"), info.get("max_input_length")
    if type(whole) is not int or type(prompt) is not int:
        raise Skip("GET /v1/config and /info do not tell the lengths in force")
    if whole > _MOST_PROMPT:
        raise Skip(f"a context of {whole} tokens is too long to fill")
    return whole, prompt


def _ids(ask: Ask, count: int, **fields: Any) -> Exchange:
    body = {"model": ask.target.model, "prompt": [9] * count, "max_tokens": 10, "temperature": 0, **fields}
    return ask.post(COMPLETIONS, body)


def _longest_prompt(ask: Ask, side: Side) -> Iterator[Finding]:
    _, prompt = _context(ask)
    beyond = _ids(ask, prompt + 1)
    if beyond.got.status != 424:
        yield Finding(f"a prompt of {prompt + 1} tokens: answered {beyond.got.status}, not 424", (beyond,))
    elif (wrong := faults_of_form(beyond, 424, "prompt_too_long", ask.nested_errors)) is not None:
        yield Finding(f"a prompt of {prompt + 1} tokens: {wrong}", (beyond,))
    stream = _ids(ask, prompt + 1, stream=True)
    if stream.got.status != 424:
        yield Finding(f"a streamed prompt of {prompt + 1} tokens: {stream.got.status}, not 424", (stream,))
    longest = _ids(ask, prompt, max_tokens=1)
    if longest.got.fault == "timeout":
        raise Skip("the longest prompt takes longer than --timeout")
    if longest.got.status != 200:
        yield Finding(f"the longest prompt, {prompt} tokens: {longest.got.status}, not 200", (longest,))


def _room(ask: Ask, side: Side) -> Iterator[Finding]:
    whole, prompt = _context(ask)
    left = 3
    if whole - left > prompt:
        raise Skip("prompts are limited well below the context")
    exchange = _ids(ask, whole - left, ignore_eos=True)
    if exchange.got.fault == "timeout":
        raise Skip("a prompt that fills the context takes longer than --timeout")
    reply = read(exchange)
    if (reply.completion_tokens, reply.only.finish) != (left, "length"):
        yield Finding(
            f"after a prompt of {whole - left} of {whole} tokens there is room for {left}, not "
            f"{reply.completion_tokens} with {reply.only.finish!r}",
            (reply.exchange,),
        )


def _outside_vocabulary(ask: Ask, side: Side) -> Iterator[Finding]:
    for number in (-1, 2**31, 2**62):
        exchange = ask.post(COMPLETIONS, {"model": ask.target.model, "prompt": [5, number], "max_tokens": 1})
        if exchange.got.status != 424:
            yield Finding(f"the token id {number}: answered {exchange.got.status}, not 424", (exchange,))
        elif (wrong := faults_of_form(exchange, 424, "invalid_token_id", ask.nested_errors)) is not None:
            yield Finding(f"the token id {number}: {wrong}", (exchange,))


def _most_choices(ask: Ask, side: Side) -> Iterator[Finding]:
    """The limit is what the refusal of the contract's own 8192 says."""
    body = {**side.body(ask.target.model, "hello"), "max_tokens": 1, "temperature": 1.0}
    error = read_error(ask.post(side, {**body, "n": 8193}))
    if error is None or error.param != "n":
        raise Skip("an n beyond all bounds is not refused")
    error = read_error(widest := ask.post(side, {**body, "n": 8192}))
    if error is None:
        raise Skip("8192 choices are not refused")
    found = [int(number) for number in re.findall(r"\d+", error.message) if int(number) != 8192]
    if not found or error.code != "out_of_range":
        yield Finding(f"the refusal of n 8192 does not say how many are allowed: {error.message[:150]}", (widest,))
        return
    most = found[0]
    if most != MOST_CHOICES:
        yield Finding(f"at most {most} choices are allowed, not {MOST_CHOICES}; skip this law where maxN is configured",
                      (widest,))  # fmt: skip
    for name, count in (("n", most), ("best_of", min(most, 128))):
        exchange = ask.post(side, {**body, name: count})
        choices = _choices(exchange)
        if choices != count:
            yield Finding(f"{name} {count}, as many as allowed, gave {exchange.got.status} and {choices} choices",
                          (exchange,))  # fmt: skip
    exchange = ask.post(side, {**body, "n": most + 1})
    if exchange.got.status != 422:
        yield Finding(f"n {most + 1} is more than allowed, but is answered {exchange.got.status}", (exchange,))


def _choices(exchange: Exchange) -> int:
    try:
        return len(json.loads(exchange.got.body)["choices"]) if exchange.got.status == 200 else 0
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0


def _body_size(ask: Ask, side: Side) -> Iterator[Finding]:
    good = json.dumps({**side.body(ask.target.model, "hello"), "max_tokens": 1}).encode()
    inside = post(ask, side, good + b" " * (BODY_BYTES - len(good)))
    if inside.got.status != 200:
        yield Finding(f"a body of exactly 40 MB: answered {inside.got.status or inside.got.fault}, not 200", (inside,))
    beyond = post(ask, side, good + b" " * (BODY_BYTES - len(good) + 1))
    if beyond.got.status != 413:
        got = beyond.got.status or beyond.got.fault
        yield Finding(f"a body of a byte more than 40 MB: answered {got}, not 413", (beyond,))
    elif (wrong := faults_of_form(beyond, 413, "body_too_large", ask.nested_errors)) is not None:
        yield Finding(wrong, (beyond,))


LAWS: Final[list[Law]] = [
    Law("limits.vocabulary.completions", "A token id outside the vocabulary is a 424.", "prompt", _outside_vocabulary,
        ("prompt_ids",), Tier.WIRE, COMPLETIONS),
    *both("limits.choices", "128 choices are given, one more is refused, unless the deployment says otherwise.",
        "n, maxN",
          _most_choices, ("n", "refuses"), Tier.LONG),
    *both("limits.body", "A body of 40 MB is read, a byte more is a 413, unless the deployment says otherwise.",
          "errors, 413", _body_size, ("refuses",), Tier.LONG),
    Law("limits.prompt.completions", "The longest prompt is accepted, one token more is a 424.", "prompt length",
        _longest_prompt, ("prompt_ids", "refuses", "greedy", "stream"), Tier.LONG, COMPLETIONS),
    Law("limits.room.completions", "An answer is as long as the room that its prompt leaves.", "max_tokens", _room,
        ("prompt_ids", "refuses", "greedy", "ignore_eos"), Tier.LONG, COMPLETIONS),
]  # fmt: skip
