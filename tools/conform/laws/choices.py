"""How many choices there are: n, best_of, beams; their numbers, and their order where they are ranked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from tools.conform.asking import Ask
from tools.conform.law import Finding, Law, both
from tools.conform.replies import Reply
from tools.conform.sides import Side

_DRAWN: Final[dict[str, Any]] = {"temperature": 1.3, "seed": 21, "max_tokens": 6}
_MOST_RANKED: Final = 24
"""Answers that are ranked at most."""
_TELLING: Final = 2
"""Of these so many are enough whose choices another order than the right one would have shown."""


def _counted(ask: Ask, side: Side, count: int, **fields: Any) -> Iterator[Finding]:
    """A request whole and streamed must have so many choices, numbered from 0."""
    for more in ({}, {"stream": True}):
        reply = ask.reply(side, **{**_DRAWN, **fields, **more})
        yield from _numbered(reply, count, bool(more), str(fields))


def _numbered(reply: Reply, count: int, streamed: bool, what: str) -> Iterator[Finding]:
    found = [choice.index for choice in reply.choices]
    if (sorted(map(str, found)) if streamed else found) != (
        [str(i) for i in range(count)] if streamed else [*range(count)]
    ):
        how = "streamed" if streamed else "whole"
        yield Finding(f"{what} gave choices {found} {how}, not {count} from 0", (reply.exchange,))
    unfinished = [choice.index for choice in reply.choices if choice.finish is None]
    if unfinished:
        yield Finding(f"choices {unfinished} have no finish_reason", (reply.exchange,))


def _n(ask: Ask, side: Side) -> Iterator[Finding]:
    yield from _counted(ask, side, 1)
    yield from _counted(ask, side, 1, n=1)
    yield from _counted(ask, side, 2, n=2)
    yield from _counted(ask, side, 5, n=5)


def _best_of(ask: Ask, side: Side) -> Iterator[Finding]:
    for fields, count in (({"best_of": 3}, 3), ({"best_of": 4, "n": 2}, 4), ({"best_of": 2, "n": 2}, 2)):
        reply = ask.reply(side, **_DRAWN, **fields)
        yield from _numbered(reply, count, False, str(fields))
    stream = ask.reply(side, **_DRAWN, n=2, best_of=2, stream=True)
    yield from _numbered(stream, 2, True, "n 2 with best_of 2")


def _ranked(ask: Ask, side: Side) -> Iterator[Finding]:
    """Until sums would have given another order often enough, which takes choices that end by themselves."""
    telling = 0
    for seed in range(1, _MOST_RANKED + 1):
        fields = {**_DRAWN, "seed": seed, "n": 1, "best_of": 4, **side.logprobs(0)}
        reply = ask.reply(side, **{**fields, "max_tokens": 6 if seed == 1 else 100})
        means = _means(reply)
        if not _all_shown(reply):
            continue
        if any(before < after - 1e-5 for before, after in pairwise(means)):
            shown = [round(mean, 4) for mean in means]
            yield Finding(
                f"best_of 4 above n 1: the choices' mean logprobs are {shown}, not descending", (reply.exchange,)
            )
        sums = [mean * len(choice.tokens) for mean, choice in zip(means, reply.choices, strict=True)]
        telling += any(before < after - 1e-3 for before, after in pairwise(sums))
        if telling == _TELLING:
            return


def _all_shown(reply: Reply) -> bool:
    """Whether logprobs show every token that is counted: also those whose text is hidden."""
    return sum(len(choice.tokens) for choice in reply.choices) == reply.completion_tokens


def _means(reply: Reply) -> list[float]:
    sums = [[token.logprob for token in choice.tokens] for choice in reply.choices]
    return [sum(values) / max(len(values), 1) for values in sums]


def _greedy_n(ask: Ask, side: Side) -> Iterator[Finding]:
    """Temperatures below 1e-5 are greedy, and above 0, so several choices are allowed; they are one text."""
    one = ask.reply(side, temperature=0, max_tokens=12)
    for temperature in (9.9e-6, 1e-7):
        reply = ask.reply(side, temperature=temperature, max_tokens=12, n=3, seed=3)
        if set(reply.texts) != set(one.texts):
            yield Finding(f"temperature {temperature} is greedy, but a choice differs", (one.exchange, reply.exchange))


def _wide(ask: Ask, side: Side) -> Iterator[Finding]:
    for width in (1, 2, 4):
        fields: dict[str, Any] = {"use_beam_search": True, "n": width, "max_tokens": 6}
        whole = ask.reply(side, **fields)
        yield from _numbered(whole, width, False, f"beams of width {width}")
        if len(set(whole.texts)) < min(width, 2):
            yield Finding(f"the {width} beams are one text", (whole.exchange,))
        stream = ask.reply(side, **fields, stream=True)
        yield from _numbered(stream, width, False, f"streamed beams of width {width}")
        if len(stream.events) != 1:
            yield Finding(f"streamed beams come in {len(stream.events)} events, not in one", (stream.exchange,))
    for fields, width in (({}, 1), ({"best_of": 3}, 1), ({"best_of": 1, "n": 2}, 2), ({"temperature": 0, "n": 2}, 2)):
        reply = ask.reply(side, use_beam_search=True, max_tokens=4, **fields)
        yield from _numbered(reply, width, False, f"beams with {fields}")


def _beam_order(ask: Ask, side: Side) -> Iterator[Finding]:
    for fields in ({}, {"stream": True}, {"max_tokens": 40}):
        reply = ask.reply(side, **{"use_beam_search": True, "n": 4, "max_tokens": 8, **side.logprobs(0), **fields})
        means = _means(reply)
        if _all_shown(reply) and any(a < b - 1e-4 for a, b in pairwise(means)):
            shown = [round(mean, 4) for mean in means]
            yield Finding(f"the beams' logprobs per token are {shown}, not descending", (reply.exchange,))


def _one_beam(ask: Ask, side: Side) -> Iterator[Finding]:
    greedy = ask.reply(side, temperature=0, max_tokens=8)
    beam = ask.reply(side, use_beam_search=True, n=1, max_tokens=8)
    if greedy.only.finish == beam.only.finish == "length" and greedy.texts != beam.texts:
        yield Finding("a beam search of width 1 is not the greedy answer", (greedy.exchange, beam.exchange))


def _beams_fixed(ask: Ask, side: Side) -> Iterator[Finding]:
    plain = ask.reply(side, use_beam_search=True, n=2, max_tokens=8)
    for fields in ({"temperature": 1.9, "seed": 5}, {"top_k": 2}, {"top_p": 0.4, "temperature": 0}):
        other = ask.reply(side, use_beam_search=True, n=2, max_tokens=8, **fields)
        if other.texts != plain.texts:
            yield Finding(f"{fields} changes a beam search", (plain.exchange, other.exchange))


LAWS: Final[list[Law]] = [
    *both("choices.n", "n gives n choices, numbered from 0, whole and streamed.", "n", _n, ("n", "seed", "stream")),
    *both("choices.best-of", "best_of gives best_of choices.", "best_of, number of choices", _best_of,
          ("best_of", "n", "seed", "stream")),
    *both("choices.ranked", "With best_of above n the choices descend by mean logprob.", "best_of", _ranked,
          ("best_of", "seed", "logprobs")),
    *both("choices.greedy", "Below 0.00001 a temperature is greedy, for several choices too.", "temperature", _greedy_n,
          ("n", "greedy", "seed")),
    *both("beams.width", "A beam search returns n beams, in a stream as one event; best_of plays no part.",
          "use_beam_search", _wide, ("beams", "stream")),
    *both("beams.order", "Beams come best first, by logprob per token.", "use_beam_search", _beam_order,
          ("beams", "logprobs", "stream")),
    *both("beams.one", "A beam search of width 1 is greedy.", "use_beam_search", _one_beam,
          ("beams", "greedy")),
    *both("beams.fixed", "temperature, top_k, top_p and seed do nothing to a beam search.", "use_beam_search",
          _beams_fixed, ("beams", "seed", "top_k", "top_p")),
]  # fmt: skip
