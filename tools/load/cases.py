"""The loads of a comparison: how many clients, how many requests, how long, with or without a neighbour."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from tools.load.prompts import Prompts

SHORT_TOKENS: Final = 124
LONG_TOKENS: Final = 2000
SHARED_TOKENS: Final = 1500
DECODE_PROMPT: Final = 32
DECODE_TOKENS: Final = 160
BRIEF_ANSWER: Final = 16
"""Output tokens where the prompt is what is measured."""
NEIGHBOUR_CORES: Final = 0.5


@dataclass(frozen=True, slots=True)
class Case:
    """One load. ``concurrency`` clients each send their next request when they have the last answer."""

    name: str
    title: str
    kind: Literal["separate", "sharing"]
    concurrency: int
    requests: int
    prompt_tokens: int
    output_tokens: int
    figures: tuple[str, ...]
    """What is shown of it, the most telling first."""
    neighbour_cores: float = 0.0
    """Cores that a process beside the server uses meanwhile."""

    @property
    def one_wave(self) -> bool:
        """All its requests are sent at once, and no other follows."""
        return self.requests == self.concurrency

    def prompts(self, prompts: Prompts, load: int) -> list[str]:
        """Its prompts; another ``load`` number makes others of equal length."""
        make = prompts.sharing if self.kind == "sharing" else prompts.separate
        return make(load, self.requests, self.prompt_tokens)


def case(name: str, output_tokens: int) -> Case:
    """A case by its name.

    Args:
        name: ``c8``: 8 clients; ``c8+half``: the same beside a process that uses half a core; ``d8``: decoding alone, 8
            short prompts at once; ``long``; ``prefix``.
        output_tokens: of the ``c`` cases.

    Raises:
        ValueError: there is no such case.
    """
    if name == "long":
        title = f"prompt of {LONG_TOKENS:,} tokens, 1 client"
        return Case(name, title, "separate", 1, 2, LONG_TOKENS, BRIEF_ANSWER, ("prefill_tok_s", "ttft_p50_ms"))
    if name == "prefix":
        title = f"16 requests share {SHARED_TOKENS:,} tokens, 4 clients"
        shown = ("wall_s", "ttft_p50_ms", "ttft_p99_ms")
        return Case(name, title, "sharing", 4, 16, SHARED_TOKENS, BRIEF_ANSWER, shown)
    if found := re.fullmatch(r"d([1-9]\d{0,2})", name):
        rows = int(found[1])
        figures = ("decode_tok_s", "decode_ms")
        return Case(name, f"decoding of {rows} at once", "separate", rows, rows, DECODE_PROMPT, DECODE_TOKENS, figures)
    found = re.fullmatch(r"c([1-9]\d{0,2})(\+half)?", name)
    if found is None:
        raise ValueError(f"{name!r} is no case: there are c1, c4, c16, c4+half, d8 and so on, long and prefix")
    clients = int(found[1])
    return Case(
        name=name,
        title=f"{clients} client{'s' if clients > 1 else ''}" + (" beside half a core's work" if found[2] else ""),
        kind="separate",
        concurrency=clients,
        requests=max(4, 2 * clients),
        prompt_tokens=SHORT_TOKENS,
        output_tokens=output_tokens,
        figures=("output_tok_s", "ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms"),
        neighbour_cores=NEIGHBOUR_CORES if found[2] else 0.0,
    )
