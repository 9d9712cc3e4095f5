"""A stream's pieces joined are the whole answer, for every kind of request; and greedy answers are one answer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final

from tools.conform.asking import Ask
from tools.conform.features import FORM, NAMED, TOOL
from tools.conform.law import Finding, Law, both
from tools.conform.replies import Choice, Reply
from tools.conform.sides import CHAT, Side

NEAR: Final = 1e-4
"""Logprobs of equal tokens in equal answers differ by no more."""


def compared(whole: Reply, stream: Reply) -> str | None:
    """How a streamed answer differs from the whole one; None where it does not."""
    ordered = sorted(stream.choices, key=lambda choice: str(choice.index))
    if [choice.index for choice in whole.choices] != [choice.index for choice in ordered]:
        return f"choices {[c.index for c in ordered]} streamed, {[c.index for c in whole.choices]} whole"
    for one, other in zip(whole.choices, ordered, strict=True):
        if (found := _choices(one, other)) is not None:
            return f"choice {one.index}: {found}"
    if whole.usage is not None and stream.usage is not None:
        for name in ("prompt_tokens", "completion_tokens"):
            if whole.usage.get(name) != stream.usage.get(name):
                return f"{name} is {stream.usage.get(name)} streamed and {whole.usage.get(name)} whole"
    return None


def _choices(whole: Choice, stream: Choice) -> str | None:
    if whole.text != stream.text:
        return f"the text is {stream.text[:80]!r} streamed and {whole.text[:80]!r} whole"
    if (whole.finish, whole.stop_reason) != (stream.finish, stream.stop_reason):
        ends = (stream.finish, stream.stop_reason), (whole.finish, whole.stop_reason)
        return f"finish and stop reason are {ends[0]} streamed and {ends[1]} whole"
    calls = [[(call.name, call.arguments) for call in choice.calls] for choice in (stream, whole)]
    if calls[0] != calls[1]:
        return f"the calls are {calls[0]} streamed and {calls[1]} whole"
    for place, (one, other) in enumerate(zip_longest(whole.tokens, stream.tokens)):
        if one is None or other is None:
            return f"{len(stream.tokens)} tokens have logprobs streamed, {len(whole.tokens)} whole"
        if (one.text, one.raw) != (other.text, other.raw) or abs(one.logprob - other.logprob) > NEAR:
            return f"token {place} is {other.text!r} at {other.logprob} streamed, {one.text!r} at {one.logprob} whole"
        if [top.text for top in one.top] != [top.text for top in other.top]:
            return f"the candidates of token {place} differ"
    return None


def same(ask: Ask, side: Side, **fields: Any) -> Iterator[Finding]:
    """Findings of a request sent whole and as a stream."""
    whole = ask.reply(side, **fields)
    stream = ask.reply(side, **fields, stream=True)
    if (found := compared(whole, stream)) is not None:
        yield Finding(found, (whole.exchange, stream.exchange))


def _greedy(ask: Ask, side: Side) -> Iterator[Finding]:
    yield from same(ask, side, temperature=0, max_tokens=32)
    yield from same(ask, side, temperature=0, max_tokens=1)


def _seeded(ask: Ask, side: Side) -> Iterator[Finding]:
    for seed in (1 + ask.target.seed, 2**64 - 1):
        yield from same(ask, side, temperature=1.0, seed=seed, max_tokens=24)


def _choices_too(ask: Ask, side: Side) -> Iterator[Finding]:
    yield from same(ask, side, temperature=1.0, seed=11, n=3, max_tokens=12)


def _with_logprobs(ask: Ask, side: Side) -> Iterator[Finding]:
    whole = ask.reply(side, temperature=0, max_tokens=24, **side.logprobs(3))
    stream = ask.reply(side, temperature=0, max_tokens=24, **side.logprobs(3), stream=True)
    if (found := compared(whole, stream)) is not None:
        yield Finding(found, (whole.exchange, stream.exchange))
    plain = ask.reply(side, temperature=0, max_tokens=24)
    if plain.texts != whole.texts:
        yield Finding("asking for logprobs changes the text", (plain.exchange, whole.exchange))


def _beams(ask: Ask, side: Side) -> Iterator[Finding]:
    yield from same(ask, side, use_beam_search=True, n=2, max_tokens=8)
    yield from same(ask, side, use_beam_search=True, n=2, max_tokens=8, **side.logprobs(1))


def _tools(ask: Ask, side: Side) -> Iterator[Finding]:
    yield from same(ask, side, temperature=0, max_tokens=120, tools=[TOOL], tool_choice=NAMED)


def _form(ask: Ask, side: Side) -> Iterator[Finding]:
    yield from same(ask, side, temperature=0, max_tokens=120, response_format=FORM)


def _again(ask: Ask, side: Side) -> Iterator[Finding]:
    first = ask.reply(side, temperature=0, max_tokens=24)
    second = ask.reply(side, temperature=0, max_tokens=24, again=1)
    if first.texts != second.texts:
        yield Finding("two equal greedy requests have different answers", (first.exchange, second.exchange))


_SOURCE: Final = "streams: the pieces joined are the whole text"
LAWS: Final[list[Law]] = [
    *both("same.greedy", "A greedy stream joins to the whole answer.", _SOURCE, _greedy, ("greedy", "stream")),
    *both("same.seeded", "A stream with a seed joins to the whole answer.", _SOURCE, _seeded, ("seed", "stream")),
    *both("same.choices", "Several choices are the same streamed and whole.", _SOURCE, _choices_too,
          ("seed", "stream", "n")),
    *both("same.logprobs", "Logprobs are the same streamed and whole, and change no text.", _SOURCE, _with_logprobs,
          ("greedy", "stream", "logprobs")),
    *both("same.beams", "Beams are the same streamed and whole.", _SOURCE, _beams, ("beams", "stream")),
    Law("same.tools.chat", "A streamed call's pieces join to the whole call.", _SOURCE, _tools,
        ("greedy", "stream", "named_tool"), side=CHAT),
    *both("same.form", "A streamed answer that is held to a schema joins to the whole one.", _SOURCE, _form,
          ("greedy", "stream", "response_format")),
    *both("same.repeated", "Two equal greedy requests have the same answer.", "temperature 0", _again, ("greedy",)),
]  # fmt: skip
