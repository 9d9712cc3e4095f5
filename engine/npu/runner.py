"""The runner on an Ascend NPU: transformers' own forward, one packed step at a time, pages in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engine.attention.npu import NpuPool, NpuStep, most_pages
from engine.attention.paged import page_bytes
from engine.attention.registry import LayerShape
from engine.forward import ModelMismatch
from engine.fused.npu_layers import NpuDecoderLayer, NpuFeedForward, NpuNorm
from engine.fused.replace import FusedKinds
from engine.loader import LoadedModel
from engine.npu import operators
from engine.npu.memory import pool_bytes
from engine.plan import Plan
from engine.sampling.one_copy import OneCopySelector
from engine.torch_runner import TorchRunner


class NpuRunner(TorchRunner):
    """The ``ModelRunner`` over a model on an NPU. The host waits for a step once, for the tokens that it drew."""

    contiguous_pages = False
    fused = FusedKinds(NpuDecoderLayer, NpuFeedForward, NpuNorm)

    def __init__(self, loaded: LoadedModel, shapes: Sequence[LayerShape], *, page_size: int, num_pages: int) -> None:
        """See ``TorchRunner``."""
        super().__init__(loaded, shapes, page_size=page_size, num_pages=num_pages)
        self.bytes_per_page = page_bytes(shapes, page_size, loaded.model.dtype)
        self.selector = OneCopySelector(operators.keep_likeliest, operators.MOST_TOP_K)

    @classmethod
    def refuse(cls, loaded: LoadedModel, page_size: int) -> None:
        """See ``TorchRunner.refuse``."""
        if loaded.model.device.type != "npu":
            raise ModelMismatch(f"this runner is for NPUs, and the model is on {loaded.model.device}.")
        if page_size != operators.BLOCK_SIZE:
            raise ModelMismatch(f"pages on an NPU have {operators.BLOCK_SIZE} tokens, not {page_size}.")

    @classmethod
    def pages(
        cls, shapes: Sequence[LayerShape], memory_bytes: int | None, share: float, page_size: int, dtype: torch.dtype
    ) -> int:
        """See ``TorchRunner.pages``: no more than the operators can address."""
        return min(pool_bytes(memory_bytes, share) // page_bytes(shapes, page_size, dtype), most_pages(shapes))

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
        return NpuPool(self.shapes, self.num_pages, self.page_size, dtype, self.model.device)

    def _run(self, plan: Plan) -> Tensor:
        return self._forward(NpuStep(self.pool, plan), plan)
