"""A linear layer with int8 weights, as it is loaded; what replaces it at load is held to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.quantised.arithmetic import int8_product


class Int8Linear(nn.Module):
    """``x @ (weight * weight_scale).T + bias``, with each row of ``x`` rounded to int8.

    Where ranks share out the inputs, each rounds its part of a row with a scale of its own: that costs no message, and
    errs less than one scale for the whole row, since none of them is larger. So the numbers depend on how many ranks
    there are; those of two are what one process computes that rounds both halves of such rows apart.
    """

    _hf_quantized_needs_local_tp = True
    """Says to transformers that ``forward`` takes this rank's parts of tensors, and leaves sums over ranks to it."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool) -> None:
        """A layer without values yet. Names and shapes are those that the files have."""
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.exact = False
        """Whether activations stay as they are; see ``exact_activations``."""
        self.faster: Callable[[Tensor, Tensor | None], Tensor] | None = None
        """Multiplies instead, by a weight of its own, and adds the bias that it is given."""
        self.weight = _parameter((out_features, in_features), torch.int8)
        self.weight_scale = _parameter((out_features, 1), torch.float32)
        self.bias = _parameter((out_features,), torch.float32) if bias else None

    def forward(self, rows: Tensor) -> Tensor:
        """``[..., in_features]`` to ``[..., out_features]``."""
        if self.faster is not None:
            return self.faster(rows, self.bias)
        if self.exact:
            weight = (self.weight * self.weight_scale).to(rows.dtype)
            return functional.linear(rows, weight, None if self.bias is None else self.bias.to(rows.dtype))
        return int8_product(rows, self.weight.t(), self.weight_scale[:, 0], self.bias)

    def drop_weight(self) -> None:
        """Forget what ``faster`` has of its own."""
        del self.weight, self.weight_scale


def is_quantised(module: nn.Module) -> bool:
    """Whether a module is such a layer or has one in it."""
    return any(isinstance(part, Int8Linear) for part in module.modules())


@contextmanager
def exact_activations(model: nn.Module) -> Iterator[None]:
    """Let these layers of a model multiply by activations as they are for a while: the same weights, as floats."""
    layers = [part for part in model.modules() if isinstance(part, Int8Linear)]
    for layer in layers:
        layer.exact = True
    try:
        yield
    finally:
        for layer in layers:
            layer.exact = False


def _parameter(shape: tuple[int, ...], dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=dtype), requires_grad=False)
