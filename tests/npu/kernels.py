"""What torch_npu's operators do, in plain torch for CPU tensors, and everything that their documentation forbids.

Registered behind the real operators, so that calls go through torch_npu's own entry points and schemas. Each kernel
first checks the preconditions that shape functions do not look at; a call that breaks one raises ``Forbidden``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

_HALF: Final = (torch.float16, torch.bfloat16)
_ANY_FLOAT: Final = (*_HALF, torch.float32)
_DTYPE_NUMBERS: Final = {5: torch.float16, 6: torch.float32, 15: torch.bfloat16}
"""The numbers by which schemas mean dtypes."""
_FLOAT32: Final = "MINDSPEC_NPU_FLOAT32"
"""With it, attention takes float32 as well, which no NPU does: for comparing tokens with the CPU path's."""
_BLOCK: Final = int(os.environ.get("MINDSPEC_NPU_BLOCK", "128"))
"""Tokens of a block. 128, but for tests of the engine whose short prompts shall cross many pages."""


class Forbidden(AssertionError):
    """A call that the operator's documentation does not allow."""


def need(holds: bool, what: str) -> None:
    """Raise Forbidden unless a precondition holds."""
    if not holds:
        raise Forbidden(what)


def _attention_dtypes() -> tuple[torch.dtype, ...]:
    return _ANY_FLOAT if os.environ.get(_FLOAT32) else _HALF


def _check_paged(
    query: Tensor, key: Tensor, value: Tensor, table: Tensor | None, size: int, heads: int, kv: int
) -> None:
    need(query.dtype in _attention_dtypes(), f"queries are float16 or bfloat16, not {query.dtype}")
    need(key.dtype == query.dtype == value.dtype, "queries, keys and values have one dtype")
    need(all(tensor.is_contiguous() for tensor in (query, key, value)), "queries, keys and values are contiguous")
    assert table is not None, "this kernel knows paged attention only"
    need(table.dtype == torch.int32 and table.dim() == 2, "the block table is int32 [sequences, blocks]")
    need(table.is_contiguous(), "the block table is contiguous")
    need(size == _BLOCK, f"a block has {_BLOCK} tokens here, not {size}")
    need(key.dim() == 3 and key.shape[1] == size and value.shape == key.shape, "pages are [blocks, 128, width]")
    need(key.numel() < 1 << 31 and value.numel() < 1 << 31, "a layer's pages have fewer than 2^31 numbers")
    need(kv > 0 and heads % kv == 0 and heads // kv <= 64, "the heads are 1 to 64 times the key heads")
    need(key.shape[2] % kv == 0 and value.shape[2] % kv == 0, "the width is a multiple of the key heads")


def _attend(query: Tensor, keys: Tensor, values: Tensor, hidden: Tensor, scale: float, sinks: Tensor | None) -> Tensor:
    """One sequence: ``[rows, heads, dim]`` over ``[keys, kv_heads, dim]``; ``hidden`` ``[rows, keys]``."""
    group = query.shape[1] // keys.shape[1]
    wide = keys.repeat_interleave(group, dim=1).float()  # [keys, heads, dim]
    scores = torch.einsum("rhd,khd->hrk", query.float(), wide) * scale
    scores.masked_fill_(hidden, -torch.inf)
    if sinks is not None:
        column = sinks.float()[:, None, None].expand(-1, query.shape[0], 1)
        shares = torch.softmax(torch.cat((scores, column), dim=-1), dim=-1)[..., :-1]
    else:
        shares = torch.softmax(scores, dim=-1)
    out = torch.einsum("hrk,khd->rhd", shares, values.repeat_interleave(group, dim=1).float())
    return out.to(query.dtype), scores.logsumexp(dim=-1, keepdim=True)


def _pages_of(pages: Tensor, table: Tensor, length: int, kv: int) -> Tensor:
    """The first ``length`` tokens of a row of the table, ``[length, kv_heads, dim]``."""
    blocks = -(-length // _BLOCK)
    need(blocks <= table.shape[0], f"{length} keys need {blocks} blocks; the table has {table.shape[0]}")
    need(bool((table[:blocks] >= 0).all()) and bool((table[:blocks] < pages.shape[0]).all()), "blocks that there are")
    return pages[table[:blocks].long()].reshape(blocks * _BLOCK, kv, -1)[:length]


def _banded(rows: int, keys: int, sparse_mode: int, pre_tokens: int, next_tokens: int) -> Tensor:
    """What rows do not see of the keys, bool ``[rows, keys]``: both end together."""
    place = torch.arange(rows)[:, None] + keys - rows
    other = torch.arange(keys)[None]
    if sparse_mode == 3:
        return other > place
    return (other > place + next_tokens) | (other < place - pre_tokens)


def _tnd(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, ends: Any, lengths: Any, table: Tensor | None,
    heads: int, kv: int, scale: float, sparse_mode: int, pre: int, nxt: int, size: int, sinks: Tensor | None,
) -> Tensor:  # fmt: skip
    need(query.dim() == 3, f"TND queries are [tokens, heads, dim], not {list(query.shape)}")
    need(query.shape[1] == heads, f"num_heads is {heads}, the queries have {query.shape[1]}")
    _check_paged(query, key, value, table, size, heads, kv)
    assert table is not None
    need(isinstance(ends, (list, tuple)) and isinstance(lengths, (list, tuple)), "lengths are lists of the host")
    need(len(ends) == len(lengths) == table.shape[0] <= 4096, "as many lengths as sequences, 4096 at most")
    need(list(ends) == sorted(ends) and ends[-1] == query.shape[0], f"{ends} is cumulative and ends with all rows")
    counts = [end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    need(all(0 < count <= length for count, length in zip(counts, lengths, strict=True)),
         f"key lengths are each sequence's own, its rows among them: {counts} rows, {list(lengths)} keys")  # fmt: skip
    need(sparse_mode in (3, 4), f"TND masks are causal (3) or a band (4), not {sparse_mode}")
    need(mask is not None and tuple(mask.shape) == (2048, 2048), "modes 3 and 4 take a mask [2048, 2048]")
    assert mask is not None
    need(mask.dtype in (torch.int8, torch.uint8, torch.bool), "the mask is int8, uint8 or bool")
    need(torch.equal(mask.bool(), torch.ones(2048, 2048, dtype=torch.bool).triu(1)), "the mask is causal")
    # A step of single rows takes no notice of the mode: each sees all its keys.
    single = max(counts) == 1
    out = query.new_empty(query.shape[0], heads, value.shape[2] // kv)
    begin = 0
    for row, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        keys, values = _pages_of(key, table[row], length, kv), _pages_of(value, table[row], length, kv)
        hidden = _banded(end - begin, length, 3 if single else sparse_mode, pre, nxt)
        out[begin:end], _ = _attend(query[begin:end], keys, values, hidden, scale, sinks)
        begin = end
    return out


def _attention(
    query: Tensor, key: Tensor, value: Tensor, *, atten_mask: Tensor | None = None, actual_seq_lengths: Any = None,
    actual_seq_lengths_kv: Any = None, block_table: Tensor | None = None, num_heads: int = 1, scale: float = 1.0,
    pre_tokens: int = 2147483647, next_tokens: int = 2147483647, input_layout: str = "BSH",
    num_key_value_heads: int = 0, sparse_mode: int = 0, block_size: int = 0, softmax_lse_flag: bool = False,
    **others: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    need(all(given is None or not given for given in others.values()), f"arguments that are not known here: {others}")
    if input_layout == "TND":
        need(not softmax_lse_flag, "nobody asks for sums here")
        out = _tnd(query, key, value, atten_mask, actual_seq_lengths, actual_seq_lengths_kv, block_table, num_heads,
                   num_key_value_heads, scale, sparse_mode, pre_tokens, next_tokens, block_size, None)  # fmt: skip
        return out, query.new_zeros(1, dtype=torch.float32)
    need(input_layout == "BSND", f"the layouts are TND and BSND, not {input_layout}")
    need(query.dim() == 4 and query.shape[1:3] == (1, num_heads), f"BSND queries of one row: {list(query.shape)}")
    _check_paged(query, key, value, block_table, block_size, num_heads, num_key_value_heads)
    assert block_table is not None
    need(sparse_mode == 0 and atten_mask is not None, "a mask of the caller's own goes with mode 0")
    assert atten_mask is not None
    sequences, width = block_table.shape
    need(query.shape[0] == sequences == len(actual_seq_lengths_kv), "as many lengths as sequences")
    need(atten_mask.dtype == torch.bool, "the mask is bool")
    need(tuple(atten_mask.shape) == (sequences, 1, 1, width * _BLOCK), f"the mask covers the table: {atten_mask.shape}")
    need(num_heads * query.shape[3] < 65535, "BSND takes fewer than 65,535 numbers a row")
    out = query.new_empty(sequences, 1, num_heads, value.shape[2] // num_key_value_heads)
    sums = query.new_empty(sequences, num_heads, 1, 1, dtype=torch.float32)
    for row, length in enumerate(actual_seq_lengths_kv):
        keys = _pages_of(key, block_table[row], length, num_key_value_heads)
        values = _pages_of(value, block_table[row], length, num_key_value_heads)
        out[row], sums[row] = _attend(query[row], keys, values, atten_mask[row, 0, :, :length], scale, None)
    return out, sums if softmax_lse_flag else query.new_zeros(1, dtype=torch.float32)


def _attention_v2(
    query: Tensor, key: Tensor, value: Tensor, *, atten_mask: Tensor | None = None, actual_seq_qlen: Any = None,
    actual_seq_kvlen: Any = None, block_table: Tensor | None = None, learnable_sink: Tensor | None = None,
    num_query_heads: int = 1, num_key_value_heads: int = 0, softmax_scale: float = 1.0, pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647, input_layout: str = "BSH", sparse_mode: int = 0, block_size: int = 0, **others: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    need(all(given is None or not given for given in others.values()), f"arguments that are not known here: {others}")
    need(input_layout == "TND", "sinks go with TND")
    need(learnable_sink is not None, "without sinks the first form is meant")
    assert learnable_sink is not None
    need(learnable_sink.dtype == torch.bfloat16, f"sinks are bfloat16, not {learnable_sink.dtype}")
    need(tuple(learnable_sink.shape) == (num_query_heads,), "one sink a head")
    need(value.shape[2] // num_key_value_heads <= 128, "with sinks a head has at most 128 values")
    out = _tnd(query, key, value, atten_mask, actual_seq_qlen, actual_seq_kvlen, block_table, num_query_heads,
               num_key_value_heads, softmax_scale, sparse_mode, pre_tokens, next_tokens, block_size,
               learnable_sink)  # fmt: skip
    return out, query.new_zeros(1, dtype=torch.float32)


def _scatter(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, *,
    compress_lens: Tensor | None = None, compress_seq_offsets: Tensor | None = None, seq_lens: Tensor | None = None,
    cache_mode: str | None = "PA_NZ",
) -> None:  # fmt: skip
    need(cache_mode in (None, "Norm"), f"pages of plain tensors have the mode Norm, not {cache_mode}")
    need(compress_lens is None and compress_seq_offsets is None and seq_lens is None, "nothing is compressed here")
    need(key.dim() == 3 and key.shape[:2] == value.shape[:2], "keys and values are [tokens, heads, dim]")
    need(key_cache.dim() == 4 and key_cache.shape[2:] == key.shape[1:], "pages are [blocks, 128, heads, dim]")
    need(value_cache.dim() == 4 and value_cache.shape[2:] == value.shape[1:], "so are those of values")
    given = (key, value, key_cache, value_cache, slot_mapping)
    need(all(tensor.is_contiguous() for tensor in given), "everything is contiguous")
    need(len({key.dtype, value.dtype, key_cache.dtype, value_cache.dtype}) == 1, "rows and pages have one dtype")
    need(key.dtype in _attention_dtypes(), f"keys are float16 or bfloat16, not {key.dtype}")
    need(slot_mapping.dtype in (torch.int32, torch.int64) and slot_mapping.shape == key.shape[:1], "a slot each row")
    need(slot_mapping.unique().numel() == slot_mapping.numel(), "no two rows go to one slot")
    places = slot_mapping.long()
    need(bool((places >= 0).all()) and int(places.max()) < key_cache.shape[0] * key_cache.shape[1], "slots exist")
    key_cache.view(-1, *key.shape[1:])[places] = key
    value_cache.view(-1, *value.shape[1:])[places] = value


def _rms_norm(rows: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    need(rows.dtype in _ANY_FLOAT and gamma.dtype == rows.dtype, f"one dtype, not {rows.dtype} and {gamma.dtype}")
    need(rows.shape[-gamma.dim() :] == gamma.shape, "the gain has the last dimensions of the rows")
    whole = rows.float()
    reverse = torch.rsqrt(whole.square().mean(dim=-1, keepdim=True) + epsilon)
    return (whole * reverse * gamma.float()).to(rows.dtype), reverse


def _add_rms_norm(first: Tensor, second: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    need(first.shape == second.shape and first.dtype == second.dtype, "both summands are alike")
    total = first + second
    normed, reverse = _rms_norm(total, gamma, epsilon)
    return normed, reverse, total


def _rotary(heads: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Tensor | None = None) -> Tensor:
    need(heads.dim() == r1.dim() == r2.dim() == 4 and rotate is None, "all have four dimensions")
    need(heads.dtype == r1.dtype == r2.dtype and heads.dtype in _ANY_FLOAT, "all have one dtype")
    need(rotary_mode == "half", "the halves are apart")
    need(r1.shape == r2.shape == (1, heads.shape[1], 1, heads.shape[3]), "BSND with tables 1S1D")
    need(heads.shape[3] < 896 and heads.shape[3] % 2 == 0 and heads.shape[2] < 1000, "widths that it can do")
    left, right = heads.chunk(2, dim=-1)
    return r1 * heads + r2 * torch.cat((-right, left), dim=-1)


def _swiglu(rows: Tensor, dim: int = -1) -> Tensor:
    need(rows.shape[dim] % 2 == 0, "two halves")
    gate, up = rows.chunk(2, dim=dim)
    return torch.nn.functional.silu(gate) * up


def _top_k_top_p(logits: Tensor, p: Tensor | None = None, k: Tensor | None = None) -> Tensor:
    need(p is not None or k is not None, "top-k, top-p, or both")
    need(logits.dim() == 2 and logits.dtype in _ANY_FLOAT, "logits are floats [rows, vocab]")
    ordered, places = torch.sort(logits, dim=-1, stable=True)
    if k is not None:
        need(k.dtype == torch.int32 and k.shape == logits.shape[:1], "k is int32 [rows]")
        need(bool((k >= 1).all()) and bool((k <= min(1024, logits.shape[1])).all()), "k is 1..1024, vocab at most")
        border = ordered.gather(1, (logits.shape[1] - k.long())[:, None])
        ordered = ordered.masked_fill(ordered < border, -torch.inf)
    if p is not None:
        need(p.dtype == logits.dtype and p.shape == logits.shape[:1], "p is [rows] of the logits' dtype")
        need(bool((p >= 0).all()) and bool((p <= 1).all()), "p is 0..1")
        left_out = torch.softmax(ordered, dim=-1).cumsum(dim=-1) <= 1 - p[:, None]
        left_out[:, -1] = False
        ordered = ordered.masked_fill(left_out, -torch.inf)
    return torch.empty_like(logits).scatter_(1, places, ordered)


def _dynamic_quant(
    rows: Tensor, *, smooth_scales: Tensor | None = None, group_index: Tensor | None = None,
    dst_type: int | None = None, quant_mode: str = "pertoken", dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    need(smooth_scales is None and group_index is None and dst_type is None, "rows to int8, nothing else")
    need(quant_mode == "pertoken" and dst_type_max == 0.0, "a scale for each row")
    need(rows.dtype in _attention_dtypes(), f"rows are float16 or bfloat16, not {rows.dtype}")
    need(rows.dim() > 1, "rows have more than one dimension")
    scales = rows.float().abs().amax(dim=-1) / 127
    quantised = torch.round(rows.float() / scales.unsqueeze(-1)).nan_to_num(0.0)
    return quantised.to(torch.int8), scales


def _quant_matmul(
    x1: Tensor, x2: Tensor, scale: Tensor, *, offset: Tensor | None = None, pertoken_scale: Tensor | None = None,
    bias: Tensor | None = None, output_dtype: int | None = None, **others: Any,
) -> Tensor:  # fmt: skip
    need(all(given is None for given in others.values()) and offset is None, f"not known here: {others}, {offset}")
    need(x1.dtype == x2.dtype == torch.int8, "both factors are int8")
    need(x1.dim() == x2.dim() == 2 and x1.shape[1] == x2.shape[0], f"{list(x1.shape)} times {list(x2.shape)}")
    need(x1.numel() > 0 and x2.numel() > 0, "nothing is empty")
    need(x1.is_contiguous() and x2.is_contiguous(), "both are contiguous")
    need(max(x1.shape[1], x2.shape[1]) <= 65535, "the last dimensions are 65,535 at most")
    need(scale.dtype == torch.float32 and scale.shape == x2.shape[1:], "float32 scales of the columns")
    need(pertoken_scale is not None, "without scales of the rows the output is int8")
    assert pertoken_scale is not None
    need(pertoken_scale.dtype == torch.float32 and pertoken_scale.shape == x1.shape[:1], "float32 scales of the rows")
    need(bias is None or (bias.dtype == torch.float32 and bias.shape == x2.shape[1:]), "a float32 bias of the columns")
    wanted = _DTYPE_NUMBERS.get(output_dtype if output_dtype is not None else -1)
    need(wanted in _attention_dtypes(), f"the output is float16 or bfloat16, not {output_dtype}")
    assert wanted is not None
    product = (x1.long() @ x2.long()).double() * scale.double() * pertoken_scale.double()[:, None]
    return (product if bias is None else product + bias.double()).to(wanted)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "npu_fused_infer_attention_score": _attention,
    "npu_fused_infer_attention_score_v2": _attention_v2,
    "npu_scatter_pa_kv_cache": _scatter,
    "npu_rms_norm": _rms_norm,
    "npu_add_rms_norm": _add_rms_norm,
    "npu_rotary_mul": _rotary,
    "npu_swiglu": _swiglu,
    "npu_dynamic_quant": _dynamic_quant,
    "npu_quant_matmul": _quant_matmul,
    "npu_top_k_top_p": _top_k_top_p,
}


def register() -> torch.library.Library:
    """Put the kernels behind torch_npu's operators for CPU tensors, for as long as the result is kept."""
    library = torch.library.Library("npu", "IMPL")
    for name, kernel in KERNELS.items():
        library.impl(name, kernel, "CPU")
    return library
