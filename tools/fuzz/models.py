"""Tiny random models of every family that the native step describes, in odd sizes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from engine.native.packing import CpuWeights

_ROPES: tuple[dict[str, Any], ...] = (
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 3.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
)


MAX_QUERY_WEIGHTS = 500_000
"""Of a layer, where the heads' number does not ask for more: what is watched computes 30 times as long."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model, and how it is served."""

    family: str
    config: dict[str, Any]
    seed: int
    page_size: int
    num_pages: int
    threads: int
    weights: CpuWeights = "bf16"

    @property
    def positions(self) -> int:
        """The longest sequence."""
        return int(self.config["max_position_embeddings"])

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.config.items())
        pages = f"{self.num_pages} pages of {self.page_size}"
        return f"{self.family} ({sizes}), {pages}, {self.threads} threads, {self.weights}"


def draw_case(draw: random.Random) -> Case:
    """A case in which every size is one that the native step takes."""
    kv_heads = draw.choice([1, 1, 2, 3, 4])
    heads = kv_heads * draw.choice([1, 1, 2, 3, 5, 7, 50 if kv_heads == 1 else 8])
    hidden = math.lcm(32, heads)  # some families insist on a multiple
    hidden *= draw.randint(1, max(1, 160 // hidden))
    sizes = [32 * units for units in (1, 1, 1, 2, 2, 3, 4, 5, 8, 16)]
    head_dim = draw.choice([size for size in sizes if hidden * heads * size <= MAX_QUERY_WEIGHTS] or [32])
    layers = draw.randint(1, 3)
    positions = draw.choice([1, 31, 33, 64, 100, 257, 640, 1100])
    page_size = 32 * draw.choice([1, 1, 1, 2, 3, 4, 8])
    config: dict[str, Any] = {
        "hidden_size": hidden,
        "intermediate_size": 32 * draw.randint(1, 5),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "vocab_size": draw.choice([2, 3, 15, 16, 17, 31, 32, 33, 63, 100, 257]),
        "max_position_embeddings": positions,
        "initializer_range": 0.2,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 0,
        "tie_word_embeddings": draw.random() < 0.5,
    }
    family = draw.choice(list(_FAMILIES))
    config |= _FAMILIES[family](draw, layers)
    # All that sequences may need, or less than that.
    per_sequence = -(-positions // page_size)
    num_pages = max(1, draw.choice([per_sequence - 1, per_sequence, 2 * per_sequence + 3, 4 * per_sequence + 8]))
    threads = draw.choice([1, 1, 2, 3, 4])
    weights: CpuWeights = draw.choice(["bf16", "int8"])
    return Case(family, config, draw.randrange(2**32), page_size, num_pages, threads, weights)


def _rope(draw: random.Random) -> dict[str, Any]:
    return {"rope_parameters": {"rope_theta": 10000.0, **draw.choice(_ROPES)}}


def _window(draw: random.Random) -> int:
    return draw.choice([1, 2, 31, 32, 33, 40, 64, 100, 500, 2**33])


def _mixed_windows(draw: random.Random, layers: int) -> dict[str, Any]:
    kinds = ["sliding_attention", "full_attention"]
    return {"sliding_window": _window(draw), "layer_types": [draw.choice(kinds) for _ in range(layers)]}


def _gemma2(draw: random.Random, layers: int) -> dict[str, Any]:
    return {
        **_mixed_windows(draw, layers),
        "query_pre_attn_scalar": 32,
        "attn_logit_softcapping": draw.choice([None, 0.5, 3.0, 50.0]),
        "final_logit_softcapping": draw.choice([None, 0.5, 30.0]),
    }


def _granite(draw: random.Random, layers: int) -> dict[str, Any]:
    return {
        "logits_scaling": draw.choice([0.5, 4.0]),
        "residual_multiplier": 0.5,
        "embedding_multiplier": draw.choice([3.0, 12.0]),
        "attention_multiplier": 0.1,
    }


_FAMILIES: dict[str, Callable[[random.Random, int], dict[str, Any]]] = {
    "llama": lambda draw, layers: {
        **_rope(draw),
        "attention_bias": draw.random() < 0.5,
        "mlp_bias": draw.random() < 0.5,
    },
    "qwen2": lambda draw, layers: _rope(draw),
    "qwen3": lambda draw, layers: _rope(draw),
    "mistral": lambda draw, layers: {"sliding_window": draw.choice([None, _window(draw)])},
    "gemma": lambda draw, layers: {},
    "gemma2": _gemma2,
    "gemma3_text": lambda draw, layers: {**_mixed_windows(draw, layers), "query_pre_attn_scalar": 32},
    "granite": _granite,
    "phi3": lambda draw, layers: {"partial_rotary_factor": draw.choice([1.0, 0.5, 0.25])},
}


def build(case: Case) -> Any:
    """The case's model in bfloat16; torch's own generator is left alone."""
    config = AutoConfig.for_model(case.family, **case.config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(case.seed)
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            # Biases and gains begin at 0 or 1, where much that could be wrong would not show.
            if parameter.dim() == 1:
                parameter.data += 0.2 * torch.randn_like(parameter)
    return model.eval().requires_grad_(False).to(torch.bfloat16)
