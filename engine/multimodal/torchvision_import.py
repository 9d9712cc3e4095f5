"""Lets torchvision import beside a torch that its compiled library was not built for, as transformers' processors need.

They use its transforms, which are Python. Its import ends in "operator torchvision::nms does not exist" where the
compiled library does not load; with the operators' names declared it goes through.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Final

from torch.library import Library

_OPERATORS: Final[tuple[str, ...]] = (
    "nms",
    "qnms",
    "roi_align",
    "qroi_align",
    "ps_roi_align",
    "roi_pool",
    "ps_roi_pool",
    "deform_conv2d",
    "_roi_align_backward",
    "_ps_roi_align_backward",
    "_roi_pool_backward",
    "_ps_roi_pool_backward",
    "_deform_conv2d_backward",
)


def import_torchvision() -> None:
    """Import torchvision, with its operators declared where it does not import otherwise.

    Raises:
        ImportError: it is not installed.
        RuntimeError: it does not import in either way.
    """
    if "torchvision" in sys.modules:
        return
    try:
        import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        _declare_operators()
        import_module("torchvision")


@cache
def _declare_operators() -> Library:
    """The declarations last as long as the object that this gives."""
    library = Library("torchvision", "DEF")
    for name in _OPERATORS:
        library.define(f"{name}() -> ()")
    return library
