"""The model's own sampling defaults, read from its folder's generation_config.json as plain JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ModelDefaults:
    """What the weights recommend; None where they say nothing."""

    greedy: bool = False
    """do_sample is written as false: greedy unless a request sends temperature, top_k or top_p."""
    temperature: float | None = None
    top_k: int | None = None
    """-1 keeps the whole vocabulary."""
    top_p: float | None = None
    repetition_penalty: float | None = None

    @classmethod
    def read(cls, model_dir: Path) -> ModelDefaults:
        """Read ``model_dir``/generation_config.json; a missing or unreadable file recommends nothing."""
        try:
            config = json.loads((model_dir / "generation_config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return cls()
        return cls.of(config) if isinstance(config, dict) else cls()

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> ModelDefaults:
        """Take the usable entries of a parsed generation_config.json; values that no request could send are left out.

        transformers writes 0 for a top_k that is off; here that is -1.
        """
        top_k = _number(config.get("top_k"), lambda value: 0 <= value <= 2**31 - 1)
        return cls(
            greedy=config.get("do_sample") is False,
            temperature=_number(config.get("temperature"), lambda value: 0 <= value <= 3.4028234e38),
            top_k=None if top_k is None else int(top_k) or -1,
            top_p=_number(config.get("top_p"), lambda value: 1e-6 < value <= 1),
            repetition_penalty=_number(config.get("repetition_penalty"), lambda value: 0 < value <= 2),
        )


def _number(value: object, usable: Callable[[float], bool]) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and usable(value) else None
