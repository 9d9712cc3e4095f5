"""Products with int8 weights: of one quantised layer, or of several that read the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from engine.fused.products import Product
from engine.parallel.shards import local, sum_over_ranks
from engine.quantised.arithmetic import int8_product
from engine.quantised.linear import Int8Linear


class Int8Product(Product):
    """``x @ (weight * scales).T + bias``, with each row of ``x`` rounded to int8 once for all layers."""

    def __init__(self, layers: Sequence[Int8Linear]) -> None:
        """The outputs of ``layers`` one after the other; their weights are copied."""
        nn.Module.__init__(self)
        # In the order of the product: a matrix in another one is slower, on CPUs and on NPUs.
        self.weight = torch.cat([local(layer.weight).detach() for layer in layers]).t().contiguous()  # [in, out]
        scales = [local(layer.weight_scale).detach()[:, 0] for layer in layers]
        self.scales = torch.cat(scales)  # [out]
        biases = [
            torch.zeros_like(part) if layer.bias is None else local(layer.bias).detach()
            for layer, part in zip(layers, scales, strict=True)
        ]
        self.bias = torch.cat(biases) if any(layer.bias is not None for layer in layers) else None
        self._sum = sum_over_ranks(layers[0])
        self.in_features, self.out_features = self.weight.shape
        self.delta = None
        self.is_packed = False

    def memory(self) -> tuple[int, int]:
        """See ``Product.memory``."""
        return self.weight.data_ptr(), self.weight.nbytes

    def part(self, rows: Tensor, bias: Tensor | None) -> Tensor:
        """See ``Product.part``."""
        return int8_product(rows, self.weight, self.scales, bias)

    def _multiply_and_add(self, rows: Tensor, other: Tensor) -> Tensor:
        return self._multiply(rows).add_(other)


def joined(layers: Sequence[Any], int8_product: type[Int8Product] = Int8Product) -> Product:
    """The product of linear layers that read the same rows, all of them quantised or none."""
    return int8_product(layers) if isinstance(layers[0], Int8Linear) else Product(layers)
