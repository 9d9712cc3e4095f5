"""The mixed requests of a soak: greedy, sampled, several choices, beams, stops, long and shared prompts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tools.load.prompts import Count, prose

TOP: Final = 5
"""Logprobs asked for with every token; they tell a near tie from a wrong answer."""
_SHARED_TOKENS: Final = 300
_LONG_TOKENS: Final = (400, 1200)


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of request."""

    name: str
    weight: int
    fields: Callable[[random.Random], dict[str, Any]]
    prompt: str = "short"


def _sampled(chance: random.Random) -> dict[str, Any]:
    fields: dict[str, Any] = {"temperature": chance.choice((0.5, 0.8, 1.2))}
    if chance.random() < 0.5:
        fields["top_p"] = chance.choice((0.7, 0.95))
    if chance.random() < 0.5:
        fields["top_k"] = chance.choice((5, 40))
    return fields


KINDS: Final = (
    Kind("greedy", 4, lambda _: {"temperature": 0}),
    Kind("sampled", 4, _sampled),
    Kind("penalised", 2, lambda _: {"temperature": 0.7, "repetition_penalty": 1.2, "presence_penalty": 0.5}),
    Kind("n", 2, lambda chance: {"temperature": 0.8, "n": chance.choice((2, 3))}),
    Kind("best_of", 2, lambda chance: {"temperature": 0.8, "best_of": 3, "n": chance.choice((1, 2)), "stream": False}),
    Kind("beams", 2, lambda chance: {"use_beam_search": True, "n": chance.choice((2, 3))}),
    Kind("stop", 2, lambda chance: {"temperature": 0, "stop": chance.choice((["."], [" the", "\n"], [", "]))}),
    Kind("long", 2, lambda _: {"temperature": 0}, "long"),
    Kind("shared prefix", 4, lambda chance: {"temperature": chance.choice((0, 0.8))}, "shared"),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One request whose answer alone is known."""

    kind: str
    body: dict[str, Any]

    @property
    def ranked(self) -> bool:
        """The choices come in an order of merit, in which near ties may change places."""
        return bool(self.body.get("use_beam_search")) or "best_of" in self.body

    @property
    def drawn(self) -> bool:
        """Tokens are drawn, not the likeliest taken."""
        return not self.body.get("use_beam_search") and self.body["temperature"] > 0


def requests(count: Count, distinct: int, max_tokens: int, model: str, seed: int) -> list[Wanted]:
    """So many different requests; each kind comes at least once where there are enough of them.

    Args:
        count: measures prompts.
        max_tokens: of an answer at most; each draws its own limit up to that.
    """
    chance = random.Random(seed)
    kinds = [*KINDS, *chance.choices(KINDS, [kind.weight for kind in KINDS], k=max(0, distinct - len(KINDS)))]
    shared = prose(count, _SHARED_TOKENS, seed)
    made = []
    for number, kind in enumerate(kinds[:distinct]):
        tokens = {
            "short": chance.randint(4, 60),
            "long": chance.randint(*_LONG_TOKENS),
            "shared": chance.randint(4, 30),
        }
        own = f"{number}: {prose(count, tokens[kind.prompt], seed + number + 1)}"
        body: dict[str, Any] = {
            "model": model,
            "prompt": f"{shared}\n\n{own}" if kind.prompt == "shared" else own,
            "max_tokens": chance.randint(min(4, max_tokens), max_tokens),
            "seed": chance.getrandbits(63),
            "logprobs": TOP,
            "stream": chance.random() < 0.5,
        }
        made.append(Wanted(kind.name, body | kind.fields(chance)))
    return made
