"""Keeps transformers from importing torchvision, in processes that run models and read no media."""

from __future__ import annotations

import sys


def leave_out_torchvision() -> None:
    """Call it before transformers is imported; where torchvision is imported already, nothing changes.

    transformers imports torchvision, where it is installed, with any of its models. Only processors need it, and beside
    a torch that it was not built for no model could be imported at all; see multimodal/torchvision_import.py.
    """
    sys.modules.setdefault("torchvision", None)  # type: ignore[arg-type]  # None: it cannot be imported
