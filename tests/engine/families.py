"""Small random models of each family that the packed runner serves, with the features that make them differ."""

from __future__ import annotations

from itertools import count
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.engine.tiny_models import GAP

VOCAB = 64
WINDOW = 9
"""Sliding windows: shorter than the prompts, no divisor of the page."""

_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.4,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_MLA: dict[str, Any] = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
}
_LAYERS = ["sliding_attention", "full_attention"]

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 12},
    "qwen3_moe": {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "mistral": {"sliding_window": WINDOW, "head_dim": 8},
    "gemma2": {"sliding_window": WINDOW, "head_dim": 8, "layer_types": _LAYERS, "attn_logit_softcapping": 3.0},
    "gemma3_text": {"sliding_window": WINDOW, "head_dim": 8, "layer_types": _LAYERS},
    "phi3": {},
    "glm4": {"head_dim": 8},
    "deepseek_v2": _MLA,
    "deepseek_v3": _MLA,
    "gpt_oss": {
        "sliding_window": WINDOW,
        "head_dim": 8,
        "layer_types": _LAYERS,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
}
"""Per transformers ``model_type``, what its configuration adds to the common sizes."""


def build(family: str, seed: int, **changes: Any) -> Any:
    """A model in float32 with weights drawn from ``seed``; the global generator is left alone."""
    config = AutoConfig.for_model(family, **{**_COMMON, **FAMILIES[family], **changes})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        for name, parameter in model.named_parameters():
            # Biases, sinks and gains begin at 0 or 1, where much that could be wrong would not show.
            if parameter.dim() == 1:
                parameter.data += 0.2 * torch.randn_like(parameter)
            assert torch.isfinite(parameter).all(), name
    return model.eval().requires_grad_(False)


def build_clear(family: str, prompt: list[int], tokens: int, **changes: Any) -> tuple[Any, list[int]]:
    """The first model, by seed, whose greedy answer never meets two likeliest logits nearer than GAP; the answer."""
    for seed in count():
        model = build(family, seed, **changes)
        answer: list[int] = []
        clear = True
        ids = torch.tensor([prompt])
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
        for logits in out.logits:
            first, second = logits[0].topk(2).values
            clear = clear and bool(first - second >= GAP)
        answer = out.sequences[0, len(prompt) :].tolist()
        if clear:
            return model, answer
    raise AssertionError("unreachable")
