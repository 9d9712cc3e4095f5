"""Attention on a CPU: the pool of keys and values, and the steps that write and read it in place."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.attention.kernels import flash_chunk, flash_rows, gathered_rows, needs_scores, product_chunk, scored_chunk
from engine.attention.layout import Group, alone, block_mask, gathered, group_mask, group_rows
from engine.attention.registry import LayerRules, LayerShape
from engine.plan import Plan

_ALIGNMENT = 64
_GATHER_ROWS = 4
"""So many single rows in bfloat16 attend over copied pages; see ``kernels.gathered_rows``."""
_PARALLEL_FROM = 4 << 20
"""Multiplications of queries and keys in one layer from which single rows attend on several threads. Threads sleep
between operators, and waking them some six times a layer costs more than a second one saves on less (16 rows of 200
tokens: 21 ms a step against 14)."""


def _lazy_zeros(size: int) -> Tensor:
    """``size`` zero bytes that take memory only as they are written.

    Not in huge pages: with them each head's run of slots takes 2 MiB at its first token, and reads gain nothing.
    """
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    return torch.frombuffer(mmap.mmap(-1, max(size, 1), **private), dtype=torch.uint8)


class CpuPool:
    """Keys and values of all layers, head-major, so that a sequence's run of slots is a view for every head.

    A slot is one token's place; page p has the slots ``p * page_size`` and on.
    """

    def __init__(self, shapes: Sequence[LayerShape], slots: int, dtype: torch.dtype) -> None:
        """Room for ``slots`` tokens in each layer of ``shapes``."""
        self.slots = slots
        self.dtype = dtype
        sizes = [shape.values_per_token * slots * dtype.itemsize for shape in shapes]
        places = [-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes]
        memory = _lazy_zeros(sum(places))
        self.keys: list[Tensor] = []
        """Per layer ``[kv_heads, slots, key_dim]``."""
        self.values: list[Tensor] = []
        """Per layer ``[kv_heads, slots, value_dim]``."""
        self.joined: list[Tensor | None] = []
        """Per layer ``[2 * kv_heads, slots, dim]``, the keys' heads first; None where the two dims differ."""
        begin = 0
        for shape, size, place in zip(shapes, sizes, places, strict=True):
            whole = memory[begin : begin + size].view(dtype)
            of_keys = shape.kv_heads * slots * shape.key_dim
            keys, values = whole[:of_keys], whole[of_keys:]
            self.keys.append(keys.view(shape.kv_heads, slots, shape.key_dim))
            self.values.append(values.view(shape.kv_heads, slots, shape.value_dim))
            same = shape.key_dim == shape.value_dim
            self.joined.append(whole.view(2 * shape.kv_heads, slots, shape.key_dim) if same else None)
            begin += place

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy ``count`` slots of all layers; the two runs may not overlap."""
        for pool in (*self.keys, *self.values):
            pool[:, target : target + count] = pool[:, source : source + count]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Where a prefill chunk's rows stand, and its sequence's extent in the pool."""

    rows: slice
    extent: slice
    """From the sequence's first token to the chunk's last."""
    written: slice
    """The chunk's own tokens."""


@dataclass(frozen=True, slots=True)
class _RowCall:
    """One attention call over single rows."""

    rows: slice
    first_slot: int
    """Of the first key that is read for the first row."""
    stride: int
    keys: int
    mask: Tensor | None
    """``[rows, 1, 1, keys]``, or ``[1, rows, 1, keys]`` with ``pages``."""
    pages: Tensor | None = None
    """The pages to copy, for calls that do; ``[rows * pages of a row]``."""

    def view(self, pool: Tensor) -> Tensor:
        """The keys or values of the rows, ``[rows, kv_heads, keys, dim]``, of ``[kv_heads, slots, dim]``."""
        head, slot, one = pool.stride()
        size = (self.rows.stop - self.rows.start, pool.shape[0], self.keys, pool.shape[2])
        offset = pool.storage_offset() + self.first_slot * slot
        return pool.as_strided(size, (self.stride * slot, head, slot, one), offset)


class CpuStep:
    """One packed forward: its input rows, and each layer's attention over them.

    Spans of one token come first, ordered so that each group of them is a run, then the chunks; ``wanted`` undoes the
    order. In a group the shorter contexts are read as far as the longest and masked there, so the last bits of a row
    may depend on its company, in every dtype.
    """

    def __init__(self, pool: CpuPool, plan: Plan, page_size: int, *, grouped: bool = True) -> None:
        """Lay out a plan whose spans have contiguous pages. ``grouped`` lets single rows share attention calls."""
        self._pool = pool
        spans = plan.spans
        begins = [span.pages[0] * page_size for span in spans]
        # Only where logits show what a row read: one without any attends by itself, as a chunk does.
        single = [index for index, span in enumerate(spans) if len(span.token_ids) == 1 and span.wanted]
        lengths = [spans[index].start + 1 for index in single]
        places = [begins[index] for index in single]
        self._page_size = page_size
        self._threads = torch.get_num_threads()
        self._gathers = grouped and pool.dtype == torch.bfloat16 and len(single) >= _GATHER_ROWS
        if not grouped:
            groups = alone(places, lengths)
        else:
            groups = gathered(places, lengths) if self._gathers else group_rows(places, lengths, pool.slots)
        order = [member for group in groups for member in group.members]
        self.reads_more = grouped and (self._gathers or len(groups) < len(single))
        """Whether more is read for a row, and masked, than its context: numbers that are not finite then spread."""
        self._groups = groups
        self._single_lengths = [lengths[member] for member in order]
        self._single_begins = [places[member] for member in order]
        self._single_slots = torch.tensor(
            [place + length - 1 for place, length in zip(self._single_begins, self._single_lengths, strict=True)],
            dtype=torch.int64,
        )
        last_row = {single[member]: row for row, member in enumerate(order)}
        ids = [spans[single[member]].token_ids[0] for member in order]
        positions = [length - 1 for length in self._single_lengths]
        self._chunks: list[_Chunk] = []
        for index, span in enumerate(spans):
            if index in last_row:
                continue
            end = span.start + len(span.token_ids)
            begin = begins[index]
            rows = slice(len(ids), len(ids) + len(span.token_ids))
            self._chunks.append(_Chunk(rows, slice(begin, begin + end), slice(begin + span.start, begin + end)))
            ids += span.token_ids
            positions += range(span.start, end)
            last_row[index] = rows.stop - 1
        self.token_ids = torch.tensor([ids], dtype=torch.int64)
        """``[1, tokens]``."""
        self.positions = torch.tensor([positions], dtype=torch.int64)
        """``[1, tokens]``."""
        self.last_rows = [last_row[index] for index in range(len(spans))]
        """Of each span; a span's rows are a run."""
        lasts = [(last_row[index] + 1, span.wanted) for index, span in enumerate(spans)]
        wanted = [row for end, count in lasts for row in range(end - count, end)]
        self.wanted = torch.tensor(wanted, dtype=torch.int64)
        """Rows whose logits are wanted, in span order: ``[wanted rows]``."""
        self.rotary: tuple[Tensor, Tensor] | None = None
        """What the first replaced layer makes of the model's cosines and sines, for those after it."""
        self._calls: dict[int | None, list[_RowCall]] = {}
        self._masks: dict[tuple[int, int, int | None], Tensor] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, rules: LayerRules) -> Tensor:
        """See ``Step.attend``."""
        self._write(self._pool.keys[layer], key)
        self._write(self._pool.values[layer], value)
        return self._read(layer, query, rules)

    def attend_joined(self, layer: int, query: Tensor, keys_values: Tensor, rules: LayerRules) -> Tensor:
        """The same with keys and values in one, ``[tokens, 2 * kv_heads, dim]``, keys first.

        Raises:
            ValueError: the layer's keys and values differ in width.
        """
        pool = self._pool.joined[layer]
        if pool is None:
            raise ValueError(f"layer {layer} has keys and values of different widths")
        self._write(pool, keys_values)
        return self._read(layer, query, rules)

    def _write(self, pool: Tensor, rows: Tensor) -> None:
        """Store ``rows`` ``[tokens, heads, dim]`` in ``pool`` ``[heads, slots, dim]``."""
        by_head = rows.transpose(0, 1)
        count = len(self._single_begins)
        if count:
            pool.index_copy_(1, self._single_slots, by_head if not self._chunks else by_head[:, :count])
        for chunk in self._chunks:
            pool[:, chunk.written] = by_head[:, chunk.rows]

    def _read(self, layer: int, query: Tensor, rules: LayerRules) -> Tensor:
        """Attention over what is stored: ``[tokens, heads, key_dim]`` to ``[tokens, heads, value_dim]``."""
        keys, values = self._pool.keys[layer], self._pool.values[layer]
        tokens, heads, key_dim = query.shape
        kv_heads, _, value_dim = values.shape
        query = query.view(tokens, kv_heads, heads // kv_heads, key_dim)  # [tokens, kv_heads, group, key_dim]
        scored = needs_scores(rules, key_dim, value_dim)
        if not scored and not self._chunks and len(self._groups) == 1:
            (call,) = self._row_calls(rules.window)
            return self._attend_rows(call, query, keys, values, rules).reshape(tokens, heads, value_dim)
        out = query.new_empty(tokens, kv_heads, heads // kv_heads, value_dim)
        if scored:
            for row, (begin, length) in enumerate(zip(self._single_begins, self._single_lengths, strict=True)):
                seen = slice(begin, begin + length)
                one = slice(row, row + 1)
                scored_chunk(query[one], keys[:, seen], values[:, seen], rules, self._mask, out[one])
        else:
            for call in self._row_calls(rules.window):
                out[call.rows] = self._attend_rows(call, query[call.rows], keys, values, rules)
        by_products = product_chunk if query.dtype == torch.bfloat16 else flash_chunk
        attend_chunk = scored_chunk if scored else by_products
        for chunk in self._chunks:
            extent, rows = chunk.extent, chunk.rows
            attend_chunk(query[rows], keys[:, extent], values[:, extent], rules, self._mask, out[rows])
        return out.flatten(1, 2)

    def _attend_rows(self, call: _RowCall, query: Tensor, keys: Tensor, values: Tensor, rules: LayerRules) -> Tensor:
        """One call: ``[rows, kv_heads, group, dim]`` to the same."""
        few = self._threads > 1 and query.numel() * call.keys < _PARALLEL_FROM
        if few:
            torch.set_num_threads(1)
        try:
            if call.pages is None or call.mask is None:
                return flash_rows(query, call.view(keys), call.view(values), call.mask, rules.scale)
            by_page = (keys.shape[0], -1, self._page_size * keys.shape[2])
            return gathered_rows(query, keys.view(by_page), values.view(by_page), call.pages, call.mask, rules.scale)
        finally:
            if few:
                torch.set_num_threads(self._threads)

    def _row_calls(self, window: int | None) -> list[_RowCall]:
        """The calls over single rows in layers with this window, made once a step."""
        calls = self._calls.get(window)
        if calls is None:
            calls, row = [], 0
            make = self._gather_call if self._gathers else self._view_call
            for group in self._groups:
                calls.append(make(group, slice(row, row + len(group.members)), window))
                row += len(group.members)
            self._calls[window] = calls
        return calls

    def _view_call(self, group: Group, rows: slice, window: int | None) -> _RowCall:
        lengths = self._single_lengths[rows]
        shortest, longest = min(lengths), group.length
        first_key = 0 if window is None else max(0, shortest - window)
        uneven = shortest < longest
        mask = group_mask(lengths, first_key, longest, window, self._pool.dtype) if uneven else None
        return _RowCall(rows, group.first_slot + first_key, group.stride, longest - first_key, mask)

    def _gather_call(self, group: Group, rows: slice, window: int | None) -> _RowCall:
        size, lengths = self._page_size, self._single_lengths[rows]
        first_page = 0 if window is None else max(0, min(lengths) - window) // size
        last_page = -(-group.length // size)
        pages: list[int] = []
        for begin, length in zip(self._single_begins[rows], lengths, strict=True):
            own, held = begin // size, -(-length // size)
            # A row with fewer pages has its first one in their place, which the mask hides.
            pages += [own + (page if page < held else 0) for page in range(first_page, last_page)]
        mask = group_mask(lengths, first_page * size, last_page * size, window, self._pool.dtype)
        count = (last_page - first_page) * size
        return _RowCall(rows, 0, 0, count, mask.view(1, len(lengths), 1, count), torch.tensor(pages))

    def _mask(self, rows: int, keys: int, window: int | None) -> Tensor:
        """A block's mask as a sum term ``[rows, keys]``, made once a step."""
        mask = self._masks.get((rows, keys, window))
        if mask is None:
            seen = block_mask(rows, keys, window)
            mask = torch.zeros(seen.shape, dtype=self._pool.dtype).masked_fill_(~seen, -torch.inf)
            self._masks[rows, keys, window] = mask
        return mask
