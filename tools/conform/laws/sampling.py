"""What temperature, top_k, top_p and penalties do to the tokens drawn, judged by the logprobs that come with them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from tools.conform.asking import Ask
from tools.conform.law import Finding, Law, Skip, both
from tools.conform.replies import Candidate, Reply, Token
from tools.conform.sides import CHAT, Side

_PENALTIES: Final = ("presence_penalty", "frequency_penalty", "repetition_penalty")
_LIKELIEST: Final[dict[str, Any]] = {"temperature": 1.0, "top_k": 1, "seed": 1}
"""The likeliest token, while penalties count: at temperature 0 they do nothing."""
_NEAR: Final = 0.02
"""Candidates closer than this may be taken for each other: logprobs and draws are rounded apart."""


def _likely(ask: Ask, side: Side, **fields: Any) -> Reply:
    return ask.reply(side, **{"max_tokens": 24, **side.logprobs(side.most_top), **fields})


def _fixed(ask: Ask, side: Side) -> Iterator[Finding]:
    plain = ask.reply(side, temperature=0, max_tokens=16)
    others: list[dict[str, Any]] = [{"seed": 9}, {"top_p": 0.5}, {"top_k": 7}, {"seed": 2**63, "top_k": 2}]
    others += [{name: 2.0} for name in _PENALTIES if ask.lacks(side, name) is None]
    for fields in others:
        other = ask.reply(side, temperature=0, max_tokens=16, **fields)
        if other.texts != plain.texts:
            yield Finding(f"at temperature 0 {fields} changes the text", (plain.exchange, other.exchange))


def _narrow(ask: Ask, side: Side) -> Iterator[Finding]:
    """What leaves one token only is greedy."""
    plain = ask.reply(side, temperature=0, max_tokens=16)
    for fields in ({"top_k": 1, "temperature": 1.0}, {"top_p": 1.1e-6, "temperature": 1.0}, {"temperature": 5e-6}):
        if any(ask.lacks(side, name) for name in fields):
            continue
        other = ask.reply(side, max_tokens=16, seed=13, **fields)
        if other.texts != plain.texts:
            yield Finding(f"{fields} leaves the likeliest token only, but the text is not greedy's",
                          (plain.exchange, other.exchange))  # fmt: skip


def _top_k(ask: Ask, side: Side) -> Iterator[Finding]:
    for top_k, seed in ((2, 1), (3, 2), (4, 3)):
        reply = _likely(ask, side, temperature=2.0, top_k=top_k, seed=seed)
        for token in reply.only.tokens:
            better = sum(one.logprob > token.logprob + _NEAR for one in token.top)
            if better >= top_k:
                yield Finding(f"with top_k {top_k} {better} are likelier than {token.text!r}, which was drawn",
                              (reply.exchange,))  # fmt: skip
                break


def _top_p(ask: Ask, side: Side) -> Iterator[Finding]:
    """At temperature 1 the mass of likelier candidates is below top_p for every token drawn."""
    for top_p, seed in ((0.3, 1), (0.5, 2), (0.2, 3)):
        reply = _likely(ask, side, temperature=1.0, top_p=top_p, seed=seed)
        for token in reply.only.tokens:
            mass = sum(math.exp(one.logprob) for one in token.top if one.logprob > token.logprob + _NEAR)
            if mass > top_p + 0.01:
                yield Finding(f"with top_p {top_p} {token.text!r} was drawn below {mass:.3f} of likelier candidates",
                              (reply.exchange,))  # fmt: skip
                break


def _heat(ask: Ask, side: Side) -> Iterator[Finding]:
    """48 first tokens drawn cold are likelier on average than 48 drawn hot."""
    replies = [
        ask.reply(side, n=48, max_tokens=1, seed=17, temperature=heat, **side.logprobs(0)) for heat in (0.4, 1.0, 2.5)
    ]
    means = [sum(choice.tokens[0].logprob for choice in reply.choices if choice.tokens) / 48 for reply in replies]
    if means[2] > -0.05:
        raise Skip("the model's first token is nearly certain")
    if not means[0] > means[1] > means[2]:
        shown = [round(mean, 3) for mean in means]
        yield Finding(f"the mean logprobs of 48 tokens drawn at 0.4, 1 and 2.5 are {shown}, not descending",
                      tuple(reply.exchange for reply in replies))  # fmt: skip


def _subtracting(ask: Ask, side: Side, name: str, once: bool) -> Iterator[Finding]:
    """Under a penalty each token is the likeliest after the penalty is taken off those written before."""
    for value in (2.0, 1.0):
        reply = _likely(ask, side, **{**_LIKELIEST, "max_tokens": 48, **_on(ask, side), name: value})
        written: Counter[Any] = Counter()
        for place, token in enumerate(reply.only.tokens):
            known = [one for one in token.top if _is_one(one)] if _is_one(token) else []
            scores = [(_penalised(one, written, value, once), one.text) for one in known]
            best = max(scores, default=(-math.inf, ""))
            own = _penalised(token, written, value, once)
            if own < best[0] - 0.1:
                yield Finding(
                    f"token {place} with {name} {value} is {token.text!r} at {own:.2f} after the penalty, "
                    f"{best[1]!r} has {best[0]:.2f}",
                    (reply.exchange,),
                )
                break
            written[_identity(token)] += 1


def _penalised(one: Token | Candidate, written: Counter[Any], value: float, once: bool) -> float:
    count = written[_identity(one)]
    return one.logprob - value * (min(count, 1) if once else count)


def _identity(one: Token | Candidate) -> Any:
    return one.text if one.raw is None else one.raw


def _is_one(one: Token | Candidate) -> bool:
    """Whether it can be told from other tokens: those that are no whole character show alike without their bytes."""
    return one.raw is not None or "\ufffd" not in one.text


def _on(ask: Ask, side: Side) -> dict[str, Any]:
    return {"ignore_eos": True} if ask.lacks(side, "ignore_eos") is None else {}


def _presence(ask: Ask, side: Side) -> Iterator[Finding]:
    yield from _subtracting(ask, side, "presence_penalty", once=True)


def _frequency(ask: Ask, side: Side) -> Iterator[Finding]:
    yield from _subtracting(ask, side, "frequency_penalty", once=False)


def _changes(ask: Ask, side: Side) -> Iterator[Finding]:
    fields: dict[str, Any] = {**_LIKELIEST, "max_tokens": 64, **_on(ask, side)}
    plain = ask.reply(side, **fields)
    if ask.lacks(side, "logprobs") is None:
        words = [token.text for token in _likely(ask, side, **fields).only.tokens]
    else:
        words = plain.texts[0].split()
    if len(words) - len(set(words)) < 3:
        raise Skip("the model repeats nothing")
    for name, value in ((name, 2.0) for name in _PENALTIES):
        if ask.lacks(side, name):
            continue
        for more in ({}, {"stream": True}):
            other = ask.reply(side, **fields, **{name: value}, **more)
            if other.texts == plain.texts:
                yield Finding(f"{name} {value} changes nothing in a text that repeats words",
                              (plain.exchange, other.exchange))  # fmt: skip


def _first_free(ask: Ask, side: Side) -> Iterator[Finding]:
    """Presence and frequency count the output only, so the first token is as without them."""
    fields = {**side.body(ask.target.model, "one two one two one two one two one"), **_LIKELIEST, "max_tokens": 1}
    plain = ask.reply(side, **fields)
    for name in ("presence_penalty", "frequency_penalty"):
        if ask.lacks(side, name) is None:
            other = ask.reply(side, **fields, **{name: 2.0})
            if other.texts != plain.texts:
                yield Finding(f"{name} changes the first token", (plain.exchange, other.exchange))


def _prompt_counts(ask: Ask, side: Side) -> Iterator[Finding]:
    """A repetition penalty counts the prompt: a greedy first token that the prompt has gives way."""
    text = "the river the river the river the river the river the river the"
    fields = {**side.body(ask.target.model, text), **_LIKELIEST, "max_tokens": 1}
    plain = ask.reply(side, **fields)
    if plain.texts[0].strip() not in ("river", "the"):
        raise Skip("the model does not go on as the prompt does")
    other = ask.reply(side, **fields, repetition_penalty=2.0)
    if other.texts == plain.texts:
        yield Finding("repetition_penalty 2 does not count the prompt", (plain.exchange, other.exchange))


def _neutral(ask: Ask, side: Side) -> Iterator[Finding]:
    """Documented defaults, sent: nothing changes."""
    fields: dict[str, Any] = {"seed": 31, "max_tokens": 24, "temperature": 1.0}
    plain = ask.reply(side, **fields)
    neutral: list[dict[str, Any]] = [
        {"presence_penalty": 0, "frequency_penalty": 0}, {"ignore_eos": False, "skip_special_tokens": True},
        {"n": 1, "best_of": 1, "use_beam_search": False}, {"stream": False, "include_stop_str_in_output": False},
        {"repetition_penalty": 1.0}, {"top_p": 1.0}, {"top_k": 1000},
    ]  # fmt: skip
    if side is CHAT:
        neutral.append({"logprobs": False, "top_logprobs": 0, "parallel_tool_calls": True, "tool_choice": "auto"})
    for default in neutral:
        other = ask.reply(side, **fields, **default)
        if other.texts != plain.texts or other.only.has_logprobs:
            yield Finding(f"{default} are the defaults, but sending them changes the answer",
                          (plain.exchange, other.exchange))  # fmt: skip


def _wide_filters(ask: Ask, side: Side) -> Iterator[Finding]:
    """No filter has many names: -1 in MindIE's form or 0 in OpenAI's, and more than the vocabulary."""
    off = 0 if ask.nested_errors else -1
    fields: dict[str, Any] = {"seed": 32, "max_tokens": 16, "temperature": 1.0}
    first, second = (ask.reply(side, **fields, top_k=top_k) for top_k in (off, 2**31 - 1))
    if first.texts != second.texts:
        yield Finding(f"top_k {off} and a top_k above the vocabulary differ", (first.exchange, second.exchange))


LAWS: Final[list[Law]] = [
    *both("sampling.greedy-fixed", "At temperature 0 the other sampling fields do nothing.", "temperature", _fixed,
          ("greedy", "seed", "top_k", "top_p")),
    *both("sampling.narrow", "top_k 1, a tiny top_p and a tiny temperature are greedy.", "top_k, top_p, temperature",
          _narrow, ("greedy", "seed")),
    *both("sampling.top-k", "Only the top_k likeliest tokens are drawn.", "top_k", _top_k,
          ("top_k", "logprobs", "seed")),
    *both("sampling.top-p", "Only the likeliest tokens up to top_p are drawn.", "top_p", _top_p,
          ("top_p", "logprobs", "seed")),
    *both("sampling.temperature", "A higher temperature draws less likely tokens.", "temperature", _heat,
          ("temperature", "n", "logprobs")),
    *both("sampling.presence", "presence_penalty is taken once off what the answer has.", "presence_penalty", _presence,
          ("presence_penalty", "logprobs", "top_k")),
    *both("sampling.frequency", "frequency_penalty is taken off for every time.", "frequency_penalty", _frequency,
          ("frequency_penalty", "logprobs", "top_k")),
    *both("sampling.penalties", "A large penalty changes a text that repeats itself.", "penalties", _changes,
          ("top_k", "stream")),
    *both("sampling.first-token", "presence_penalty and frequency_penalty leave the first token alone.", "penalties",
          _first_free, ("top_k",)),
    *both("sampling.prompt", "repetition_penalty counts the prompt.", "repetition_penalty", _prompt_counts,
          ("top_k", "repetition_penalty")),
    *both("sampling.defaults", "Sending the documented defaults changes nothing, unless the weights have others.",
          "defaults", _neutral, ("seed", "temperature")),
    *both("sampling.top-k-off", "No filter and a filter above the vocabulary are the same.", "top_k", _wide_filters,
          ("seed", "top_k")),
]  # fmt: skip
