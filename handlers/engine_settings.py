"""The sizes that an engine was started with, as endpoints tell them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Of each instance, under MindIE's names in snake case."""

    max_batch_size: int = 200
    """Sequences that run at the same time."""
    max_prefill_batch_size: int = 50
    """Prompts in one step."""
    max_prefill_tokens: int = 8192
    """Tokens of prompts in one step."""
    cache_block_size: int = 128
    """Tokens of a page of keys and values."""
    npu_mem_size: float | None = None
    """GB for keys and values; None: a share of what is free."""
    world_size: int = 1
    """Devices that share the model."""
    instance_type: Literal["Standard", "StandardMock"] = "Standard"
    """StandardMock: the text is made up."""
