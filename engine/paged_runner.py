"""What the runners of accelerators share: pages in any order, and one wait of the host in a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engine import card_memory
from engine.attention.paged import PagePool, PageStep, page_bytes
from engine.attention.registry import LayerShape
from engine.forward import ModelMismatch
from engine.loader import LoadedModel
from engine.plan import Plan
from engine.torch_runner import TorchRunner


class PagedRunner(TorchRunner):
    """A ``TorchRunner`` on a card, which says what its pages and steps are."""

    contiguous_pages = False
    pool_type: type[PagePool] = PagePool
    step_type: Any
    """Made with the pool and a plan; a ``PageStep`` that attends."""

    def __init__(self, loaded: LoadedModel, shapes: Sequence[LayerShape], *, page_size: int, num_pages: int) -> None:
        """See ``TorchRunner``."""
        super().__init__(loaded, shapes, page_size=page_size, num_pages=num_pages)
        self.bytes_per_page = page_bytes(shapes, page_size, loaded.model.dtype)

    @classmethod
    def refuse(cls, loaded: LoadedModel, page_size: int) -> None:
        """See ``TorchRunner.refuse``."""
        if loaded.model.device.type != cls.card:
            raise ModelMismatch(f"this runner is for {cls.card} devices, and the model is on {loaded.model.device}.")

    @classmethod
    def pages(
        cls, shapes: Sequence[LayerShape], memory_bytes: int | None, share: float, page_size: int, dtype: torch.dtype
    ) -> int:
        """See ``TorchRunner.pages``."""
        assert cls.card is not None
        return card_memory.pool_bytes(memory_bytes, share, cls.card) // page_bytes(shapes, page_size, dtype)

    @torch.inference_mode()
    def run(self, plan: Plan) -> Tensor:
        """See ``ModelRunner.run``."""
        return self._run(plan)

    def copy_pages(self, source: Sequence[int], target: Sequence[int]) -> None:
        """See ``ModelRunner.copy_pages``."""
        self.pool.copy(source, target)

    def copy_beginning(self, source: int, target: int, tokens: int) -> None:
        """See ``ModelRunner.copy_beginning``."""
        if source != target:
            self.pool.copy_beginning(source, target, tokens)

    def _make_pool(self, dtype: torch.dtype) -> Any:
        return self.pool_type(self.shapes, self.num_pages, self.page_size, dtype, self.model.device)

    def _run(self, plan: Plan) -> Tensor:
        step: PageStep = self.step_type(self.pool, plan)
        return self._forward(step, plan)
