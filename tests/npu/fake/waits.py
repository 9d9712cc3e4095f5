"""Counts what makes the host wait for the device, in a step on fake tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Waits(TorchDispatchMode):
    """Counts operators that take a tensor of the device and give one of the host."""

    def __init__(self) -> None:
        """Nothing seen."""
        super().__init__()
        self.copies: list[tuple[str, torch.Size]] = []
        """Operator and shape of each."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and look at where its input and output lie."""
        out = func(*args, **(kwargs or {}))
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        made = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        if any(leaf.device.type == "npu" for leaf in given):
            self.copies += [(str(func), leaf.shape) for leaf in made if leaf.device.type == "cpu"]
        return out
