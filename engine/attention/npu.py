"""Attention on an Ascend NPU: pages of keys and values, and the steps that write and read them by block tables."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.attention.paged import PagePool, PageStep, page_width, table_row, widened
from engine.attention.registry import LayerRules, LayerShape
from engine.forward import ModelMismatch
from engine.npu import operators
from engine.npu.operators import BLOCK_SIZE, MaskedRows, PagedRows
from engine.plan import Plan

_MAX_NUMBERS = (1 << 31) - 1
"""Numbers of one layer's keys: the operator counts them in 32 bits."""


def most_pages(shapes: Sequence[LayerShape]) -> int:
    """Pages that the operator can address in the widest layer."""
    return _MAX_NUMBERS // (BLOCK_SIZE * max(shape.kv_heads * page_width(shape) for shape in shapes))


class NpuPool(PagePool):
    """Keys and values in pages of ``BLOCK_SIZE`` tokens."""

    def __init__(
        self, shapes: Sequence[LayerShape], num_pages: int, page_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """See ``PagePool``."""
        super().__init__(shapes, num_pages, page_size, dtype, device)
        self.mask = operators.causal_mask(device)
        """For all attention calls, int8 ``[2048, 2048]``."""


class NpuStep(PageStep):
    """One packed forward. Lengths stay on the host, where the operator wants them."""

    def __init__(self, pool: NpuPool, plan: Plan) -> None:
        """See ``PageStep``."""
        super().__init__(pool, plan)
        self._rows = PagedRows(self.ends, self.lengths, self.block_table, pool.mask)
        self._windows: dict[int, MaskedRows] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, rules: LayerRules) -> Tensor:
        """See ``Step.attend``.

        Raises:
            ModelMismatch: the operator cannot do what the layer asks for.
        """
        if rules.softcap is not None:
            raise ModelMismatch("its attention caps scores softly, which torch_npu's operator does not do.")
        keys, values = self.pool.keys[layer], self.pool.values[layer]
        width, value_dim = keys.shape[-1], value.shape[-1]
        operators.store(widened(key, width), widened(value, width), keys, values, self.slots)
        query = widened(query, width)
        if self.single and rules.window is not None:
            out = operators.attend_masked(query, keys, values, self._window(rules.window), rules.scale, rules.sinks)
        else:
            out = operators.attend(query, keys, values, self._rows, rules.scale, rules.window, rules.sinks)
        return out[..., :value_dim]

    def _window(self, window: int) -> MaskedRows:
        """Single rows that see ``window`` keys, made once a step: only blocks that a sequence sees are in the table."""
        made = self._windows.get(window)
        if made is None:
            size = self.pool.page_size
            first = [max(0, length - window) // size for length in self.lengths]
            width = max(-(-length // size) - begin for begin, length in zip(first, self.lengths, strict=True))
            lengths = [length - begin * size for begin, length in zip(first, self.lengths, strict=True)]
            table = [table_row(pages, begin, width) for pages, begin in zip(self.pages, first, strict=True)]
            joined = self.pool.given([[*row, length] for row, length in zip(table, lengths, strict=True)])
            ends = joined[:, -1:]  # [sequences, 1]
            places = torch.arange(width * size, dtype=torch.int32, device=self.pool.device)
            hidden = (places >= ends) | (places < ends - window)  # [sequences, places]
            made = MaskedRows(lengths, joined[:, :-1].contiguous(), hidden[:, None, None])
            self._windows[window] = made
        return made
