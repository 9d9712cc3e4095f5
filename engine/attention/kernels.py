"""Attention products on a CPU over views of the pool, with torch's own operators."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.attention.layout import blocks_of
from engine.attention.registry import LayerRules

# The operator behind scaled_dot_product_attention; called directly since it also gives the log-sum-exp of the scores.
_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default

_SCORED_ROWS = 1152
"""Rows of one block of :func:`product_chunk`, times heads."""
_LEAST_ROWS = 32

MaskMaker = Callable[[int, int, "int | None"], Tensor]
"""(rows, keys, window) to a sum term ``[rows, keys]`` in the pool's dtype; see ``layout.block_mask``."""


def needs_scores(rules: LayerRules, key_dim: int, value_dim: int) -> bool:
    """Whether a layer must see its scores, which torch's fused operator does not give."""
    return rules.softcap is not None or rules.sinks is not None or key_dim != value_dim


def flash_rows(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Single rows over one view of their contexts.

    The query heads of a key head stand where the operator expects query positions, so nothing is repeated.

    Args:
        query: ``[rows, kv_heads, group, dim]``.
        keys: ``[rows, kv_heads, keys, dim]``.
        values: like ``keys``.
        mask: a sum term ``[rows, 1, 1, keys]``, or None.
        scale: factor on the scores.

    Returns:
        ``[rows, kv_heads, group, dim]``.
    """
    out: Tensor = _flash(query, keys, values, attn_mask=mask, scale=scale)[0]
    return out


def gathered_rows(query: Tensor, keys: Tensor, values: Tensor, pages: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Single rows over copies of their pages, as two batched products.

    torch's fused operator multiplies head by head, and in bfloat16 spends most of its time on starting products of a
    few rows. Copying the pages first, so that one product takes all heads of all rows, is faster from about four rows
    on, by 1.6 times at 16. Scores are rounded to bfloat16 before the softmax, as in transformers' eager attention.

    Args:
        query: ``[rows, kv_heads, group, dim]``.
        keys: ``[kv_heads, pages of the pool, page_size * dim]``.
        values: like ``keys``.
        pages: of all rows, equally many for each, ``[rows * pages]``.
        mask: a sum term ``[1, rows, 1, pages * page_size]``.
        scale: factor on the scores.

    Returns:
        ``[rows, kv_heads, group, dim]``.
    """
    rows, kv_heads, group, dim = query.shape
    shape = (kv_heads * rows, -1, dim)
    folded = query.transpose(0, 1).reshape(shape)  # [kv_heads * rows, group, dim]
    scores = torch.bmm(folded, keys.index_select(1, pages).view(shape).transpose(1, 2))
    scores = torch.add(mask, scores.view(kv_heads, rows, group, -1), alpha=scale)
    weights = torch.softmax(scores, dim=-1).flatten(0, 1)
    weighted = torch.bmm(weights, values.index_select(1, pages).view(shape))
    return weighted.view(kv_heads, rows, group, dim).transpose(0, 1)


def flash_chunk(
    query: Tensor, keys: Tensor, values: Tensor, rules: LayerRules, mask_of: MaskMaker, out: Tensor
) -> None:
    """A prefill chunk over its sequence's context, without scores in memory.

    Without a window in reach there is no mask: what came before the chunk and the chunk itself attend apart, and are
    weighed by their log-sum-exps. In half precision that rounds once more than one call would.

    Args:
        query: ``[rows, kv_heads, group, dim]``, the last rows of the sequence.
        keys: ``[kv_heads, keys, dim]``, from its first token to the chunk's last.
        values: like ``keys``.
        rules: the layer's scale and window.
        mask_of: makes masks.
        out: receives ``[rows, kv_heads, group, dim]``.
    """
    rows, length = query.shape[0], keys.shape[1]
    heads = query.permute(2, 1, 0, 3)  # [group, kv_heads, rows, dim]
    keys = keys.expand(heads.shape[0], -1, -1, -1)
    values = values.expand(heads.shape[0], -1, -1, -1)
    start = length - rows
    if rules.window is not None and length > rules.window:
        for block in blocks_of(start, rows, rules.window):
            part, seen = slice(block.first, block.last), slice(block.first_key, block.last_key)
            mask = mask_of(block.last - block.first, block.last_key - block.first_key, rules.window)
            blocked = _flash(
                heads[:, :, part], keys[:, :, seen], values[:, :, seen], attn_mask=mask[None, None], scale=rules.scale
            )[0]
            out[part] = blocked.permute(2, 1, 0, 3)
        return
    own, own_lse = _flash(heads, keys[:, :, start:], values[:, :, start:], is_causal=True, scale=rules.scale)
    if start:
        past, past_lse = _flash(heads, keys[:, :, :start], values[:, :, :start], scale=rules.scale)
        share = torch.sigmoid(past_lse - own_lse).unsqueeze(-1).to(own.dtype)  # [group, kv_heads, rows, 1]
        own = torch.lerp(own, past, share)
    out.copy_(own.permute(2, 1, 0, 3))


def product_chunk(
    query: Tensor, keys: Tensor, values: Tensor, rules: LayerRules, mask_of: MaskMaker, out: Tensor
) -> None:
    """The same as :func:`flash_chunk` in bfloat16, as batched products over all heads: about 1.8 times as fast there.

    The block is small enough for its scores to stay in the processor's cache. Queries are scaled before the product,
    and scores are rounded to bfloat16 before the softmax, as in transformers' eager attention.

    Args:
        query: ``[rows, kv_heads, group, dim]``.
        keys: ``[kv_heads, keys, dim]``.
        values: like ``keys``.
        rules: the layer's scale and window.
        mask_of: makes masks.
        out: receives ``[rows, kv_heads, group, dim]``.
    """
    count, kv_heads, group, _ = query.shape
    block_rows = max(_LEAST_ROWS, _SCORED_ROWS // (kv_heads * group) // _LEAST_ROWS * _LEAST_ROWS)
    for block in blocks_of(keys.shape[1] - count, count, rules.window, block_rows):
        rows, seen = block.last - block.first, slice(block.first_key, block.last_key)
        scaled = query[block.first : block.last].permute(1, 2, 0, 3).mul(rules.scale)
        folded = scaled.reshape(kv_heads, group * rows, -1)
        # The product wants keys without gaps between heads, and would else transpose them while it copies.
        scores = torch.bmm(folded, keys[:, seen].contiguous().transpose(1, 2))
        by_row = scores.view(kv_heads, group, rows, -1)
        if rules.window is None:
            by_row[..., -rows:] += mask_of(rows, rows, None)
        else:
            by_row += mask_of(rows, block.last_key - block.first_key, rules.window)
        weighted = torch.bmm(torch.softmax(scores, dim=-1), values[:, seen])
        out[block.first : block.last] = weighted.view(kv_heads, group, rows, -1).permute(2, 0, 1, 3)


def scored_chunk(
    query: Tensor, keys: Tensor, values: Tensor, rules: LayerRules, mask_of: MaskMaker, out: Tensor
) -> None:
    """The same as :func:`flash_chunk` with the scores written out in blocks: soft caps, sinks, values of another width.

    Scores are scaled and capped in float32, and rounded once, after the softmax.

    Args:
        query: ``[rows, kv_heads, group, key_dim]``; one row is a decode row.
        keys: ``[kv_heads, keys, key_dim]``.
        values: ``[kv_heads, keys, value_dim]``.
        rules: all of the layer's.
        mask_of: makes masks.
        out: receives ``[rows, kv_heads, group, value_dim]``.
    """
    kv_heads, group = query.shape[1:3]
    start = keys.shape[1] - query.shape[0]
    for block in blocks_of(start, query.shape[0], rules.window):
        rows, seen = block.last - block.first, slice(block.first_key, block.last_key)
        folded = query[block.first : block.last].permute(1, 2, 0, 3).flatten(1, 2)  # [kv_heads, group * rows, dim]
        scores = torch.bmm(folded, keys[:, seen].transpose(1, 2)).float().mul_(rules.scale)
        if rules.softcap is not None:
            scores.div_(rules.softcap).tanh_().mul_(rules.softcap)
        scores = scores.view(kv_heads, group, rows, -1)
        if rows > 1:
            scores += mask_of(rows, block.last_key - block.first_key, rules.window)
        if rules.sinks is not None:
            sinks = rules.sinks.float().view(kv_heads, group, 1, 1).expand(-1, -1, rows, 1)
            scores = torch.cat((scores, sinks), dim=-1)
        weights = torch.softmax(scores, dim=-1)
        if rules.sinks is not None:
            weights = weights[..., :-1]
        weighted = torch.bmm(weights.flatten(1, 2).to(values.dtype), values[:, seen])
        out[block.first : block.last] = weighted.view(kv_heads, group, rows, -1).permute(2, 0, 1, 3)
