"""Every call of a torch_npu operator, each with the layout that it needs and the source of its rules.

The rules are those of the operators' own documentation in the package (``help(torch_npu.npu_rms_norm)`` and so on, of
2.13.0). Tests hold each call to the schemas of torch_npu 2.10.0 and 2.13.0, and run it on kernels that refuse what
the documentation forbids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch_npu
from torch import Tensor

BLOCK_SIZE = 128
"""Tokens of a page: the least that paged attention takes for queries of more than one row."""
MASK_WIDTH = 2048
"""The side of the one mask from which the operator cuts what a causal or a banded step needs."""
MOST_OUTPUTS = 65_535
"""The largest number of rows or columns of a quantised weight."""
MOST_TOP_K = 1024
"""The largest top-k of the operator."""
_CAUSAL = 3
_BAND = 4
_OWN_MASK = 0


@dataclass(frozen=True, slots=True)
class PagedRows:
    """Where the rows of a step are, and what they read: the part of an attention call that all layers share."""

    query_ends: list[int]
    """Cumulative rows: the first sequence's count, then the sum with the second's, and so on."""
    key_lengths: list[int]
    """Keys of each sequence, those of the step included."""
    block_table: Tensor
    """int32 ``[sequences, blocks of the longest]``."""
    mask: Tensor
    """int8 ``[2048, 2048]``, 1 above the diagonal."""


@dataclass(frozen=True, slots=True)
class MaskedRows:
    """The same for a step of single rows that have a mask of their own."""

    key_lengths: list[int]
    """Keys of each sequence in the blocks that the table has."""
    block_table: Tensor
    """int32 ``[sequences, blocks]``."""
    mask: Tensor
    """bool ``[sequences, 1, 1, blocks * 128]``, true for what is not seen."""


def causal_mask(device: torch.device) -> Tensor:
    """``PagedRows.mask``."""
    return torch.ones(MASK_WIDTH, MASK_WIDTH, dtype=torch.int8, device=device).triu(1)


def store(key: Tensor, value: Tensor, keys: Tensor, values: Tensor, slots: Tensor) -> None:
    """Write rows into the pages.

    Args:
        key: contiguous ``[tokens, kv_heads, key_dim]``.
        value: contiguous ``[tokens, kv_heads, value_dim]``.
        keys: pages, ``[blocks, 128, kv_heads, key_dim]``.
        values: the same for values.
        slots: int32 ``[tokens]``, block * 128 + place in it; no two are equal.
    """
    # "Norm" is the order of plain tensors; the operator's own default is a blocked one.
    torch_npu.npu_scatter_pa_kv_cache(key, value, keys, values, slots, cache_mode="Norm")


def attend(
    query: Tensor, keys: Tensor, values: Tensor, rows: PagedRows, scale: float, window: int | None, sinks: Tensor | None
) -> Tensor:
    """Attention of rows over pages, each row to all keys before it and its own, or to the last ``window`` of them.

    Args:
        query: contiguous ``[tokens, heads, key_dim]``.
        keys: pages, ``[blocks, 128, kv_heads, key_dim]``.
        values: the same for values.
        rows: the step.
        scale: factor on the scores.
        window: keys that a row sees, its own included; None: all.
        sinks: one score per head that takes probability and gives no value, ``[heads]``.

    Returns:
        ``[tokens, heads, value_dim]``.
    """
    blocks, size, kv_heads, _ = keys.shape
    shared: dict[str, Any] = {
        "atten_mask": rows.mask,
        "block_table": rows.block_table,
        "input_layout": "TND",
        "block_size": size,
        "num_key_value_heads": kv_heads,
        # Counted from the last key: a window of one token looks back at none.
        **({"sparse_mode": _CAUSAL} if window is None else
           {"sparse_mode": _BAND, "pre_tokens": window - 1, "next_tokens": 0}),
    }  # fmt: skip
    paged = keys.view(blocks, size, -1), values.view(blocks, size, -1)
    if sinks is None:
        out, _ = torch_npu.npu_fused_infer_attention_score(
            query, *paged, actual_seq_lengths=rows.query_ends, actual_seq_lengths_kv=rows.key_lengths,
            num_heads=query.shape[1], scale=scale, **shared,
        )  # fmt: skip
    else:
        out, _ = torch_npu.npu_fused_infer_attention_score_v2(
            query, *paged, actual_seq_qlen=rows.query_ends, actual_seq_kvlen=rows.key_lengths,
            num_query_heads=query.shape[1], softmax_scale=scale, learnable_sink=sinks.bfloat16(), **shared,
        )  # fmt: skip
    attended: Tensor = out
    return attended


def attend_masked(
    query: Tensor, keys: Tensor, values: Tensor, rows: MaskedRows, scale: float, sinks: Tensor | None
) -> Tensor:
    """Attention of one row a sequence over pages, with a mask of its own.

    In a step of single rows the operator pays no heed to its windows, so windowed layers say themselves what is seen.
    Nor does it take sinks in this layout; they are put in afterwards: a score s beside scores whose exponentials sum to
    exp(lse) leaves the part exp(lse) / (exp(lse) + exp(s)) of what they give together.

    Args:
        query: contiguous ``[sequences, heads, key_dim]``.
        keys: pages, ``[blocks, 128, kv_heads, key_dim]``.
        values: the same for values.
        rows: the step.
        scale: factor on the scores.
        sinks: see ``attend``.

    Returns:
        ``[sequences, heads, value_dim]``.
    """
    blocks, size, kv_heads, _ = keys.shape
    out, sums = torch_npu.npu_fused_infer_attention_score(
        query.unsqueeze(1), keys.view(blocks, size, -1), values.view(blocks, size, -1), atten_mask=rows.mask,
        actual_seq_lengths_kv=rows.key_lengths, block_table=rows.block_table, num_heads=query.shape[1], scale=scale,
        input_layout="BSND", num_key_value_heads=kv_heads, sparse_mode=_OWN_MASK, block_size=size,
        softmax_lse_flag=sinks is not None,
    )  # fmt: skip
    attended: Tensor = out[:, 0]
    if sinks is None:
        return attended
    part = torch.sigmoid(sums[:, :, 0] - sinks.float()[:, None])  # [sequences, heads, 1]
    return attended * part.to(attended.dtype)


def rms_norm(rows: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """``rows * gain / sqrt(mean(rows ** 2) + epsilon)`` over the last dimension; both in one dtype."""
    normed: Tensor = torch_npu.npu_rms_norm(rows, gain, epsilon)[0]
    return normed


def add_rms_norm(rows: Tensor, residual: Tensor, gain: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The norm of the sum, and the sum."""
    normed, _, total = torch_npu.npu_add_rms_norm(rows, residual, gain, epsilon)
    return normed, total


def rotate(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotary positions, halves apart: ``heads`` ``[1, tokens, heads, dim]``, the others ``[1, tokens, 1, dim]``."""
    rotated: Tensor = torch_npu.npu_rotary_mul(heads, cosines, sines, rotary_mode="half")
    return rotated


def gated(gate_up: Tensor) -> Tensor:
    """``silu(first half) * second half`` of the last dimension."""
    product: Tensor = torch_npu.npu_swiglu(gate_up, dim=-1)
    return product


def int8_product(rows: Tensor, weight: Tensor, scales: Tensor, bias: Tensor | None) -> Tensor:
    """``rows @ (weight * scales) + bias``, with each row rounded to int8 multiples of its largest number / 127.

    Args:
        rows: float16 or bfloat16 ``[..., inputs]``.
        weight: int8, contiguous ``[inputs, outputs]``, 65,535 of each at most.
        scales: float32 ``[outputs]``.
        bias: float32 ``[outputs]``.

    Returns:
        ``[..., outputs]`` in the dtype of the rows.
    """
    quantised, row_scales = torch_npu.npu_dynamic_quant(rows.reshape(-1, rows.shape[-1]))
    product: Tensor = torch_npu.npu_quant_matmul(
        quantised, weight, scales, pertoken_scale=row_scales, bias=bias, output_dtype=rows.dtype
    )
    return product.view(*rows.shape[:-1], -1)


def keep_likeliest(scores: Tensor, top_k: Tensor | None, top_p: Tensor | None) -> Tensor:
    """Scores with everything beyond top-k, then beyond top-p of what is left, at minus infinity.

    Args:
        scores: float32 ``[rows, vocab]``.
        top_k: int32 ``[rows]``, 1..1024 and at most vocab; what equals the last one stays as well.
        top_p: float32 ``[rows]``, 0..1.
    """
    if top_k is None and top_p is None:
        return scores
    kept: Tensor = torch_npu.npu_top_k_top_p(scores, top_p, top_k)
    return kept
