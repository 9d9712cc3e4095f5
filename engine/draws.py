"""One step's draws: the rows of all choices together, greedy ones out of one copy to the host."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.sampling.sampler import Draw, Row, Sampler, likeliest


class StepDraws:
    """Draws from one step's logits. Nothing is drawn from rows that are no numbers."""

    def __init__(self, logits: Tensor) -> None:
        """Look at float32 ``logits`` ``[rows, vocab]`` once: one pass on the device, one copy to the host."""
        self._logits = logits
        best = likeliest(logits)  # [rows]; NaN where a row has one
        finite = logits.gather(1, best[:, None])[:, 0].isfinite()  # [rows]
        both: list[list[int]] = torch.stack((best, finite.to(best.dtype))).tolist()
        self._likeliest = both[0]
        self._finite = both[1]

    def healthy(self, first: int, count: int) -> bool:
        """Whether a token can be chosen from each of ``count`` rows."""
        return all(self._finite[first : first + count])

    def rows(self, first: int, count: int) -> Tensor:
        """``count`` rows of the logits, ``[count, vocab]``."""
        return self._logits[first : first + count]

    def draw(self, sampler: Sampler, rows: Sequence[tuple[int, Row]]) -> list[Draw]:
        """One token for each pair of a logits row and a choice; a row may serve several choices."""
        draws = [Draw(self._likeliest[index], None, None) for index, _ in rows]
        asked = [place for place, (_, row) in enumerate(rows) if not _is_likeliest(row)]
        if asked:
            indices = [rows[place][0] for place in asked]
            logits = self._logits if indices == list(range(len(self._logits))) else self._logits[indices]
            for place, draw in zip(asked, sampler.draw(logits, [rows[place][1] for place in asked]), strict=True):
                draws[place] = draw
        return draws


def _is_likeliest(row: Row) -> bool:
    """Whether the draw is the likeliest token of the row, and that is all that is asked."""
    return row.settings.greedy and not row.settings.logprob and row.free
