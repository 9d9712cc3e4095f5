"""The runner on an Ascend NPU: transformers' own forward, one packed step at a time, pages in any order."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.attention.npu import NpuPool, NpuStep, most_pages
from engine.attention.registry import LayerShape
from engine.forward import ModelMismatch
from engine.fused.npu_layers import NpuDecoderLayer, NpuFeedForward, NpuNorm
from engine.fused.replace import FusedKinds
from engine.loader import LoadedModel
from engine.npu import operators
from engine.paged_runner import PagedRunner
from engine.sampling.one_copy import OneCopySelector


class NpuRunner(PagedRunner):
    """The ``ModelRunner`` over a model on an NPU. The host waits for a step once, for the tokens that it drew."""

    card = "npu"
    fused = FusedKinds(NpuDecoderLayer, NpuFeedForward, NpuNorm)
    pool_type = NpuPool
    step_type = NpuStep

    def __init__(self, loaded: LoadedModel, shapes: Sequence[LayerShape], *, page_size: int, num_pages: int) -> None:
        """See ``TorchRunner``."""
        super().__init__(loaded, shapes, page_size=page_size, num_pages=num_pages)
        self.selector = OneCopySelector(operators.keep_likeliest, operators.MOST_TOP_K)

    @classmethod
    def refuse(cls, loaded: LoadedModel, page_size: int) -> None:
        """See ``TorchRunner.refuse``."""
        super().refuse(loaded, page_size)
        if page_size != operators.BLOCK_SIZE:
            raise ModelMismatch(f"pages on an NPU have {operators.BLOCK_SIZE} tokens, not {page_size}.")

    @classmethod
    def pages(
        cls, shapes: Sequence[LayerShape], memory_bytes: int | None, share: float, page_size: int, dtype: torch.dtype
    ) -> int:
        """See ``TorchRunner.pages``: no more than the operators can address."""
        return min(super().pages(shapes, memory_bytes, share, page_size, dtype), most_pages(shapes))
