"""Biases of norms that have none of their own: ModelSlim shifts outliers with them, and back in the layer behind."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def add_bias(norm: nn.Module) -> None:
    """Let a root mean square norm add a ``bias`` ``[width]`` to its output, which has no values yet."""
    weight: Any = norm.weight
    norm.bias = nn.Parameter(torch.empty_like(weight), requires_grad=False)
    norm.register_forward_hook(_added)


def bias_of(norm: Any) -> Tensor | None:
    """The bias of such a norm; None where it has none."""
    bias = getattr(norm, "bias", None)
    return None if bias is None else bias.detach()


def _added(norm: Any, _: Any, normed: Tensor) -> Tensor:
    shifted: Tensor = normed + norm.bias
    return shifted
