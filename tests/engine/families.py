"""Small random models of each family that the packed runner serves, with the features that make them differ."""

from __future__ import annotations

from itertools import count
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from engine.loader import LoadedModel
from engine.types import ModelInfo
from tests.engine.tiny_models import GAP

VOCAB = 64
POSITIONS = 128
WINDOW = 9
"""Sliding windows: shorter than the prompts, no divisor of the page."""

_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": POSITIONS,
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
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
}
"""Per transformers ``model_type``, what its configuration adds to the common sizes."""


def build(family: str, seed: int = 0, **changes: Any) -> Any:
    """A model in float32 with weights drawn from ``seed``; the global generator is left alone."""
    config = AutoConfig.for_model(family, **{**_COMMON, **FAMILIES.get(family, {}), **changes})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            # Biases, sinks and gains begin at 0 or 1, where much that could be wrong would not show.
            if parameter.dim() == 1:
                parameter.data += 0.2 * torch.randn_like(parameter)
    return model.eval().requires_grad_(False)


def answer_of(model: Any, prompt: list[int], tokens: int, of_spread: float = 0.0) -> list[int] | None:
    """What ``generate`` answers greedily; None where two likeliest logits come nearer than GAP, or than a part of the
    spread of their row."""
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
    logits = torch.stack(out.logits)[:, 0]  # [tokens, vocab]
    best_two = logits.topk(2).values  # [tokens, 2]
    clear = (best_two[:, 0] - best_two[:, 1] >= (of_spread * logits.std(dim=1)).clamp_min(GAP)).all()
    return out.sequences[0, len(prompt) :].tolist() if clear else None


def build_clear(family: str, prompts: list[list[int]], tokens: int) -> tuple[Any, list[list[int]]]:
    """The first model, by seed, that answers all prompts clearly, and its answers."""
    for seed in count():
        model = build(family, seed)
        answers = [answer for prompt in prompts if (answer := answer_of(model, prompt, tokens)) is not None]
        if len(answers) == len(prompts):
            return model, answers
    raise AssertionError("count() does not end")


def loaded(model: Any) -> LoadedModel:
    """A model in memory as the loader hands it on."""
    name = str(model.dtype).removeprefix("torch.")
    return LoadedModel(model, ModelInfo(VOCAB, POSITIONS, (2,), name, "cpu", type(model).__name__))
