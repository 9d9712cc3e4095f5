"""What a step looks up over the whole vocabulary: behind this seam a runner may bring its own, equal to torch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from engine.sampling.sampler import Row, likeliest, pick, raw_logprobs

Logprobs = tuple[float, tuple[tuple[int, float], ...] | None]
"""Of the chosen token, and of the likeliest: descending, equals by id; None where no list was asked for."""


class Selector(Protocol):
    """Finds tokens in float32 logits ``[rows, vocab]``. What it finds in a row depends on that row alone."""

    def likeliest(self, logits: Tensor) -> tuple[list[int], list[int]]:
        """Of each row the likeliest token, of equals the smaller id, and whether its logit is finite (a NaN counts as
        the largest)."""
        ...

    def tokens(self, logits: Tensor, rows: Sequence[tuple[int, Row]]) -> list[int]:
        """A token for each pair of a row and what draws from it, exactly as ``Sampler`` draws it.

        Every such row's largest value is finite.
        """
        ...

    def logprobs(self, logits: Tensor, asked: Sequence[tuple[int, int, int | None]]) -> list[Logprobs]:
        """Float32 log-softmax for each (row, token id, how many of the likeliest or None)."""
        ...


class TorchSelector:
    """The ``Selector`` for every device; what others give is measured by it."""

    def likeliest(self, logits: Tensor) -> tuple[list[int], list[int]]:
        """See ``Selector.likeliest``: one pass on the device, one copy to the host."""
        best = likeliest(logits)  # [rows]
        finite = logits.gather(1, best[:, None])[:, 0].isfinite()  # [rows]
        both: list[list[int]] = torch.stack((best, finite.to(best.dtype))).tolist()
        return both[0], both[1]

    def tokens(self, logits: Tensor, rows: Sequence[tuple[int, Row]]) -> list[int]:
        """See ``Selector.tokens``."""
        found: list[int] = torch.stack([pick(logits[index], row) for index, row in rows]).tolist() if rows else []
        return found

    def logprobs(self, logits: Tensor, asked: Sequence[tuple[int, int, int | None]]) -> list[Logprobs]:
        """See ``Selector.logprobs``."""
        if not asked:
            return []
        indices, token_ids, tops = zip(*asked, strict=True)
        every = indices == tuple(range(len(logits)))
        return raw_logprobs(logits if every else logits[list(indices)], token_ids, tops)
