"""Pages of keys and values on an accelerator, and how one step's rows lie in them: the part that devices share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from engine.attention.registry import LayerShape
from engine.plan import Plan


def page_bytes(shapes: Sequence[LayerShape], page_size: int, dtype: torch.dtype) -> int:
    """Memory of one page, all layers."""
    return 2 * page_size * dtype.itemsize * sum(shape.kv_heads * page_width(shape) for shape in shapes)


def page_width(shape: LayerShape) -> int:
    """Numbers that a head's key or value takes in a page: the kernels want both equally wide."""
    return max(shape.key_dim, shape.value_dim)


class PagePool:
    """Keys and values of all layers in pages, any of which a sequence may have."""

    def __init__(
        self, shapes: Sequence[LayerShape], num_pages: int, page_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """``num_pages`` pages of ``page_size`` tokens in each layer of ``shapes``."""
        self.device = device
        self.page_size = page_size
        self._pins = device.type != "cpu"
        self.keys: list[Tensor] = []
        """Per layer ``[pages, page_size, kv_heads, width]``."""
        self.values: list[Tensor] = []
        """The same; narrower keys or values have zeros behind them."""
        for shape in shapes:
            page = (num_pages, page_size, shape.kv_heads, page_width(shape))
            self.keys.append(torch.zeros(page, dtype=dtype, device=device))
            self.values.append(torch.zeros(page, dtype=dtype, device=device))

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


class PageStep:
    """Where the rows of one packed forward lie, in the order of its plan.

    All that the step needs from the host is one array of 32-bit integers, copied once.
    """

    reads_more = False
    """No row reads what is not its own."""

    def __init__(self, pool: PagePool, plan: Plan) -> None:
        """Lay out a plan; its pages are in any order."""
        self.pool = pool
        size = pool.page_size
        spans = plan.spans
        ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        wanted: list[int] = []
        self.ends: list[int] = []
        """Cumulative rows of the sequences."""
        self.lengths: list[int] = []
        """Keys of each sequence, those of the step included."""
        for span in spans:
            first, end = span.start, span.start + len(span.token_ids)
            ids += span.token_ids
            positions += range(first, end)
            slots += [span.pages[place // size] * size + place % size for place in range(first, end)]
            self.ends.append(len(ids))
            self.lengths.append(end)
            wanted += range(len(ids) - span.wanted, len(ids))
        self.last_rows = [end - 1 for end in self.ends]
        """Of each span; a span's rows are a run."""
        self.pages = [span.pages for span in spans]
        self.single = len(ids) == len(spans)
        """Each sequence has one row."""
        width = max(-(-length // size) for length in self.lengths)
        table = [page for pages in self.pages for page in table_row(pages, 0, width)]
        parts = [ids, positions, slots, wanted, table, [0, *self.ends], self.lengths]
        joined = pool.given([number for part in parts for number in part])
        rows, places, self.slots, self.wanted, blocks, self.cumulative, self.used = torch.split(
            joined, [len(part) for part in parts]
        )
        self.token_ids = rows[None]
        """``[1, tokens]``."""
        self.positions = places[None]
        """``[1, tokens]``."""
        self.block_table = blocks.view(len(spans), width)
        """``[sequences, blocks of the longest]``."""
        self.rotary: tuple[Tensor, Tensor] | None = None
        """Cosines and sines as the first replaced layer has laid them out, for those after it."""


def widened(rows: Tensor, width: int) -> Tensor:
    """``[tokens, heads, dim]`` with zeros behind, contiguous: zeros add nothing to a product."""
    return rows.contiguous() if rows.shape[-1] == width else functional.pad(rows, (0, width - rows.shape[-1]))


def table_row(pages: Sequence[int], first: int, width: int) -> list[int]:
    """``width`` pages from the first one; where a sequence has fewer, block 0, which is not read."""
    row = list(pages[first : first + width])
    return row + [0] * (width - len(row))
