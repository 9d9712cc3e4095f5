"""Small models with int8 weights: in memory, and in folders as ModelSlim and compressed-tensors write them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.loader import load
from engine.quantised.linear import Int8Linear
from engine.quantised.norm import add_bias
from tests.engine import families

GAP = 0.1
"""Two likeliest logits nearer than this part of the row's spread might change places by one int8 number."""
SHARED_INPUTS = ("o_proj", "down_proj", "c_proj")
"""Layers whose inputs ranks share out, by the ends of their names."""
CONFIG: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "global_compression_ratio": None,
    "ignore": ["lm_head"],
    "kv_cache_scheme": None,
    "sparsity_config": {},
    "transform_config": {},
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 8,
                "type": "int",
                "symmetric": True,
                "strategy": "channel",
                "dynamic": False,
                "group_size": None,
                "block_structure": None,
                "observer": "minmax",
            },
            "input_activations": {
                "num_bits": 8,
                "type": "int",
                "symmetric": True,
                "strategy": "token",
                "dynamic": True,
                "group_size": None,
                "observer": None,
            },
            "output_activations": None,
        }
    },
}
"""What the compressed-tensors format says of int8 weights with dynamic activations."""


def rounded(weight: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """int8 ``[out, in]`` and scales ``[out, 1]`` of a dtype, whose product is nearest to a weight."""
    scales = (weight.float().abs().amax(dim=1, keepdim=True) / 127).to(dtype)
    return (weight.float() / scales.float()).round().clamp(-127, 127).to(torch.int8), scales


def linear_layers(model: Any) -> Iterator[tuple[str, nn.Linear]]:
    """All linear layers but the one that gives the logits, as both tools take them by themselves."""
    output = model.get_output_embeddings()
    for name, module in model.named_modules():
        if type(module) is nn.Linear and module is not output:
            yield name, module


def quantise(model: Any) -> Any:
    """A copy of a model with int8 weights."""
    model = copy.deepcopy(model)
    for name, module in list(linear_layers(model)):
        parent, _, own = name.rpartition(".")
        layer = Int8Linear(module.in_features, module.out_features, bias=module.bias is not None)
        layer.weight.data, layer.weight_scale.data = rounded(module.weight)
        if layer.bias is not None:
            layer.bias.data = module.bias.detach().float()
        setattr(model.get_submodule(parent), own, layer)
    return model


class PartedLinear(nn.Module):
    """An int8 layer that rounds each part of a row with a scale of its own, as ranks do that share out its inputs."""

    def __init__(self, layer: Int8Linear, parts: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList()
        for weight in layer.weight.chunk(parts, dim=1):
            part = Int8Linear(weight.shape[1], layer.out_features, bias=False)
            part.weight.data, part.weight_scale.data = weight.contiguous(), layer.weight_scale.data
            self.parts.append(part)
        self.bias = layer.bias

    def forward(self, rows: Tensor) -> Tensor:
        widths = [part.in_features for part in self.parts]
        total = sum(part(own) for part, own in zip(self.parts, rows.split(widths, dim=-1), strict=True))
        return total if self.bias is None else total + self.bias


def in_parts(model: Any, parts: int) -> Any:
    """A copy of a quantised model that computes in one process what so many ranks do."""
    model = copy.deepcopy(model)
    for name, layer in [(name, part) for name, part in model.named_modules() if isinstance(part, Int8Linear)]:
        if name.endswith(SHARED_INPUTS):
            model.set_submodule(name, PartedLinear(layer, parts))
    return model


def with_biases(model: Any) -> Any:
    """The float model, with biases in all linear layers and in the norms of its layers, as against outliers."""
    generator = torch.Generator().manual_seed(11)
    for _, layer in linear_layers(model):
        if layer.bias is None:
            layer.bias = nn.Parameter(0.3 * torch.randn(layer.out_features, generator=generator), requires_grad=False)
    for layer in model.model.layers:
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            add_bias(norm)
            norm.bias.data = 0.3 * torch.randn(norm.bias.shape, generator=generator)
    return model


def without_rounding(model: Any) -> Any:
    """A copy of a quantised model that multiplies the same weights as floats by activations as they are."""
    model = copy.deepcopy(model)
    for name, layer in [(name, part) for name, part in model.named_modules() if isinstance(part, Int8Linear)]:
        parent, _, own = name.rpartition(".")
        whole = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None, dtype=model.dtype)
        whole.weight.data = (layer.weight.float() * layer.weight_scale).to(model.dtype)
        if layer.bias is not None:
            whole.bias.data = layer.bias.detach().to(model.dtype)
        setattr(model.get_submodule(parent), own, whole)
    return model.requires_grad_(False)


def build_clear(family: str, prompts: list[list[int]], tokens: int) -> tuple[Any, list[list[int]]]:
    """The first quantised model, by seed, that answers all prompts with likeliest tokens far before the next, and what
    generate answers."""
    for seed in count():
        model = quantise(families.build(family, seed))
        answers = [families.answer_of(model, prompt, tokens, GAP) for prompt in prompts]
        if None not in answers:
            return model, [answer for answer in answers if answer is not None]
    raise AssertionError("count() does not end")


@dataclass(frozen=True)
class SharedOut:
    """A folder whose model answers clearly when two ranks share it."""

    folder: Path
    whole: Any
    """The model, as one rank has it."""
    halves: Any
    """Computes in one process what two ranks do."""
    answers: list[list[int]]
    """What ``halves`` generates."""

    def logits(self, model: Any, prompt: list[int]) -> Tensor:
        """Behind a prompt, ``[vocab]``."""
        logits: Tensor = model(torch.tensor([prompt])).logits[0, -1]
        return logits


def shared_out(family: str, folder: Path, prompts: list[list[int]], tokens: int) -> SharedOut:
    """The first float model of a family, by seed, that answers all prompts clearly once it is written with int8.

    The families differ in what is shared out: qwen2 and glm4 have biases everywhere, llama a width that is odd;
    starcoder2 has no layers that are replaced as a whole, and glm4 some whose outputs transformers gathers or whose
    inputs it cuts, so that only their products are replaced.
    """
    makes: dict[str, tuple[Callable[[int], Any], Callable[[Any, Path], None]]] = {
        "qwen2": (lambda seed: with_biases(families.build("qwen2", seed)), write_modelslim),
        "llama": (lambda seed: families.build("llama", seed, intermediate_size=51), write_compressed_tensors),
        "starcoder2": (lambda seed: families.build("starcoder2", seed), write_compressed_tensors),
        "glm4": (lambda seed: with_biases(families.build("glm4", seed)), write_modelslim),
    }
    make, write = makes[family]
    for seed in count():
        place = folder / f"{family}-{seed}"
        write(make(seed), place)
        whole = load(place, dtype="float32", device="cpu").model
        halves = in_parts(whole, 2)
        answers = [families.answer_of(halves, prompt, tokens, GAP) for prompt in prompts]
        if None not in answers:
            return SharedOut(place, whole, halves, [answer for answer in answers if answer is not None])
    raise AssertionError("count() does not end")


def write_modelslim(model: Any, folder: Path, **changes: Any) -> None:
    """Write a float model as ModelSlim does for W8A8_DYNAMIC; ``changes`` are entries of the description."""
    tensors, layers = _tensors(model, torch.float32)
    for name in layers:
        tensors[f"{name}.weight_offset"] = torch.zeros_like(tensors[f"{name}.weight_scale"])
    quantised = tuple(f"{name}.weight" for name in layers)
    description = {"model_quant_type": "W8A8_DYNAMIC", "version": "1.0.0", "group_size": 0, "metadata": {}}
    description |= {name: "W8A8_DYNAMIC" if name.startswith(quantised) else "FLOAT" for name in tensors}
    _write_config(model, folder, quantize="w8a8_dynamic")
    (folder / "quant_model_description.json").write_text(json.dumps({**description, **changes}))
    save_file(tensors, folder / "quant_model_weight_w8a8_dynamic.safetensors", {"format": "pt"})


def write_compressed_tensors(model: Any, folder: Path, config: dict[str, Any] = CONFIG) -> None:
    """Write a float model in the compressed-tensors format."""
    tensors, _ = _tensors(model, torch.bfloat16)
    _write_config(model, folder, quantization_config=config)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def _tensors(model: Any, scales: torch.dtype) -> tuple[dict[str, Tensor], list[str]]:
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    layers = [name for name, _ in linear_layers(model)]
    for name in layers:
        tensors[f"{name}.weight"], tensors[f"{name}.weight_scale"] = rounded(tensors[f"{name}.weight"], scales)
    return tensors, layers


def _write_config(model: Any, folder: Path, **more: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**model.config.to_diff_dict(), **more}))
