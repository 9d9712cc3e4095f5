"""Matrix products with a weight that is put into oneDNN's own order once, at load."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.lora_delta import Delta
from engine.parallel.shards import local, sum_over_ranks

_PACKED_FOR_ROWS = 16
"""The row count that oneDNN is told when it orders a weight; other counts run as fast."""


def packs(dtype: torch.dtype) -> bool:
    """Whether this machine's oneDNN computes with ordered weights of a dtype."""
    if not torch._C._has_mkldnn:
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    if dtype == torch.float16:
        return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
    return dtype == torch.float32


class Product(nn.Module):
    """``x @ weight.T + bias``, of one linear layer or of several that read the same rows.

    A product on oneDNN's order of the weight takes about half the time of ``functional.linear`` at few rows. Where
    oneDNN cannot, it is a plain linear layer. Of weights that are shared out over ranks it has this rank's part, and it
    makes the sum over the ranks where there is one.
    """

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        """The outputs of ``layers`` one after the other; their weights are copied."""
        super().__init__()
        weights: list[Tensor] = [local(layer.weight).detach() for layer in layers]
        weight = torch.cat(weights) if len(layers) > 1 else weights[0].contiguous()
        biases = [
            part.new_zeros(part.shape[0]) if layer.bias is None else local(layer.bias).detach()
            for layer, part in zip(layers, weights, strict=True)
        ]
        self.bias = torch.cat(biases) if any(layer.bias is not None for layer in layers) else None
        self._sum = sum_over_ranks(layers[0])
        self.out_features, self.in_features = weight.shape
        self.delta: Delta | None = None
        """What adapters add, while there are any."""
        self.is_packed = weight.device.type == "cpu" and packs(weight.dtype)
        self._weight: Tensor = (
            torch.ops.mkldnn._reorder_linear_weight(weight, _PACKED_FOR_ROWS) if self.is_packed else weight
        )

    def forward(self, rows: Tensor) -> Tensor:
        """``[..., in_features]`` to ``[..., out_features]``."""
        product = self._multiply(rows)
        if self.delta is not None and self.delta.rows.parts:
            self.delta.add(rows, product)
        return product

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        """The product and ``other`` ``[rows, out_features]`` added, on oneDNN in one operator with one rounding."""
        total = self._multiply_and_add(rows, other)
        if self.delta is not None and self.delta.rows.parts:
            self.delta.add(rows, total)
        return total

    def _multiply(self, rows: Tensor) -> Tensor:
        if self._sum is None:
            return self.part(rows, self.bias)
        product = self.part(rows, None)
        self._sum(product)
        if self.bias is not None:
            product += self.bias
        return product

    def part(self, rows: Tensor, bias: Tensor | None) -> Tensor:
        """What this rank's part of the weight gives, and a bias: ``[..., inputs here]`` to ``[..., outputs here]``."""
        product: Tensor = (
            torch.ops.mkldnn._linear_pointwise.default(rows, self._weight, bias, "none", [], "")
            if self.is_packed
            else functional.linear(rows, self._weight, bias)
        )
        return product

    def _multiply_and_add(self, rows: Tensor, other: Tensor) -> Tensor:
        total: Tensor = (
            torch.ops.mkldnn._linear_pointwise.binary(rows, other, self._weight, self.bias, "add")
            if self.is_packed and self._sum is None
            else self._multiply(rows).add_(other)
        )
        return total

    def memory(self) -> tuple[int, int]:
        """Address and size in bytes of the weight that was copied; of size 0 for a plain one."""
        if not self.is_packed:
            return 0, 0
        return int(torch.ops.mkldnn.data_ptr(self._weight)), int(torch.ops.mkldnn._nbytes(self._weight))
