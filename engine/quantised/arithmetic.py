"""The arithmetic of W8A8 with dynamic scales in plain torch: what the NPU's operators are held to, on any device."""

from __future__ import annotations

import torch
from torch import Tensor

LARGEST = 127
"""The largest int8 number that a row of activations is rounded to; -128 is left out, so that signs are alike."""


def quantise_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Round each row to int8 multiples of a scale of its own: ``scale = max|row| / 127``, ``round(row / scale)``.

    The formula is that of ``torch_npu.npu_dynamic_quant``. A row of zeros has the scale 0; one that is not finite has
    a scale that is not, so that its product is none either.

    Args:
        rows: ``[rows, width]``.

    Returns:
        int8 ``[rows, width]``, and float32 scales ``[rows]``.
    """
    whole = rows.float()
    scales = whole.abs().amax(dim=-1) / LARGEST  # [rows]
    divisors = torch.where(scales > 0, scales, 1.0)[:, None]
    return (whole / divisors).round_().nan_to_num_(0.0).clamp_(-LARGEST, LARGEST).to(torch.int8), scales


def int8_product(rows: Tensor, weight: Tensor, scales: Tensor, bias: Tensor | None) -> Tensor:
    """``rows @ (weight * scales) + bias``, with the rows rounded to int8 and the products summed exactly on a CPU.

    Elsewhere torch multiplies no int8 matrices of every shape: there the same integers are multiplied as float32, whose
    sums are exact up to 2^24.

    Args:
        rows: ``[..., inputs]``.
        weight: int8 ``[inputs, outputs]``.
        scales: float32 ``[outputs]``.
        bias: float32 ``[outputs]``.

    Returns:
        ``[..., outputs]`` in the dtype of the rows.
    """
    quantised, row_scales = quantise_rows(rows.reshape(-1, rows.shape[-1]))
    sums = (
        torch._int_mm(quantised, weight) if weight.device.type == "cpu" else torch.mm(quantised.float(), weight.float())
    )  # [rows, outputs]
    product = sums.float() * scales * row_scales[:, None]
    if bias is not None:
        product += bias
    return product.to(rows.dtype).view(*rows.shape[:-1], -1)
