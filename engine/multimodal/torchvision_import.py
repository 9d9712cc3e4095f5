"""Imports torchvision where its compiled operators do not load beside the torch that is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import torch

_OPERATORS: Final = (
    *("nms", "qnms", "roi_align", "qroi_align", "ps_roi_align", "roi_pool", "ps_roi_pool", "deform_conv2d"),
    *("_roi_align_backward", "_ps_roi_align_backward", "_roi_pool_backward", "_ps_roi_pool_backward"),
    "_deform_conv2d_backward",
)
_MISSING: Final = "operator torchvision::"


def import_torchvision() -> None:
    """Make ``import torchvision`` work; call it before transformers' processors are imported.

    A torchvision built for another torch (one with CUDA beside one without, say) fails to import, since it says at once
    how its operators run and none of them is there. Processors use only its transforms, which are Python; so the names
    are declared, as operators that nothing implements, and it is imported again. Where the plain import works, nothing
    else is done.

    Raises:
        ImportError: there is no torchvision.
    """
    try:
        import_module("torchvision")
    except RuntimeError as error:
        if _MISSING not in str(error):
            raise
    else:
        return
    for name in _OPERATORS:
        torch.library.define(f"torchvision::{name}", "() -> ()")
    import_module("torchvision")
