"""Over how many ranks a model can be shared out, by the numbers in its config.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def heads_of(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """Attention heads and key-value heads of a model, by its config.json; None where that names none."""
    text = config.get("text_config")
    part = text if isinstance(text, Mapping) else config
    heads, kv_heads = part.get("num_attention_heads"), part.get("num_key_value_heads")
    if not isinstance(heads, int) or heads < 1:
        return None
    return heads, kv_heads if isinstance(kv_heads, int) and kv_heads > 0 else heads


def refusal(heads: tuple[int, int] | None, ranks: int, name: str) -> str | None:
    """Why so many ranks cannot share a model, as the end of "worldSize "; None when they can, or nobody knows.

    Each rank takes as many attention heads, and as many key-value heads, as any other.

    Args:
        heads: see ``heads_of``.
        ranks: how many there shall be.
        name: of the model, for the sentence.
    """
    common = 0 if heads is None else math.gcd(*heads)
    if heads is None or common % ranks == 0:
        return None
    possible = ", ".join(str(number) for number in range(1, common + 1) if common % number == 0)
    return (
        f"is {ranks}, and {name} has {heads[0]} attention heads and {heads[1]} key-value heads, which {ranks} ranks "
        f"cannot share equally; possible for it: {possible}"
    )
