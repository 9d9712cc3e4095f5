"""Attention on an Ascend NPU: pages of keys and values, and the steps that write and read them by block tables."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from engine.attention.registry import LayerRules, LayerShape
from engine.forward import ModelMismatch
from engine.npu import operators
from engine.npu.operators import BLOCK_SIZE, MaskedRows, PagedRows
from engine.plan import Plan

_MAX_NUMBERS = (1 << 31) - 1
"""Numbers of one layer's keys: the operator counts them in 32 bits."""


def most_pages(shapes: Sequence[LayerShape]) -> int:
    """Pages that the operator can address in the widest layer."""
    return _MAX_NUMBERS // (BLOCK_SIZE * max(shape.kv_heads * _width(shape) for shape in shapes))


def page_bytes(shapes: Sequence[LayerShape], page_size: int, dtype: torch.dtype) -> int:
    """Memory of one page, all layers."""
    return 2 * page_size * dtype.itemsize * sum(shape.kv_heads * _width(shape) for shape in shapes)


def _width(shape: LayerShape) -> int:
    return max(shape.key_dim, shape.value_dim)


class NpuPool:
    """Keys and values of all layers in pages, any of which a sequence may have."""

    def __init__(
        self, shapes: Sequence[LayerShape], num_pages: int, page_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """``num_pages`` pages of ``page_size`` tokens, on an NPU ``BLOCK_SIZE``, in each layer of ``shapes``."""
        self.device = device
        self.page_size = page_size
        self._pins = device.type == "npu"
        self.keys: list[Tensor] = []
        """Per layer ``[pages, page_size, kv_heads, width]``: the operator wants keys and values equally wide."""
        self.values: list[Tensor] = []
        """The same; narrower keys or values have zeros behind them."""
        for shape in shapes:
            page = (num_pages, page_size, shape.kv_heads)
            width = _width(shape)
            self.keys.append(torch.zeros(*page, width, dtype=dtype, device=device))
            self.values.append(torch.zeros(*page, width, dtype=dtype, device=device))
        self.mask = operators.causal_mask(device)
        """For all attention calls, int8 ``[2048, 2048]``."""

    def given(self, numbers: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
        """Integers of the host, int32, on the device. Pinned, so that the copy is queued and nothing waits for it."""
        return torch.tensor(numbers, dtype=torch.int32, pin_memory=self._pins).to(self.device, non_blocking=True)

    def copy(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Copy whole pages of all layers; no page is in both lists."""
        both = self.given([list(source), list(target)]).long()
        for pool in (*self.keys, *self.values):
            pool.index_copy_(0, both[1], pool.index_select(0, both[0]))

    def copy_beginning(self, source: int, target: int, tokens: int) -> None:
        """Copy the first ``tokens`` tokens of a page; sequences read nothing behind their own tokens."""
        for pool in (*self.keys, *self.values):
            pool[target, :tokens] = pool[source, :tokens]


class NpuStep:
    """One packed forward: its input rows in the order of the plan, and each layer's attention over them.

    All that the step needs from the host is one array of 32-bit integers, copied once. Lengths stay on the host, where
    the operator wants them.
    """

    reads_more = False
    """No row reads what is not its own."""

    def __init__(self, pool: NpuPool, plan: Plan) -> None:
        """Lay out a plan; its pages are in any order."""
        self._pool = pool
        size = pool.page_size
        spans = plan.spans
        ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        wanted: list[int] = []
        ends: list[int] = []
        lengths: list[int] = []
        for span in spans:
            first, end = span.start, span.start + len(span.token_ids)
            ids += span.token_ids
            positions += range(first, end)
            slots += [span.pages[place // size] * size + place % size for place in range(first, end)]
            ends.append(len(ids))
            lengths.append(end)
            wanted += range(len(ids) - span.wanted, len(ids))
        self.last_rows = [end - 1 for end in ends]
        """Of each span; a span's rows are a run."""
        self._lengths = lengths
        self._pages = [span.pages for span in spans]
        self._single = len(ids) == len(spans)
        width = max(-(-length // size) for length in lengths)
        table = [page for pages in self._pages for page in _row(pages, 0, width)]
        joined = pool.given(ids + positions + slots + wanted + table)
        sizes = [len(ids)] * 3 + [len(wanted), len(table)]
        rows, places, targets, self.wanted, blocks = torch.split(joined, sizes)
        self.token_ids = rows[None]
        """``[1, tokens]``."""
        self.positions = places[None]
        """``[1, tokens]``."""
        self._slots = targets
        self._rows = PagedRows(ends, lengths, blocks.view(len(spans), width), pool.mask)
        self._windows: dict[int, MaskedRows] = {}
        self.rotary: tuple[Tensor, Tensor] | None = None
        """Cosines and sines as the first replaced layer has laid them out, for those after it."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, rules: LayerRules) -> Tensor:
        """See ``Step.attend``.

        Raises:
            ModelMismatch: the operator cannot do what the layer asks for.
        """
        if rules.softcap is not None:
            raise ModelMismatch("its attention caps scores softly, which torch_npu's operator does not do.")
        keys, values = self._pool.keys[layer], self._pool.values[layer]
        width, value_dim = keys.shape[-1], value.shape[-1]
        operators.store(_widened(key, width), _widened(value, width), keys, values, self._slots)
        query = _widened(query, width)
        if self._single and rules.window is not None:
            out = operators.attend_masked(query, keys, values, self._window(rules.window), rules.scale, rules.sinks)
        else:
            out = operators.attend(query, keys, values, self._rows, rules.scale, rules.window, rules.sinks)
        return out[..., :value_dim]

    def _window(self, window: int) -> MaskedRows:
        """Single rows that see ``window`` keys, made once a step: only blocks that a sequence sees are in the table."""
        made = self._windows.get(window)
        if made is None:
            size = self._pool.page_size
            first = [max(0, length - window) // size for length in self._lengths]
            width = max(-(-length // size) - begin for begin, length in zip(first, self._lengths, strict=True))
            lengths = [length - begin * size for begin, length in zip(first, self._lengths, strict=True)]
            table = [_row(pages, begin, width) for pages, begin in zip(self._pages, first, strict=True)]
            joined = self._pool.given([[*row, length] for row, length in zip(table, lengths, strict=True)])
            ends = joined[:, -1:]  # [sequences, 1]
            places = torch.arange(width * size, dtype=torch.int32, device=self._pool.device)
            hidden = (places >= ends) | (places < ends - window)  # [sequences, places]
            made = MaskedRows(lengths, joined[:, :-1].contiguous(), hidden[:, None, None])
            self._windows[window] = made
        return made


def _widened(rows: Tensor, width: int) -> Tensor:
    """``[tokens, heads, dim]`` with zeros behind, contiguous: zeros add nothing to a product."""
    return rows.contiguous() if rows.shape[-1] == width else functional.pad(rows, (0, width - rows.shape[-1]))


def _row(pages: Sequence[int], first: int, width: int) -> list[int]:
    """``width`` pages from the first one; where a sequence has fewer, block 0, which is not read."""
    row = list(pages[first : first + width])
    return row + [0] * (width - len(row))
