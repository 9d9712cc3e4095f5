"""How far apart two ways to run a model may be at load, when its activations become int8."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from engine import seam
from engine.quantised.linear import exact_activations, is_quantised

_TIMES = 1.5
"""Rounding in two ways that have nothing in common differs by 1.4 times what one way errs."""

_log = logging.getLogger(__name__)


def check_limit(model: Any, tokens: list[int], dense: Tensor) -> tuple[torch.dtype, float]:
    """The dtype and the tolerance that ``seam.check`` takes for a model.

    The last bit of an activation may decide which of two int8 numbers it becomes, and these differ by 1/127 of the
    row's largest. So two orders of summing may differ by as much as int8 activations err, which is measured: by the
    same weights as floats.

    Args:
        model: whose layers are still those that were loaded.
        tokens: the check's prompt.
        dense: the logits after each, float32 ``[tokens, vocab]``.
    """
    if not is_quantised(model):
        return model.dtype, seam.TOLERANCE_HALF
    with exact_activations(model):
        exact = seam.dense_logits(model, tokens, dense.shape[1])
    error = seam.row_errors(dense, exact).median().item()
    same = int((dense.argmax(dim=-1) == exact.argmax(dim=-1)).sum())
    _log.info(
        "int8 activations change the logits by %.0f%% of their spread; the likeliest token is that of the same weights "
        "as floats in %d of %d rows",
        100 * error,
        same,
        len(dense),
    )
    return torch.bfloat16, max(seam.TOLERANCE_HALF, _TIMES * error)
