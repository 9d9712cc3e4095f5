"""A linear layer with int8 weights, as it is loaded; what replaces it at load is held to it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.quantised.arithmetic import int8_product


class Int8Linear(nn.Module):
    """``x @ (weight * weight_scale).T + bias``, with each row of ``x`` rounded to int8."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool) -> None:
        """A layer without values yet. Names and shapes are those that the files have."""
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = _parameter((out_features, in_features), torch.int8)
        self.weight_scale = _parameter((out_features, 1), torch.float32)
        self.bias = _parameter((out_features,), torch.float32) if bias else None

    def forward(self, rows: Tensor) -> Tensor:
        """``[..., in_features]`` to ``[..., out_features]``."""
        return int8_product(rows, self.weight.t(), self.weight_scale[:, 0], self.bias)


def is_quantised(module: nn.Module) -> bool:
    """Whether a module is such a layer or has one in it."""
    return any(isinstance(part, Int8Linear) for part in module.modules())


def compared_as(module: nn.Module, dtype: torch.dtype) -> torch.dtype:
    """The dtype by whose rounding two ways to compute a module's output of ``dtype`` may differ.

    In float32 the last bit of an activation may decide to which of two int8 numbers it is rounded, and these differ by
    1/127 of the row's largest: as much as half precision leaves open.
    """
    return torch.bfloat16 if is_quantised(module) else dtype


def _parameter(shape: tuple[int, ...], dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=dtype), requires_grad=False)
