"""The arithmetic: percentiles, one turn's figures, ratios between servers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tools.load.events import StreamedAnswer

Figures = dict[str, float]
"""Named as in ``FIGURES``; what could not be measured is absent."""


@dataclass(frozen=True, slots=True)
class Figure:
    """How one figure is shown and compared."""

    title: str
    more_is_better: bool = False


FIGURES: Final[Mapping[str, Figure]] = {
    "output_tok_s": Figure("output tok/s", more_is_better=True),
    "decode_tok_s": Figure("decode tok/s", more_is_better=True),
    "decode_ms": Figure("ms per token"),
    "prefill_tok_s": Figure("prefill tok/s", more_is_better=True),
    "wall_s": Figure("wall s"),
    "ttft_p50_ms": Figure("TTFT p50 ms"),
    "ttft_p99_ms": Figure("TTFT p99 ms"),
    "tpot_p50_ms": Figure("TPOT p50 ms"),
    "tpot_p99_ms": Figure("TPOT p99 ms"),
    "gap_p99_ms": Figure("gap p99 ms"),
    "cold_s": Figure("cold start s"),
    "warm_s": Figure("warm start s"),
    "memory_mb": Figure("memory MB"),
}


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which ``percent`` of the values lie, interpolated between the two neighbours.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def turn_figures(answers: Sequence[StreamedAnswer], wall_s: float) -> Figures:
    """What one turn measured. Failed answers count in no figure; without a good one there are no figures.

    TTFT is the time from sending to the first token's text; TPOT the time from the first to the last, divided by the
    tokens after the first, for each request. ``prefill_tok_s`` is the median over requests of prompt tokens that came
    from no cache, divided by TTFT.
    """
    good = [answer for answer in answers if answer.failure is None]
    if not good or wall_s <= 0:
        return {}
    ttft = [answer.first_s for answer in good]
    tpot = [
        (answer.last_s - answer.first_s) / (answer.output_tokens - 1) for answer in good if answer.output_tokens > 1
    ]
    gaps = [gap for answer in good for gap in answer.gaps_s]
    found = {
        "output_tok_s": sum(answer.output_tokens for answer in good) / wall_s,
        "wall_s": wall_s,
        "ttft_p50_ms": percentile(ttft, 50) * 1e3,
        "ttft_p99_ms": percentile(ttft, 99) * 1e3,
    }
    if tpot:
        found |= {"tpot_p50_ms": percentile(tpot, 50) * 1e3, "tpot_p99_ms": percentile(tpot, 99) * 1e3}
    if gaps:
        found["gap_p99_ms"] = percentile(gaps, 99) * 1e3
    prefill = [
        (answer.prompt_tokens - (answer.cached_tokens or 0)) / answer.first_s
        for answer in good
        if answer.prompt_tokens and answer.first_s > 0
    ]
    if prefill:
        found["prefill_tok_s"] = statistics.median(prefill)
    return found


def decode_figures(answers: Sequence[StreamedAnswer]) -> Figures:
    """Decoding alone, of answers that were asked for at once: from the last one's first token to the first one's end.

    ``decode_ms`` is the median over answers of their mean time per token within that span, ``decode_tok_s`` what all
    get together at that pace. Where the server counted the tokens, an event stands for an equal part of them. Without
    figures where an answer failed, or where less than two events of one lie within the span.
    """
    if not answers or any(answer.failure is not None or not answer.times_s for answer in answers):
        return {}
    begin_s = max(answer.sent_s + answer.first_s for answer in answers)
    end_s = min(answer.sent_s + answer.last_s for answer in answers)
    paces = []
    for answer in answers:
        inside = [at_s for at_s in answer.times_s if begin_s <= answer.sent_s + at_s <= end_s]
        if len(inside) < 2:
            return {}
        tokens = (len(inside) - 1) * answer.output_tokens / len(answer.times_s)
        paces.append((inside[-1] - inside[0]) / tokens)
    pace_s = statistics.median(paces)
    return {"decode_ms": pace_s * 1e3, "decode_tok_s": len(answers) / pace_s} if pace_s > 0 else {}


def medians(rounds: Sequence[Figures]) -> Figures:
    """The median of each figure over the rounds that have it."""
    names = [name for name in FIGURES if any(name in figures for figures in rounds)]
    return {name: statistics.median(figures[name] for figures in rounds if name in figures) for name in names}


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times better the first server is than another; above 1 it is ahead."""

    median: float
    least: float
    most: float


def ratio(name: str, first: Sequence[Figures], other: Sequence[Figures]) -> Ratio | None:
    """Compare one figure round by round: turns of one round are neighbours in time, on a host that changes its speed.

    Args:
        first, other: the same rounds in the same order; an empty entry is a round without a result.

    Returns:
        None where no round has the figure on both sides.
    """
    pairs = [
        (mine[name], its[name]) if FIGURES[name].more_is_better else (its[name], mine[name])
        for mine, its in zip(first, other, strict=True)
        if mine.get(name, 0) > 0 and its.get(name, 0) > 0
    ]
    if not pairs:
        return None
    ratios = [above / below for above, below in pairs]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))
