"""What adapters add to the outputs of one product, for the rows of the running step that belong to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.nn import functional


class AdapterRows:
    """Which rows of the running step belong to which adapter. All layers that see the same rows share one of these."""

    def __init__(self) -> None:
        """No row belongs to an adapter."""
        self.parts: list[tuple[slice | Tensor, int]] = []
        """(rows, adapter); the rows as a slice where they are a run, else as an index ``[rows of it]``."""

    def assign(self, rows: Mapping[int, list[int]]) -> None:
        """Set the rows of each adapter, for the next forward."""
        self.parts = [(_selection(sorted(indices)), adapter) for adapter, indices in rows.items()]

    def assign_all(self, adapter: int) -> None:
        """All rows belong to one adapter; to none, when that is 0."""
        self.parts = [(slice(None), adapter)] if adapter else []


def _selection(rows: list[int]) -> slice | Tensor:
    first, end = rows[0], rows[-1] + 1
    return slice(first, end) if end - first == len(rows) else torch.tensor(rows, dtype=torch.int64)


class Delta:
    """The adapters of one product: ``out += x @ A.T @ B.T`` for the rows of each.

    Where the product joins several layers, A holds theirs one below the other and B one block for each, so that it is
    two operators all the same.
    """

    def __init__(self, rows: AdapterRows, sizes: Iterable[int]) -> None:
        """For a product whose outputs are those of layers of ``sizes``, one after the other."""
        self.rows = rows
        self._sizes = tuple(sizes)
        self._weights: dict[int, tuple[Tensor, Tensor]] = {}  # adapter -> A [ranks, in], B [out, ranks]

    @property
    def is_empty(self) -> bool:
        """No adapter changes this product."""
        return not self._weights

    def load(self, adapter: int, parts: Mapping[int, tuple[Tensor, Tensor]]) -> None:
        """Take an adapter's A and B, by the place of their layer in the product."""
        ordered = [(place, *parts[place]) for place in sorted(parts)]
        if len(self._sizes) == 1:
            ((_, a, b),) = ordered
        else:
            a = torch.cat([part for _, part, _ in ordered])
            b = a.new_zeros(sum(self._sizes), len(a))
            rank = 0
            for place, _, block in ordered:
                out = sum(self._sizes[:place])
                b[out : out + block.shape[0], rank : rank + block.shape[1]] = block
                rank += block.shape[1]
        self._weights[adapter] = a, b

    def unload(self, adapter: int) -> None:
        """Forget an adapter; an unknown one is fine."""
        self._weights.pop(adapter, None)

    def add(self, rows: Tensor, out: Tensor) -> None:
        """Add what the running step's adapters give.

        Args:
            rows: what the product was applied to, ``[..., in]``.
            out: its outputs, ``[..., out]`` and contiguous, which are changed.
        """
        inputs, outputs = rows.reshape(-1, rows.shape[-1]), out.view(-1, out.shape[-1])
        for selected, adapter in self.rows.parts:
            weights = self._weights.get(adapter)
            if weights is None:
                continue
            a, b = weights
            if isinstance(selected, slice):
                outputs[selected].addmm_(functional.linear(inputs[selected], a), b.t())
            else:
                low = functional.linear(inputs.index_select(0, selected), a)
                outputs.index_add_(0, selected, functional.linear(low, b))
