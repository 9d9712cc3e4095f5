"""The runner over the native step: whole forwards in one call, over pages that sequences may share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import byref
from weakref import finalize

import torch
from torch import Tensor

from engine.lora_config import LinearLayer
from engine.native.batch import Bounds, batch_arrays, checked_pages
from engine.native.library import Library, MappedMemory, ThreadPool
from engine.native.packing import PackedModel, window_of
from engine.native.pages_ahead import PagesAhead
from engine.native.selector import NativeSelector
from engine.plan import AdapterTensors, Plan
from engine.sampling.selector import Selector
from engine.step_threads import StepThreads
from engine.types import AdapterError, ModelInfo

_SLOT_BLOCK = 32
"""Slots of a page that attention reads together; BLOCK in src/tile.h."""
_NO_ADAPTERS = "The native CPU step cannot add adapters; --cpu-step torch can."


class NativeRunner:
    """The ``ModelRunner`` of the native step.

    A row's logits are the same bits whatever is computed beside it: alone or in company, at once or in pieces, on one
    thread or several, in whatever pages.
    """

    contiguous_pages = False
    same_bits = True

    def __init__(
        self,
        library: Library,
        pool: ThreadPool,
        packed: PackedModel,
        info: ModelInfo,
        *,
        num_pages: int,
        positions: int,
    ) -> None:
        """Serve a packed model.

        Args:
            library: the step's functions.
            pool: its threads.
            packed: the model.
            info: of the model.
            num_pages: pages of keys and values; they take memory as they are written.
            positions: so many have a rotation.

        Raises:
            MemoryError: the system gives no such room.
        """
        self.info = info
        self.page_size = int(packed.model.page)
        self.num_pages = num_pages
        self.bytes_per_page = page_bytes(packed, self.page_size)
        self._library = library
        self._pool = pool
        self._packed = packed
        self._threads = StepThreads(pool.threads)
        self.selector: Selector = NativeSelector(library, pool, self._threads.together)
        self._bounds = Bounds(self.page_size, num_pages, int(packed.model.vocab), positions)
        self.pages = MappedMemory(library, num_pages * self.bytes_per_page)
        self._ahead = PagesAhead(library, self.pages, self.bytes_per_page, num_pages)
        self._step = library.new_step(byref(packed.model), pool.handle, self.pages.address)
        if not self._step:
            raise MemoryError("the system gives no room for a step's rows")
        self._freed = finalize(self, library.free_step, self._step)

    def run(self, plan: Plan) -> Tensor:
        """See ``ModelRunner.run``.

        Raises:
            ValueError: an index in the plan is out of bounds; nothing was computed.
            MemoryError: there is no room for so many rows.
        """
        vocab = self._bounds.vocab
        if not plan.spans:
            return torch.empty(0, vocab)
        arrays = batch_arrays(plan, self._bounds)
        logits = torch.empty(len(arrays.wanted_rows), vocab)
        self._ahead.reach(max(arrays.pages))
        rows = len(arrays.token_ids)
        with self._threads.step(rows) as threads:
            failed = self._library.run_step(self._step, byref(arrays.as_c()), logits.data_ptr(), int(threads > 1))
        if failed:
            raise MemoryError(f"the system gives no room for a step of {rows} rows")
        return logits

    def copy_pages(self, source: Sequence[int], target: Sequence[int]) -> None:
        """See ``ModelRunner.copy_pages``.

        Raises:
            ValueError: a page is out of bounds or in both lists, or the lists differ in length.
        """
        sources, targets = (checked_pages(pages, self.num_pages) for pages in (source, target))
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} pages cannot be copied to {len(targets)}")
        both = sorted({*sources} & {*targets})
        if both:
            raise ValueError(f"page {both[0]} is both read and written")
        self._library.copy_pages(
            self.pages.address, self.bytes_per_page, sources.buffer_info()[0], targets.buffer_info()[0], len(sources)
        )

    def copy_beginning(self, source: int, target: int, tokens: int) -> None:
        """See ``ModelRunner.copy_beginning``.

        Raises:
            ValueError: a page is out of bounds, or it has not so many tokens.
        """
        checked_pages((source, target), self.num_pages)
        if not 0 < tokens <= self.page_size:
            raise ValueError(f"a page has no {tokens} tokens, but {self.page_size}")
        model = self._packed.model
        dim, filled = int(model.head_dim), -(-tokens // _SLOT_BLOCK) * _SLOT_BLOCK
        # Keys and values of 32 slots lie together in either layout, see pages_ in src/step.h.
        cells = self.pages.tensor().view(torch.bfloat16)
        cells = cells.view(self.num_pages, int(model.layers * model.kv_heads), 2, self.page_size * dim)
        if source != target:
            cells[target, :, :, : filled * dim] = cells[source, :, :, : filled * dim]
        # Attention reads whole blocks, and gives the slots behind the last token weight 0: they must be finite.
        values = cells[target, :, 1, : filled * dim].view(-1, filled // 2, dim, 2)
        values[:, (tokens + 1) // 2 :] = 0
        if tokens % 2:
            values[:, tokens // 2, :, 1] = 0

    def adapter_layers(self) -> Mapping[str, LinearLayer]:
        """See ``ModelRunner.adapter_layers``. Raises AdapterError always."""
        raise AdapterError(_NO_ADAPTERS)

    def load_adapter(self, name: str, tensors: AdapterTensors) -> int:
        """See ``ModelRunner.load_adapter``. Raises AdapterError always."""
        raise AdapterError(_NO_ADAPTERS)

    def unload_adapter(self, adapter: int) -> None:
        """There is none."""

    @property
    def windows(self) -> list[int | None]:
        """How far each layer looks back; None sees all."""
        return [layer.window or None for layer in self._packed.layers]

    def set_windows(self, windows: Sequence[int | None]) -> None:
        """Change how far each layer looks back; for the comparison at load."""
        for layer, window in zip(self._packed.layers, windows, strict=True):
            layer.window = window_of(window, self._bounds.positions)
        step = self._library.new_step(byref(self._packed.model), self._pool.handle, self.pages.address)
        if not step:
            raise MemoryError("the system gives no room for a step's rows")
        self._freed()
        self._step = step
        self._freed = finalize(self, self._library.free_step, step)


def page_bytes(packed: PackedModel, page_size: int) -> int:
    """Memory of one page, all layers."""
    model = packed.model
    return int(model.layers * model.kv_heads * model.head_dim) * 2 * 2 * page_size
