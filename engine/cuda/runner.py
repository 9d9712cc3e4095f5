"""The runner on a GPU: transformers' own forward, one packed step at a time, pages in any order."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.attention.cuda import PAGE_SIZE, CudaStep
from engine.attention.registry import LayerShape
from engine.forward import ModelMismatch
from engine.fused.layers import GatedFeedForward, Norm
from engine.fused.replace import FusedKinds
from engine.loader import LoadedModel
from engine.paged_runner import PagedRunner
from engine.sampling.one_copy import OneCopySelector, keep_by_sorting


class CudaRunner(PagedRunner):
    """The ``ModelRunner`` over a model on a GPU. The host waits for a step once, for the tokens that it drew."""

    card = "cuda"
    fused = FusedKinds(None, GatedFeedForward, Norm)
    step_type = CudaStep

    def __init__(self, loaded: LoadedModel, shapes: Sequence[LayerShape], *, page_size: int, num_pages: int) -> None:
        """See ``TorchRunner``."""
        super().__init__(loaded, shapes, page_size=page_size, num_pages=num_pages)
        self.selector = OneCopySelector(keep_by_sorting, loaded.info.vocab_size)

    @classmethod
    def refuse(cls, loaded: LoadedModel, page_size: int) -> None:
        """See ``TorchRunner.refuse``."""
        super().refuse(loaded, page_size)
        if loaded.model.dtype not in (torch.bfloat16, torch.float16):
            raise ModelMismatch(f"attention by page tables computes in half precision, not in {loaded.model.dtype}.")

    @classmethod
    def size_of_page(cls, asked: int) -> int:
        """See ``TorchRunner.size_of_page``: the next multiple of what the kernel reads."""
        return -(-asked // PAGE_SIZE) * PAGE_SIZE
