"""Seeds: equal ones give equal text, up to the last of 64 bits; others give other text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tools.conform.asking import Ask
from tools.conform.law import Finding, Law, Skip, both
from tools.conform.replies import Reply
from tools.conform.sides import CHAT, Side

_PAIRS: Final = (
    (1, 2), (7, 2**32 + 7), (5, 2**31 + 5), (5, 2**63 + 5), (2**53, 2**53 + 1), (2**63, 2**63 + 1), (2**64 - 2,
        2**64 - 1),
    (2**63 - 1, 2**64 - 1), (1, 2**64 - 1),
)  # fmt: skip
"""Seeds that become one where bits are lost: of 32 or 63, the sign, or in a double."""


def drawn(ask: Ask, side: Side, seed: int | None, **fields: Any) -> Reply:
    """An answer that has room to differ: 24 tokens at temperature 1.5."""
    given = {} if seed is None else {"seed": seed}
    return ask.reply(side, **{"temperature": 1.5, "max_tokens": 24, **given, **fields})


def _repeats(ask: Ask, side: Side) -> Iterator[Finding]:
    for seed in (side.seed_least, 1, 42 + ask.target.seed, 2**32, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1):
        first, second = drawn(ask, side, seed), drawn(ask, side, seed, again=1)
        if first.texts != second.texts:
            yield Finding(f"seed {seed} sent twice gives different texts", (first.exchange, second.exchange))


def _choices_repeat(ask: Ask, side: Side) -> Iterator[Finding]:
    for fields in ({}, {"stream": True}):
        first, second = (drawn(ask, side, 2**63 + 9, n=3, again=again, **fields) for again in (0, 1))
        if sorted(first.texts) != sorted(second.texts):
            yield Finding(
                "a seed with three choices sent twice gives different texts", (first.exchange, second.exchange)
            )


def _differ(ask: Ask, side: Side) -> Iterator[Finding]:
    for one, other in _PAIRS:
        first, second = drawn(ask, side, one), drawn(ask, side, other)
        if first.texts == second.texts:
            yield Finding(f"seeds {one} and {other} give the same text", (first.exchange, second.exchange))


def _absent(ask: Ask, side: Side) -> Iterator[Finding]:
    replies = [drawn(ask, side, None, again=again) for again in range(4)]
    if len({reply.texts[0] for reply in replies}) == 1:
        yield Finding("four requests without a seed have one text", tuple(reply.exchange for reply in replies))
    fixed = {drawn(ask, side, seed).texts[0] for seed in (side.seed_least, 1, 42)}
    if len({reply.texts[0] for reply in replies[:2]} - fixed) == 0:
        yield Finding("requests without a seed take a fixed one", tuple(reply.exchange for reply in replies[:2]))


def _varies(ask: Ask, side: Side) -> Iterator[Finding]:
    reply = drawn(ask, side, 77, n=4)
    if len(set(reply.texts)) < 2:
        yield Finding("four choices of one request at temperature 1.5 are the same text", (reply.exchange,))
    stream = drawn(ask, side, 78, n=4, stream=True)
    if len(set(stream.texts)) < 2:
        yield Finding("four streamed choices at temperature 1.5 are the same text", (stream.exchange,))


def _drawn_by_default(ask: Ask, side: Side) -> Iterator[Finding]:
    replies = [ask.reply(side, seed=seed, max_tokens=24) for seed in (1, 2, 3, 4)]
    if len({reply.texts[0] for reply in replies}) == 1:
        explicit = {ask.reply(side, seed=seed, max_tokens=24, temperature=1.0).texts[0] for seed in (1, 2, 3, 4)}
        if len(explicit) == 1:
            raise Skip("at temperature 1 four seeds give one text too")
        yield Finding(
            "without a temperature four seeds give one text, at 1.0, its default, they do not",
            tuple(reply.exchange for reply in replies),
        )


LAWS: Final[list[Law]] = [
    *both("seed.repeats", "The same seed gives the same text, up to 2^64-1.", "seed", _repeats, ("seed",
        "temperature")),
    *both("seed.choices-repeat", "The same seed gives the same choices.", "seed, n", _choices_repeat,
          ("seed", "n", "stream")),
    *both("seed.differs", "Different seeds give different texts; no bit of the 64 is lost.", "seed", _differ,
          ("seed", "temperature")),
    *both("seed.absent", "Without a seed the server picks one, another each time.", "seed", _absent, ("temperature",
        "own_seed")),
    *both("seed.choices-differ", "The choices of one request are drawn apart.", "n", _varies, ("n", "seed", "stream")),
    *both("seed.default-temperature", "Without a temperature text is drawn, unless the weights say otherwise.",
          "temperature, defaults", _drawn_by_default, ("seed", "temperature")),
    Law("seed.zero.chat", "On chat 0 is a seed like any other.", "seed", lambda ask, side: _zero(ask, side),
        ("seed", "temperature"), side=CHAT),
]  # fmt: skip


def _zero(ask: Ask, side: Side) -> Iterator[Finding]:
    first, second = drawn(ask, side, 0), drawn(ask, side, 0, again=1)
    if first.texts != second.texts:
        yield Finding("seed 0 sent twice gives different texts", (first.exchange, second.exchange))
    for seed in (1, None):
        other = drawn(ask, side, seed)
        if other.texts == first.texts:
            said = "no seed" if seed is None else f"seed {seed}"
            yield Finding(f"seed 0 and {said} give the same text", (first.exchange, other.exchange))
