"""Adapters made, saved and merged by PEFT itself, for comparison."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model


def adapted(model: Any, seed: int, **settings: Any) -> Any:
    """PEFT's model around a copy of ``model``, with an adapter of weights drawn from ``seed``."""
    settings = {"target_modules": "all-linear", "r": 4, "lora_alpha": 8, "init_lora_weights": False, **settings}
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        return get_peft_model(copy.deepcopy(model), LoraConfig(task_type="CAUSAL_LM", **settings))


def save(model: Any, folder: Path, seed: int, **settings: Any) -> Any:
    """Save an adapter for ``model`` into ``folder``; returns the model that PEFT merges from both."""
    made = adapted(model, seed, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.save_pretrained(folder, save_embedding_layers=False)
        return made.merge_and_unload().eval().requires_grad_(False)


def edit_config(folder: Path, **changes: Any) -> None:
    """Change members of a saved adapter_config.json."""
    file = folder / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
