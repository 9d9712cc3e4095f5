"""How much of a card's memory the pages of keys and values may have."""

from __future__ import annotations

import torch

RESERVE_BYTES = 1 << 30
"""Left alone, for the rows of a step and for what the runtime takes later."""
DEFAULT_SHARE = 0.9
"""Of what is free once the weights are loaded, beyond the reserve."""


def pool_bytes(limit: int | None, part: float = 1.0) -> int:
    """Bytes for the pages: ``limit`` where it is given, else a share of what the current card has free.

    ``part`` of that share, where several processes have pages on it.
    """
    if limit is not None:
        return limit
    free, _ = torch.npu.mem_get_info()  # type: ignore[attr-defined]  # torch_npu adds torch.npu
    return int(max(0, free - RESERVE_BYTES) * DEFAULT_SHARE * part)
