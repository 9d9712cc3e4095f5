"""Stop tokens: the answer ends at them, they are counted, named, and shown only where asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tools.conform.asking import Ask
from tools.conform.law import Finding, Law, Skip, both
from tools.conform.replies import Reply
from tools.conform.sides import COMPLETIONS, Side

_ALL: Final = list(range(160_000))
"""Ids of nearly every vocabulary: the first token of any answer is one of them."""

_COMMON: Final = 50_000
"""Below this lie the ids of most tokens that are written."""


def _first_id(ask: Ask) -> tuple[int, Reply]:
    """The id of the first token of the greedy completion. Raises Skip where stop_reason does not tell it."""
    reply = ask.reply(COMPLETIONS, temperature=0, stop_token_ids=_ALL)
    found = reply.only.stop_reason
    if type(found) is not int:
        raise Skip("stop_reason does not tell the first token's id")
    return found, reply


def _first(ask: Ask, side: Side) -> Iterator[Finding]:
    for fields in ({}, {"stream": True}):
        reply = ask.reply(side, temperature=0, stop_token_ids=_ALL, **fields)
        choice = reply.only
        if (choice.text, choice.finish, reply.completion_tokens) != ("", "stop", 1):
            yield Finding(
                f"with every id a stop token the answer is {choice.text[:40]!r} of {reply.completion_tokens} tokens "
                f"with {choice.finish!r}, not empty, of 1 token, with 'stop'",
                (reply.exchange,),
            )


def _named(ask: Ask, side: Side) -> Iterator[Finding]:
    reply = ask.reply(side, temperature=0, stop_token_ids=_ALL)
    found = reply.only.stop_reason
    if type(found) is not int:
        yield Finding(f"stop_reason at a stop token is {found!r}, not its id", (reply.exchange,))
        return
    for fields in ({}, {"stream": True}):
        alone = ask.reply(side, temperature=0, stop_token_ids=[found], **fields)
        if (alone.only.text, alone.only.stop_reason, alone.completion_tokens) != ("", found, 1):
            yield Finding(
                f"the first token is {found}, but as the only stop token it does not end the answer there",
                (reply.exchange, alone.exchange),
            )


def _included(ask: Ask, side: Side) -> Iterator[Finding]:
    plain = ask.reply(side, temperature=0, max_tokens=1)
    for fields in ({}, {"stream": True}):
        kept = ask.reply(side, temperature=0, stop_token_ids=_ALL, include_stop_str_in_output=True, **fields)
        if plain.only.finish == "stop":
            raise Skip("the model's first token ends the answer")
        if (kept.only.text, kept.only.finish) != (plain.only.text, "stop"):
            yield Finding(
                f"the stop token's text is to be kept: {kept.only.text!r}, not {plain.only.text!r}",
                (plain.exchange, kept.exchange),
            )


def _dropped(ask: Ask, side: Side) -> Iterator[Finding]:
    plain = ask.reply(side, temperature=0, max_tokens=8)
    wide = [2**31, -(2**31) - 1, 2**40, 2**64, -1]
    wide += [number + shift for shift in (2**32, -(2**32), 2**64) for number in range(_COMMON)]
    reply = ask.reply(side, temperature=0, max_tokens=8, stop_token_ids=wide)
    if reply.texts != plain.texts:
        yield Finding("stop token ids outside int32 change the answer", (plain.exchange, reply.exchange))
    empty = ask.reply(side, temperature=0, max_tokens=8, stop_token_ids=[])
    if empty.texts != plain.texts:
        yield Finding("an empty list of stop token ids changes the answer", (plain.exchange, empty.exchange))


def _second(ask: Ask, side: Side) -> Iterator[Finding]:
    first, _ = _first_id(ask)
    others: list[Any] = [number for number in _ALL if number != first]
    reply = ask.reply(side, temperature=0, stop_token_ids=others)
    plain = ask.reply(side, temperature=0, max_tokens=16)
    count = reply.completion_tokens
    if count < 2:
        yield Finding(f"token {first} is no stop token here, but the answer ends with it", (reply.exchange,))
    elif not plain.only.text.startswith(reply.only.text) or reply.only.stop_reason == first:
        yield Finding("the text before a stop token differs from the plain answer's", (plain.exchange, reply.exchange))


LAWS: Final[list[Law]] = [
    *both("stop-ids.first", "A stop token ends the answer with stop; it is counted and not shown.", "stop_token_ids",
          _first, ("greedy", "stop_token_ids", "stream")),
    Law("stop-ids.named.completions", "stop_reason is the stop token's id, an integer.", "stop_reason",
        _named, ("greedy", "stop_token_ids", "stream"), side=COMPLETIONS),
    *both("stop-ids.included", "include_stop_str_in_output keeps the stop token's text.", "include_stop_str_in_output",
          _included, ("greedy", "stop_token_ids", "include_stop", "stream")),
    *both("stop-ids.dropped", "Ids outside int32 are dropped, not taken for others; an empty list is none.",
          "stop_token_ids", _dropped, ("greedy", "stop_token_ids")),
    Law("stop-ids.second.completions", "Only the listed ids stop.", "stop_token_ids", _second,
        ("greedy", "stop_token_ids"), side=COMPLETIONS),
]  # fmt: skip
