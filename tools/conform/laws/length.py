"""How long answers are: max_tokens, the natural end, ignore_eos, and the finish_reason that goes with each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.conform.asking import Ask
from tools.conform.law import Finding, Law, Skip, both
from tools.conform.replies import Reply
from tools.conform.sides import CHAT, Side

MOST_NATURAL: Final = 200
"""Tokens within which a model has to come to an end by itself for the laws about that."""
SHORT: Final = "Say hi."


def natural(ask: Ask, side: Side) -> Reply:
    """A greedy answer that ended by itself. Raises Skip where the model goes on."""
    reply = ask.reply(side, **side.body(ask.target.model, SHORT), temperature=0, max_tokens=MOST_NATURAL)
    if reply.only.finish != "stop":
        raise Skip(f"the model did not end by itself within {MOST_NATURAL} tokens")
    return reply


def _exact(ask: Ask, side: Side) -> Iterator[Finding]:
    for most in (1, 2, 3, 7, 16):
        for fields in ({}, {"stream": True}):
            reply = ask.reply(side, temperature=0, ignore_eos=True, max_tokens=most, **fields)
            choice = reply.only
            if (reply.completion_tokens, choice.finish) != (most, "length"):
                told = f"{reply.completion_tokens} tokens and {choice.finish!r}"
                yield Finding(
                    f"max_tokens {most} with ignore_eos gave {told}, not {most} and 'length'", (reply.exchange,)
                )


def _exact_choices(ask: Ask, side: Side) -> Iterator[Finding]:
    whole = ask.reply(side, n=3, temperature=1.0, ignore_eos=True, max_tokens=5)
    if whole.completion_tokens != 15:
        yield Finding(f"three choices of five tokens count {whole.completion_tokens} tokens, not 15", (whole.exchange,))
    stream = ask.reply(side, n=3, temperature=1.0, ignore_eos=True, max_tokens=5, stream=True)
    counts = [(choice.usage or {}).get("completion_tokens") for choice in stream.choices]
    if counts != [5, 5, 5] and stream.completion_tokens != 15:
        yield Finding(f"three streamed choices of five tokens count {counts}", (stream.exchange,))


def _bound(ask: Ask, side: Side) -> Iterator[Finding]:
    for most in (1, 4, 9):
        for fields in ({}, {"stream": True}):
            reply = ask.reply(side, temperature=0, max_tokens=most, **fields)
            used, finish = reply.completion_tokens, reply.only.finish
            if used > most or (used < most and finish != "stop") or finish not in ("stop", "length"):
                yield Finding(f"max_tokens {most} gave {used} tokens and {finish!r}", (reply.exchange,))


def _alias(ask: Ask, side: Side) -> Iterator[Finding]:
    reply = ask.reply(side, temperature=0, ignore_eos=True, max_tokens=None, max_completion_tokens=6)
    if reply.completion_tokens != 6:
        yield Finding(f"max_completion_tokens 6 gave {reply.completion_tokens} tokens", (reply.exchange,))


def _end(ask: Ask, side: Side) -> Iterator[Finding]:
    whole = natural(ask, side)
    length = whole.completion_tokens
    body = side.body(ask.target.model, SHORT)
    exact = ask.reply(side, **body, temperature=0, max_tokens=length)
    if (exact.only.finish, exact.completion_tokens, exact.texts) != ("stop", length, whole.texts):
        yield Finding(
            f"the answer ends by itself after {length} tokens, its end token counted, but max_tokens {length} gave "
            f"{exact.completion_tokens} tokens and {exact.only.finish!r}",
            (whole.exchange, exact.exchange),
        )
    if length > 1:
        cut = ask.reply(side, **body, temperature=0, max_tokens=length - 1)
        if (cut.only.finish, cut.completion_tokens) != ("length", length - 1) or whole.texts != cut.texts:
            yield Finding(
                f"one token less than the natural {length} must give the same text and 'length', not "
                f"{cut.completion_tokens} tokens and {cut.only.finish!r}",
                (whole.exchange, cut.exchange),
            )


def _beyond_end(ask: Ask, side: Side) -> Iterator[Finding]:
    whole = natural(ask, side)
    length = whole.completion_tokens
    body = side.body(ask.target.model, SHORT)
    for fields in ({}, {"stream": True}):
        longer = ask.reply(side, **body, temperature=0, max_tokens=length + 8, ignore_eos=True, **fields)
        if (longer.only.finish, longer.completion_tokens) != ("length", length + 8):
            yield Finding(
                f"ignore_eos ended after {longer.completion_tokens} tokens with {longer.only.finish!r}, not after "
                f"{length + 8} with 'length'",
                (whole.exchange, longer.exchange),
            )
        elif not longer.texts[0].startswith(whole.texts[0]):
            yield Finding("with ignore_eos the text before the end is another", (whole.exchange, longer.exchange))


def _special(ask: Ask, side: Side) -> Iterator[Finding]:
    whole = natural(ask, side)
    most = whole.completion_tokens + 2
    body = side.body(ask.target.model, SHORT)
    for more in ({}, {"stream": True}):
        hidden = ask.reply(side, **body, temperature=0, max_tokens=most, ignore_eos=True, **more)
        shown = ask.reply(
            side, **body, temperature=0, max_tokens=most, ignore_eos=True, skip_special_tokens=False, **more
        )
        if hidden.texts == shown.texts or not shown.texts[0].startswith(whole.texts[0]):
            yield Finding(
                "past its end token the answer is the same with and without special tokens",
                (hidden.exchange, shown.exchange),
            )


def _end_hidden(ask: Ask, side: Side) -> Iterator[Finding]:
    whole = natural(ask, side)
    body = side.body(ask.target.model, SHORT)
    shown = ask.reply(side, **body, temperature=0, max_tokens=MOST_NATURAL, skip_special_tokens=False)
    if whole.texts != shown.texts:
        yield Finding("the end token's text is part of the answer", (whole.exchange, shown.exchange))


LAWS: Final[list[Law]] = [
    *both("length.exact", "With ignore_eos an answer has max_tokens tokens and ends with length.",
          "max_tokens, ignore_eos", _exact, ("greedy", "ignore_eos", "stream")),
    *both("length.exact-choices", "max_tokens holds for each choice, and usage counts all of them.",
          "max_tokens, n", _exact_choices, ("n", "ignore_eos", "stream")),
    *both("length.bound", "An answer has at most max_tokens tokens; fewer only where it ended by itself.",
          "max_tokens, finish_reason", _bound, ("greedy", "stream")),
    Law("length.max-completion-tokens.chat", "max_completion_tokens means max_tokens.",
        "max_completion_tokens", _alias, ("max_completion_tokens", "ignore_eos"), side=CHAT),
    *both("length.end", "The end token is counted and not shown, and ends the answer with stop.",
          "finish_reason, usage", _end, ("greedy",)),
    *both("length.ignore-eos", "ignore_eos goes on past the end token, up to max_tokens.",
          "ignore_eos", _beyond_end, ("greedy", "ignore_eos", "stream")),
    *both("length.special-shown", "skip_special_tokens false shows special tokens, true hides them.",
          "skip_special_tokens", _special, ("greedy", "ignore_eos", "skip_special_tokens", "stream")),
    *both("length.end-hidden", "The end token's text appears only with ignore_eos.",
          "skip_special_tokens, ignore_eos", _end_hidden, ("greedy", "skip_special_tokens")),
]  # fmt: skip
