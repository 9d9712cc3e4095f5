"""Over how many ranks a model can be shared out, by the numbers in its config.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def refusal(config: Mapping[str, Any], ranks: int, name: str) -> str | None:
    """Why so many ranks cannot share a model, as a sentence; None when they can, or when the file names no heads.

    Each rank takes as many attention heads, and as many key-value heads, as any other.

    Args:
        config: of the model, as config.json has it.
        ranks: how many there shall be.
        name: of the model, for the sentence.
    """
    text = config.get("text_config")
    part = text if isinstance(text, Mapping) else config
    heads, kv_heads = part.get("num_attention_heads"), part.get("num_key_value_heads")
    if not isinstance(heads, int) or heads < 1:
        return None
    if not isinstance(kv_heads, int) or kv_heads < 1:
        kv_heads = heads
    common = math.gcd(heads, kv_heads)
    if common % ranks == 0:
        return None
    possible = ", ".join(str(number) for number in range(1, common + 1) if common % number == 0)
    return (
        f"worldSize is {ranks}, and {name!r} has {heads} attention heads and {kv_heads} key-value heads, which {ranks} "
        f"ranks cannot share equally; possible for it: {possible}."
    )
