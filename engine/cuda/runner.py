"""The runner on a GPU: transformers' own forward, one packed step at a time, pages in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engine.attention.cuda import PAGE_SIZE, CudaStep
from engine.attention.paged import PagePool, page_bytes
from engine.attention.registry import LayerShape
from engine.forward import ModelMismatch
from engine.fused.layers import GatedFeedForward, Norm
from engine.fused.replace import FusedKinds
from engine.loader import LoadedModel
from engine.plan import Plan
from engine.sampling.one_copy import OneCopySelector, keep_by_sorting
from engine.torch_runner import TorchRunner

RESERVE_BYTES = 1 << 30
"""Left alone, for the rows of a step and for what the runtime takes later."""
SHARE = 0.9
"""Of what is free once the weights are loaded, beyond the reserve."""


class CudaRunner(TorchRunner):
    """The ``ModelRunner`` over a model on a GPU. The host waits for a step once, for the tokens that it drew."""

    contiguous_pages = False
    fused = FusedKinds(None, GatedFeedForward, Norm)

    def __init__(self, loaded: LoadedModel, shapes: Sequence[LayerShape], *, page_size: int, num_pages: int) -> None:
        """See ``TorchRunner``."""
        super().__init__(loaded, shapes, page_size=page_size, num_pages=num_pages)
        self.bytes_per_page = page_bytes(shapes, page_size, loaded.model.dtype)
        self.selector = OneCopySelector(keep_by_sorting, loaded.info.vocab_size)

    @classmethod
    def refuse(cls, loaded: LoadedModel, page_size: int) -> None:
        """See ``TorchRunner.refuse``."""
        if loaded.model.device.type != "cuda":
            raise ModelMismatch(f"this runner is for GPUs, and the model is on {loaded.model.device}.")
        if loaded.model.dtype not in (torch.bfloat16, torch.float16):
            raise ModelMismatch(f"attention by page tables computes in half precision, not in {loaded.model.dtype}.")

    @classmethod
    def size_of_page(cls, asked: int) -> int:
        """See ``TorchRunner.size_of_page``: the next multiple of what the kernel reads."""
        return -(-asked // PAGE_SIZE) * PAGE_SIZE

    @classmethod
    def pages(
        cls, shapes: Sequence[LayerShape], memory_bytes: int | None, share: float, page_size: int, dtype: torch.dtype
    ) -> int:
        """See ``TorchRunner.pages``."""
        if memory_bytes is None:
            free, _ = torch.cuda.mem_get_info()
            memory_bytes = int(max(0, free - RESERVE_BYTES) * SHARE * share)
        return memory_bytes // page_bytes(shapes, page_size, dtype)

    def run(self, plan: Plan) -> Tensor:
        """See ``ModelRunner.run``."""
        with torch.inference_mode():
            return self._run(plan)

    def copy_pages(self, source: Sequence[int], target: Sequence[int]) -> None:
        """See ``ModelRunner.copy_pages``."""
        self.pool.copy(source, target)

    def copy_beginning(self, source: int, target: int, tokens: int) -> None:
        """See ``ModelRunner.copy_beginning``."""
        if source != target:
            self.pool.copy_beginning(source, target, tokens)

    def _make_pool(self, dtype: torch.dtype) -> Any:
        return PagePool(self.shapes, self.num_pages, self.page_size, dtype, self.model.device)

    def _run(self, plan: Plan) -> Tensor:
        return self._forward(CudaStep(self.pool, plan), plan)
