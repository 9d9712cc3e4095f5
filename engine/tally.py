"""Counts of values by bucket, as Prometheus' histograms have them, and those that every front keeps of its requests."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from engine.types import StepOutput

# The bounds are those that MindIE documents for the metrics of these names.
TTFT_BOUNDS_S: Final = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
GAP_BOUNDS_S: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)
LATENCY_BOUNDS_S: Final = (1, 2.5, 5, 10, 15, 20, 30, 40, 50, 60)
TOKEN_BOUNDS: Final = (10, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 16000, 20000, 32000, 50000, 64000, 128000)


class Tally:
    """How many values fell into each bucket, and their sum. Adding one takes 0.3 us."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """``bounds``: upper ends of the buckets, inclusive, rising; one bucket more takes what is above all."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def merge(self, other: Tally) -> None:
        """Count what another tally of the same bounds has counted."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    @property
    def cumulative(self) -> list[int]:
        """For each bucket, the values in it and in those below; the last is the number of all."""
        sums, so_far = [], 0
        for count in self.counts:
            so_far += count
            sums.append(so_far)
        return sums


class Observed:
    """What a front has seen of its requests' tokens, since it was made."""

    __slots__ = ("gaps_s", "generated_tokens", "prompt_tokens")

    def __init__(self) -> None:
        self.gaps_s = Tally(GAP_BOUNDS_S)
        """Between two tokens of a choice, once for each token but the first."""
        self.prompt_tokens = Tally(TOKEN_BOUNDS)
        """Of each request that has begun to be answered."""
        self.generated_tokens = Tally(TOKEN_BOUNDS)
        """Of all choices of each such request, when it is over, however it ended."""

    def round(self, gap_s: float, output: StepOutput) -> None:
        """A later round of a request, ``gap_s`` seconds after the one before; several tokens share the time."""
        count = len(output.tokens)
        if count <= 1:
            self.gaps_s.add(gap_s)  # a round of a beam search tells no tokens
            return
        choices = len({token.choice for token in output.tokens})
        self.gaps_s.add(gap_s * choices / count, count)

    @classmethod
    def joined(cls, parts: Iterable[Observed]) -> Observed:
        """What several fronts have seen together."""
        whole = cls()
        for part in parts:
            whole.gaps_s.merge(part.gaps_s)
            whole.prompt_tokens.merge(part.prompt_tokens)
            whole.generated_tokens.merge(part.generated_tokens)
        return whole
