"""The NPU's runner over a model whose weights and pages are fake tensors on npu:0."""

from __future__ import annotations

from typing import Any

import families
import torch
from cpu_npu import CpuNpuRunner
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from engine.fused import products
from engine.npu.runner import NpuRunner
from engine.torch_runner import build


def fake_runner(model: Any, mode: FakeTensorMode, patch: Any) -> NpuRunner:
    """Built and checked on the CPU as usual, then moved: no weight keeps a value."""
    patch.setattr(products, "packs", lambda dtype: False)  # weights in oneDNN's order exist on CPUs alone
    runner = build(families.loaded(model), page_size=128, max_tokens=128 * 24, kind=CpuNpuRunner)
    assert isinstance(runner, NpuRunner)
    with mode:
        for module in runner.model.modules():
            _move(module)
        runner.pool = runner._make_pool(model.dtype)
        runner.pool._pins = False  # pinning asks the driver for memory, and there is none
    return runner


def _move(module: nn.Module) -> None:
    for name, parameter in module._parameters.items():
        if parameter is not None:
            module._parameters[name] = nn.Parameter(_fake(parameter), requires_grad=False)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = _fake(buffer)
    for name, value in vars(module).items():
        if isinstance(value, torch.Tensor):
            vars(module)[name] = _fake(value)
        for part in value if isinstance(value, list) else ():
            if isinstance(part, nn.Module):
                _move(part)


def _fake(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="npu:0")
