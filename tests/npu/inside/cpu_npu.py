"""The NPU's runner on CPU tensors: everything of it is real but the kernels behind torch_npu's operators."""

from __future__ import annotations

import copy
from typing import Any

import families

from engine.loader import LoadedModel
from engine.npu.runner import NpuRunner
from engine.torch_runner import TorchRunner, build


class CpuNpuRunner(NpuRunner):
    """Takes models on the CPU."""

    @classmethod
    def refuse(cls, loaded: LoadedModel, page_size: int) -> None:
        """Nothing is refused here."""

    @classmethod
    def pages(cls, shapes: Any, memory_bytes: int | None, share: float, page_size: int, dtype: Any) -> int:
        """There is no card to ask for its memory."""
        return super().pages(shapes, memory_bytes or 1 << 28, share, page_size, dtype)


def both(model: Any, **options: Any) -> tuple[NpuRunner, TorchRunner]:
    """The NPU's runner and the CPU's over copies of one model."""
    options = {"page_size": 128, "max_tokens": 128 * 24, **options}
    npu = build(families.loaded(copy.deepcopy(model)), kind=CpuNpuRunner, **options)
    assert isinstance(npu, NpuRunner)
    return npu, build(families.loaded(model), **options)
