"""Weights that are shared out over ranks: this rank's part of one, and the sum that a product with it needs.

A sharded weight is a DTensor, which says itself how it was cut; plain weights are whole. What makes
DTensors is not imported here, so that who has none does not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


def local(weight: Tensor) -> Tensor:
    """What this rank has of a weight or bias: all of a plain one."""
    to_local = getattr(weight, "to_local", None)
    part: Tensor = weight if to_local is None else to_local()
    return part


def outputs(layer: Any) -> int:
    """Outputs of a linear layer that this rank computes."""
    return int(local(layer.weight).shape[0])


def sum_over_ranks(layer: Any) -> Callable[[Tensor], object] | None:
    """What adds up the ranks' products in place, for a linear layer whose inputs are shared out; None for others."""
    weight: Any = layer.weight
    if not any(placement.is_shard(1) for placement in getattr(weight, "placements", ())):
        return None
    from torch.distributed import all_reduce

    group = weight.device_mesh.get_group()
    return lambda product: all_reduce(product, group=group)
