"""Attention of encoders, in pieces of its rows, between which an encoder may stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

ENCODER_ATTENTION = "mindspec_encoder"
"""The name under which transformers finds :func:`encoder_attention`, for encoders that bring no mask."""
PAUSE = "mindspec_pause"
"""Attribute of an attention module: what is called before each piece, while there is such a thing."""
PIECE_PRODUCTS = 50_000_000
"""Multiplications of queries and keys in one piece."""
_LEAST_ROWS = 32


def register_encoder_attention() -> None:
    """Tell transformers about it; again is fine."""
    AttentionInterface.register(ENCODER_ATTENTION, encoder_attention)


def encoder_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Every row attends to all.

    Args:
        module: the attention module.
        query: ``[1, heads, rows, dim]``, as many heads as keys and values have.
        key: ``[1, heads, keys, dim]``.
        value: the same.
        attention_mask: must be None.
        scaling: factor on the scores.
        _: dropout, which there is not, and lengths for other implementations.

    Returns:
        ``[1, rows, heads, dim]``, and no weights.

    Raises:
        ValueError: there is a mask.
    """
    if attention_mask is not None:
        raise ValueError(f"{type(module).__name__} brings an attention mask")
    pause: Callable[[object], None] = getattr(module, PAUSE, lambda _: None)
    heads, keys, dim = key.shape[1:]
    count = max(_LEAST_ROWS, PIECE_PRODUCTS // (heads * keys * dim))
    pieces = torch.split(query, count, dim=2)
    out = []
    for number, piece in enumerate(pieces):
        pause((keys, number == len(pieces) - 1))
        out.append(scaled_dot_product_attention(piece, key, value, scale=scaling))
    return torch.cat(out, dim=2).transpose(1, 2), None
