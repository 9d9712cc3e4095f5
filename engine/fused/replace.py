"""Replaces modules of a loaded model by fused ones, each after a comparison on what the model gave the original."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engine.fused.huge_pages import use_huge_pages
from engine.fused.int8_products import Int8Product, joined
from engine.fused.layers import DecoderLayer, GatedFeedForward, Norm
from engine.fused.products import Product
from engine.quantised.linear import Int8Linear, is_quantised

_LAYERS = frozenset(
    f"{family}DecoderLayer" for family in ("Llama", "Mistral", "Qwen2", "Qwen2VL", "Qwen2_5_VL", "Qwen3")
)
_ATTENTION_PARTS = frozenset({"q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"})
_LINEAR = (nn.Linear, Int8Linear)
_JOINED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Layers whose outputs one product gives, so that all of them have int8 weights or none."""
_TOLERANCE = {torch.float32: 1e-4}
_TOLERANCE_HALF = 0.03
"""Error of a replaced module's output as a part of the original's, root mean squares."""
_TOLERANCE_INT8 = 0.1
"""The same where activations become int8: what half precision leaves open in one decides which of two int8 numbers it
becomes. Layers of tiny models differed by 0.035, where they differed by 0.01 without."""

_FAULTS = (AttributeError, RuntimeError, TypeError, ValueError)
"""Of a module that does not fit."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Candidate:
    """A module that something faster may replace."""

    parent: nn.Module
    name: str
    module: nn.Module
    make: Callable[[Any], nn.Module]
    call: tuple[tuple[Any, ...], dict[str, Any], Any] | None = None
    """Arguments, keywords and result of its last call in the trial."""


@dataclass(frozen=True, slots=True)
class FusedKinds:
    """What is put in, by what it replaces."""

    layer: type[DecoderLayer] | None
    """None leaves layers, and replaces what is in them."""
    feed_forward: type[GatedFeedForward]
    norm: type[nn.Module]


@torch.inference_mode()
def replace_modules(model: nn.Module, trial: Callable[[], object], kinds: FusedKinds | None = None) -> int:
    """Put fused modules into ``model`` wherever one fits and agrees with what it replaces.

    One layer at a time, so that no more than one layer's weights are in memory twice.

    Args:
        model: it runs packed already.
        trial: runs a few tokens through the model.
        kinds: the modules of its device; None takes the CPU's.

    Returns:
        How many modules were replaced.
    """
    candidates = list(_candidates(model, kinds or FusedKinds(DecoderLayer, GatedFeedForward, Norm)))
    hooks = [candidate.module.register_forward_hook(_recorder(candidate), with_kwargs=True) for candidate in candidates]
    try:
        trial()
    finally:
        for hook in hooks:
            hook.remove()
    replaced = 0
    while candidates:
        # Taken off the list, so that nothing holds the weights of a module that has been replaced.
        replaced += _replace(candidates.pop(0))
    products = [module for module in model.modules() if isinstance(module, Product)]
    _leave_file(model, sum(product.memory()[1] for product in products))
    moved = use_huge_pages(product.memory() for product in products if product.is_packed)
    _log.info("%d modules replaced, %d MiB of weights in huge pages", replaced, moved >> 20)
    return replaced


def _leave_file(model: nn.Module, ordered: int) -> None:
    """Copy the few weights that are left, where ``ordered`` bytes were copied already.

    The loader maps the file of the weights, and one embedding would keep all of it in memory.
    """
    if sum(parameter.nbytes for parameter in model.parameters()) < ordered:
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()


def _candidates(parent: nn.Module, kinds: FusedKinds) -> Iterator[_Candidate]:
    """Replaceable modules below ``parent``, the largest first: the inside of one that is replaced is not looked at."""
    for name, module in parent.named_children():
        make = _maker(module, kinds)
        if make is not None:
            yield _Candidate(parent, name, module, make)
        else:
            yield from _candidates(module, kinds)


def _maker(module: nn.Module, kinds: FusedKinds) -> Callable[[Any], nn.Module] | None:
    """What could replace a module, judged by its class and its parts."""
    if type(module) in _LINEAR:
        return lambda linear: joined([linear], kinds.feed_forward.int8_product)
    kind = type(module).__name__
    if kinds.layer is not None and kind in _LAYERS and _is_plain_layer(module):
        return kinds.layer
    if kind.endswith("MLP") and _is_gated(module):
        return kinds.feed_forward
    if kind.endswith("RMSNorm") and hasattr(module, "variance_epsilon") and hasattr(module, "weight"):
        return kinds.norm
    return None


def _is_plain_layer(layer: nn.Module) -> bool:
    parts = dict(layer.named_children())
    if set(parts) != {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}:
        return False
    attention = dict(parts["self_attn"].named_children())
    return set(attention) <= _ATTENTION_PARTS and _can_join(attention) and _is_gated(parts["mlp"])


def _is_gated(module: nn.Module) -> bool:
    parts = dict(module.named_children())
    linear = all(type(parts.get(name)) in _LINEAR for name in ("gate_proj", "up_proj", "down_proj"))
    return linear and _can_join(parts) and type(parts.get("act_fn")).__name__ in ("SiLU", "SiLUActivation")


def _can_join(parts: dict[str, nn.Module]) -> bool:
    return all(len({type(parts[name]) for name in names if name in parts}) <= 1 for names in _JOINED)


def _recorder(candidate: _Candidate) -> Callable[..., None]:
    def record(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        candidate.call = args, kwargs, output

    return record


def _replace(candidate: _Candidate) -> bool:
    """Try one replacement. A module that the trial did not reach (an expert that was not chosen) stays."""
    if candidate.call is None:
        return False
    original, call = candidate.module, candidate.call
    candidate.call = None
    try:
        module = candidate.make(original).eval()
    except _FAULTS as error:
        reason = str(error)
    else:
        reason = _difference(module, original, call)
        if not reason:
            setattr(candidate.parent, candidate.name, module)
            return True
        if isinstance(original, Int8Linear) and isinstance(module, Int8Product):
            # Where outputs of ranks are gathered, or inputs are cut for them, transformers does that around the layer.
            original.faster = module.part
            if not _difference(original, original, call):
                original.drop_weight()
                return True
            original.faster = None
    _log.info("%s %s stays: %s", type(original).__name__, candidate.name, reason)
    return False


def _difference(module: nn.Module, original: nn.Module, call: tuple[tuple[Any, ...], dict[str, Any], Any]) -> str:
    """Why a module cannot give what the original gave; empty where it does."""
    args, kwargs, wanted = call
    if isinstance(module, Product) and args and args[0].shape[-1] != module.in_features:
        return f"it gets rows of {args[0].shape[-1]} numbers, and this rank has weights for {module.in_features}"
    try:
        found = module(*args, **kwargs)
    except _FAULTS as error:
        return str(error) or type(error).__name__
    return "" if _agrees(found, wanted, original) else "its replacement gives other numbers"


def _agrees(found: Any, wanted: Any, original: nn.Module) -> bool:
    if not isinstance(found, Tensor) or not isinstance(wanted, Tensor) or found.shape != wanted.shape:
        return False
    if found.dtype != wanted.dtype:
        return False
    tolerance = _TOLERANCE_INT8 if is_quantised(original) else _TOLERANCE.get(wanted.dtype, _TOLERANCE_HALF)
    difference = (found.float() - wanted.float()).square().mean().sqrt()
    return bool(difference <= tolerance * wanted.float().square().mean().sqrt().clamp_min(1e-6))
