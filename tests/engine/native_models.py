"""Small random models of each family that the native step describes, and runners over them."""

from __future__ import annotations

import copy
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.loader import LoadedModel, cpu_flags
from engine.native.build import PREBUILT, find_compiler, prebuilt_name
from engine.native.load import build_native
from engine.native.runner import NativeRunner
from engine.native.variants import NativeUnavailable, choose
from engine.plan import Plan, Span
from engine.types import ModelInfo
from tests.engine import families

VOCAB = 100
"""No multiple of 32."""
POSITIONS = 256
PAGE = 32
WINDOW = 40
"""Longer than a page and no multiple of it."""

_SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "head_dim": 32,
    "num_hidden_layers": 3,
    "max_position_embeddings": POSITIONS,
    "vocab_size": VOCAB,
    "initializer_range": 0.2,
}
_LAYERS = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
_YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 64}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama tied": ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "llama biased": ("llama", {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4}),
    "llama yarn": ("llama", {"rope_parameters": _YARN}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {"head_dim": 64}),
    "mistral": ("mistral", {"sliding_window": WINDOW}),
    "gemma": ("gemma", {}),
    "gemma2": ("gemma2", {**_LAYERS, "attn_logit_softcapping": 3.0, "query_pre_attn_scalar": 32}),
    "gemma3": ("gemma3_text", {**_LAYERS, "query_pre_attn_scalar": 32}),
    "granite": (
        "granite",
        {
            "logits_scaling": 4.0,
            "residual_multiplier": 0.5,
            "embedding_multiplier": 3.0,
            "attention_multiplier": 0.1,
        },
    ),
    "phi3": ("phi3", {}),
    "phi3 partial": ("phi3", {"partial_rotary_factor": 0.5}),
}
"""Per name transformers' ``model_type`` and what its configuration adds to the common sizes."""


def model(name: str, **changes: Any) -> Any:
    """A model of a family in bfloat16."""
    kind, features = FAMILIES[name]
    return families.build(kind, **{**_SIZES, **features, **changes}).to(torch.bfloat16)


def whole(reduced: Any, weights: str = "bf16") -> Any:
    """The same weights in float32; with int8, each output's of a product in multiples of the largest one / 127."""
    exact = copy.deepcopy(reduced).float()
    embeddings = exact.model.embed_tokens.weight.detach().clone()
    for layer in exact.modules():
        if weights == "int8" and type(layer) is torch.nn.Linear:
            scales = layer.weight.detach().abs().amax(dim=1, keepdim=True).clamp_min(1e-9) / 127
            layer.weight = torch.nn.Parameter((layer.weight.detach() / scales).round() * scales)
    exact.model.embed_tokens.weight = torch.nn.Parameter(embeddings)
    return exact


def loaded(reduced: Any) -> LoadedModel:
    """A model in memory as the loader hands it on."""
    config = reduced.config
    info = ModelInfo(config.vocab_size, config.max_position_embeddings, (2,), "bfloat16", "cpu", type(reduced).__name__)
    return LoadedModel(reduced, info)


@cache
def why_not(variant: str | None = None, *, build: bool = True) -> str | None:
    """Why this machine cannot run (or build) a variant of the native step (None: the best one), if it cannot."""
    try:
        chosen = choose(cpu_flags(), variant)
    except NativeUnavailable as reason:
        return str(reason)
    if build and find_compiler() is None and not (PREBUILT / prebuilt_name(chosen)).is_file():
        return "this machine has no C++ compiler, and no library came with the package"
    return None


def need_native(variant: str | None = None, *, build: bool = True) -> None:
    """Skip a test that this machine cannot run; without ``build`` it needs no library."""
    reason = why_not(variant, build=build)
    if reason is not None:
        pytest.skip(f"native step {variant or ''}: {reason}")


def runner(reduced: Any, cache_folder: Path, **options: Any) -> NativeRunner:
    """A native runner over a model, with a few pages."""
    given = {"page_size": PAGE, "max_tokens": 64 * PAGE, "threads": 2, "cache": cache_folder, **options}
    return build_native(loaded(reduced), **given)


def tokens(count: int, vocab: int = VOCAB) -> list[int]:
    """A prompt without much repetition."""
    return [(7 + 31 * index + index * index // 5) % vocab for index in range(count)]


def pages(place: int, count: int = 8) -> list[int]:
    """Pages that belong to a sequence alone, in no order."""
    return [place * count + (index * 5 + 3) % count for index in range(count)]


def span(place: int, start: int, ids: list[int], wanted: bool = True) -> Span:
    """Rows of the sequence that owns the pages of ``place``."""
    return Span(pages(place), start, ids, wanted)


def in_pieces(of: NativeRunner, place: int, ids: list[int], size: int) -> torch.Tensor:
    """The logits after each piece of a prompt, ``[pieces, vocab]``."""
    starts = range(0, len(ids), size)
    return torch.cat([of.run(Plan([span(place, start, ids[start : start + size])], 0)) for start in starts])


def hide_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiler is found."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert shutil.which("c++") is None
