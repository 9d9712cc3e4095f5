"""Logprobs: how many, in which order, of what, and that they are the model's own before any sampling field."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from tools.conform.asking import Ask
from tools.conform.law import Finding, Law, both
from tools.conform.replies import Choice, Reply, Token
from tools.conform.sides import CHAT, COMPLETIONS, Side

NEAR: Final = 2e-3
"""Logprobs of one model after one text, in other company, differ by no more."""
_SUM: Final = 1e-3


def _asked(ask: Ask, side: Side, top: int, **fields: Any) -> list[Reply]:
    """A whole and a streamed greedy answer with so many candidates."""
    given = {"temperature": 0, "max_tokens": 12, **side.logprobs(top), **fields}
    return [ask.reply(side, **given), ask.reply(side, **given, stream=True)]


def _present(ask: Ask, side: Side) -> Iterator[Finding]:
    for reply in (*_asked(ask, side, 0), *_asked(ask, side, side.most_top)):
        count = len(reply.only.tokens)
        if count != reply.completion_tokens and not _ended(reply.only, count, reply.completion_tokens):
            yield Finding(f"{count} tokens have logprobs, usage counts {reply.completion_tokens}", (reply.exchange,))
    plain = ask.reply(side, temperature=0, max_tokens=4)
    if plain.only.has_logprobs:
        yield Finding("logprobs come unasked", (plain.exchange,))


def _ended(choice: Choice, shown: int, counted: int) -> bool:
    """Whether the one token without logprobs may be the end token, whose text is not part of the answer."""
    return choice.finish == "stop" and shown == counted - 1


def _numbers(ask: Ask, side: Side) -> Iterator[Finding]:
    for top in (0, 1, 2, 3, side.most_top):
        for reply in _asked(ask, side, top):
            wrong = None
            for token in reply.only.tokens:
                wrong = wrong or _count(side, top, token)
            fullest = max((len(token.top) for token in reply.only.tokens), default=top)
            if wrong is None and fullest < top:
                wrong = f"{top} candidates were asked for, no token has more than {fullest}"
            if wrong is not None:
                yield Finding(wrong, (reply.exchange,))


def _count(side: Side, top: int, token: Token) -> str | None:
    """Chat lists exactly the likeliest; completions the chosen token and the likeliest, equal texts once."""
    if side is CHAT and len(token.top) != top:
        return f"top_logprobs {top} gave {len(token.top)} candidates"
    if side is COMPLETIONS and not 1 <= len(token.top) <= top + 1:
        return f"logprobs {top} gave {len(token.top)} candidates, not 1 to {top + 1}"
    plain = all("\ufffd" not in one.text for one in token.top)
    if side is COMPLETIONS and plain and top > 0 and len(token.top) < top:
        return f"logprobs {top} gave {len(token.top)} candidates"
    return None


def _sampled_numbers(ask: Ask, side: Side) -> Iterator[Finding]:
    """Where the chosen token is none of the likeliest, it comes beside them on completions."""
    for top in (1, 5):
        for reply in _asked(ask, side, top, temperature=1.5, seed=3):
            for token in reply.only.tokens:
                names = [one.text for one in token.top]
                wrong = _count(side, top, token)
                if side is COMPLETIONS and names[:1] != [token.text]:
                    wrong = f"the chosen token {token.text!r} does not stand first in {names}"
                if wrong is not None:
                    yield Finding(wrong, (reply.exchange,))
                    break


def _order(ask: Ask, side: Side) -> Iterator[Finding]:
    for fields in ({}, {"temperature": 1.5, "seed": 3}):
        for reply in _asked(ask, side, side.most_top, **fields):
            for token in reply.only.tokens:
                if (wrong := _disorder(side, token)) is not None:
                    yield Finding(wrong, (reply.exchange,))
                    break


def _disorder(side: Side, token: Token) -> str | None:
    others = token.top[1:] if side is COMPLETIONS else token.top
    if any(before.logprob < after.logprob - 1e-9 for before, after in pairwise(others)):
        return f"candidates do not descend: {[one.logprob for one in others]}"
    own = [one for one in token.top if (one.text, one.raw) == (token.text, token.raw)]
    if own and min(abs(one.logprob - token.logprob) for one in own) > 1e-6:
        return f"the chosen token's logprob is {token.logprob}, among the candidates {own[0].logprob}"
    if side is CHAT and token.top and token.logprob > token.top[-1].logprob + 1e-6 and not own:
        return "a token that is likelier than the last candidate is no candidate"
    if token.logprob > 1e-6 or any(one.logprob > 1e-6 for one in token.top):
        return "a logprob is above 0"
    if (mass := sum(math.exp(one.logprob) for one in token.top)) > 1 + _SUM:
        return f"the probabilities of a token's candidates sum to {mass:.4f}"
    return None


def _greedy_first(ask: Ask, side: Side) -> Iterator[Finding]:
    for reply in _asked(ask, side, side.most_top):
        for token in reply.only.tokens:
            best = max((one.logprob for one in token.top), default=token.logprob)
            if token.logprob < best - 1e-6:
                yield Finding(f"a greedy token has {token.logprob}, its best candidate {best}", (reply.exchange,))
                break


def _spelled(ask: Ask, side: Side) -> Iterator[Finding]:
    for reply in _asked(ask, side, 2, max_tokens=24, **_beyond(ask, side)):
        choice = reply.only
        if side is CHAT:
            if any(token.raw is None or any(one.raw is None for one in token.top) for token in choice.tokens):
                yield Finding("a token has no bytes", (reply.exchange,))
                continue
            wrong = next(
                (one for one in choice.tokens if (one.raw or b"").decode("utf-8", "replace") != one.text), None
            )
            if wrong is not None:
                yield Finding(f"the bytes {wrong.raw!r} do not spell the token {wrong.text!r}", (reply.exchange,))
            joined = b"".join(token.raw or b"" for token in choice.tokens).decode("utf-8", "replace")
        else:
            joined = "".join(token.text for token in choice.tokens)
        if "\ufffd" not in joined and choice.finish == "length" and joined != choice.text:
            yield Finding(f"the tokens spell {joined[:80]!r}, the text is {choice.text[:80]!r}", (reply.exchange,))


def _beyond(ask: Ask, side: Side) -> dict[str, Any]:
    """Past the end token, where that is offered, so that there is much text."""
    return {"ignore_eos": True} if ask.lacks(side, "ignore_eos") is None else {}


def _offsets(ask: Ask, side: Side) -> Iterator[Finding]:
    fields = {"max_tokens": 24, "temperature": 1.0, "seed": 9, "logprobs": 0, **_beyond(ask, side)}
    whole = ask.reply(side, **fields, n=2)
    yield from _placed(whole, whole.choices, 0)
    stream = ask.reply(side, **fields, n=2, stream=True)
    for choice in stream.choices:
        yield from _placed(stream, [choice], 0)
    alone = ask.reply(side, **fields)
    yield from _placed(alone, alone.choices, 0)


def _placed(reply: Reply, choices: Sequence[Choice], start: int) -> Iterator[Finding]:
    for choice in choices:
        place = start
        for token in choice.tokens:
            if token.offset is None or (token.offset != place and "\ufffd" not in token.text):
                yield Finding(
                    f"token {token.text!r} of choice {choice.index} begins at {place}, text_offset says {token.offset}",
                    (reply.exchange,),
                )
                return
            place = token.offset + len(token.text)
            if "\ufffd" in token.text:
                return
        start += len(choice.text)


def _raw_first(ask: Ask, side: Side) -> Iterator[Finding]:
    """One token, drawn under different sampling fields: its candidates are the same."""
    first = {"max_tokens": 1, "seed": 4, **side.logprobs(side.most_top)}
    plain = ask.reply(side, **first, temperature=1.0)
    variants: list[dict[str, Any]] = [{"temperature": 0.5}, {"temperature": 2.0}, {"temperature": 0}]
    variants += [{"temperature": 1.0, "top_k": 3}, {"temperature": 1.0, "top_p": 0.3}]
    variants += [{"temperature": 1.0, name: 1.9} for name in ("repetition_penalty", "presence_penalty")]
    for fields in variants:
        if any(ask.lacks(side, name) for name in fields if name != "temperature"):
            continue
        other = ask.reply(side, **first, **fields)
        if (wrong := _far(side, plain, other)) is not None:
            yield Finding(f"{fields} changes the first token's logprobs: {wrong}", (plain.exchange, other.exchange))


def _far(side: Side, one: Reply, other: Reply) -> str | None:
    for left, right in zip(one.only.tokens, other.only.tokens, strict=False):
        values = {candidate.text: candidate.logprob for candidate in left.top}
        shared = [(candidate, values[candidate.text]) for candidate in right.top if candidate.text in values]
        if len(shared) < min(len(left.top), len(right.top)) - 2:
            return "the candidates are other tokens"
        for candidate, value in shared:
            if abs(candidate.logprob - value) > NEAR and "\ufffd" not in candidate.text:
                return f"{candidate.text!r} has {candidate.logprob} and {value}"
    return None


def _raw_later(ask: Ask, side: Side) -> Iterator[Finding]:
    """Later tokens, while two answers are the same: penalties on what was written do not show in the logprobs."""
    fields = {"temperature": 1.0, "top_k": 1, "seed": 1, "max_tokens": 16, **side.logprobs(side.most_top)}
    plain = ask.reply(side, **fields)
    for name, value in (("presence_penalty", 2.0), ("frequency_penalty", 2.0), ("repetition_penalty", 1.8)):
        if ask.lacks(side, name):
            continue
        other = ask.reply(side, **fields, **{name: value})
        for left, right in zip(plain.only.tokens, other.only.tokens, strict=False):
            values = {candidate.text: candidate.logprob for candidate in left.top}
            for candidate in right.top:
                apart = abs(values.get(candidate.text, candidate.logprob) - candidate.logprob)
                if apart > 0.05 and "\ufffd" not in candidate.text:
                    yield Finding(
                        f"after the same text {candidate.text!r} has {values[candidate.text]}, with {name} {value} "
                        f"{candidate.logprob}",
                        (plain.exchange, other.exchange),
                    )
                    break
            if left.text != right.text:
                break


def _turned_on(ask: Ask, side: Side) -> Iterator[Finding]:
    for top in (0, 2):
        for fields in ({}, {"logprobs": None}, {"stream": True}):
            reply = ask.reply(side, temperature=0, max_tokens=3, top_logprobs=top, **fields)
            if not reply.only.has_logprobs or any(len(token.top) != top for token in reply.only.tokens):
                yield Finding(f"top_logprobs {top} without logprobs does not turn them on", (reply.exchange,))
    reply = ask.reply(side, temperature=0, max_tokens=3, logprobs=False, top_logprobs=0)
    if reply.only.has_logprobs:
        yield Finding("logprobs false with top_logprobs 0 gives logprobs", (reply.exchange,))


_NEEDS: Final = ("greedy", "logprobs", "stream")
LAWS: Final[list[Law]] = [
    *both("logprobs.present", "Every counted token has logprobs when asked for, and none when not.", "logprobs",
          _present, _NEEDS),
    *both("logprobs.number", "As many candidates as asked for.", "top_logprobs, logprobs", _numbers, _NEEDS),
    *both("logprobs.number-drawn", "As many candidates for a token that is none of them.", "top_logprobs, logprobs",
          _sampled_numbers, (*_NEEDS, "seed")),
    *both("logprobs.order", "Candidates descend, hold the chosen token with its logprob, and sum to 1 at most.",
          "top_logprobs", _order, (*_NEEDS, "seed")),
    *both("logprobs.greedy", "A greedy token is the likeliest.", "temperature 0", _greedy_first, _NEEDS),
    *both("logprobs.spell", "The tokens' texts and bytes are the answer's text.", "logprobs, bytes", _spelled, _NEEDS),
    Law("logprobs.offsets.completions", "text_offset is where a token's text begins, in characters; it runs on from "
        "choice to choice in whole answers.", "text_offset", _offsets, ("logprobs", "n", "seed", "stream"),
        side=COMPLETIONS),
    *both("logprobs.raw", "The first token's logprobs do not depend on temperature, filters and penalties.", "logprobs",
          _raw_first, ("logprobs", "seed", "temperature")),
    *both("logprobs.raw-later", "Penalties on what was written do not show in logprobs.", "logprobs",
          _raw_later, ("logprobs", "top_k")),
    Law("logprobs.turned-on.chat", "top_logprobs given alone turns logprobs on, 0 too.", "top_logprobs", _turned_on,
        _NEEDS, side=CHAT),
]  # fmt: skip
