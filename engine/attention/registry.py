"""The seam into transformers' models: the attention function they call, and what it learns about their layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import AttentionInterface

from engine.forward import ModelMismatch

ATTENTION_NAME = "mindspec_packed"
"""The name under which transformers finds :func:`attention_forward`. Its registry of masks must not have it: models
then build no mask at all, which would be quadratic in the length of the whole pack."""

_WITHOUT_MEANING = frozenset({"position_ids", "cache", "past_key_values", "cache_position", "output_attentions"})
"""Keywords that models hand on which change nothing here: positions are applied already, and there is no cache."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    """The heads of one attention layer."""

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int

    @property
    def values_per_token(self) -> int:
        """Numbers that a token's keys and values take in this layer."""
        return self.kv_heads * (self.key_dim + self.value_dim)


@dataclass(frozen=True, slots=True)
class LayerRules:
    """How one layer attends, besides "to all earlier tokens and itself"."""

    scale: float
    """Factor on the products of queries and keys."""
    window: int | None = None
    """Tokens that a row sees, itself and the nearest before it; None sees all."""
    softcap: float | None = None
    """Scores go through ``softcap * tanh(score / softcap)``."""
    sinks: Tensor | None = None
    """One further score per head that takes probability and gives no value, ``[heads]``."""


class Step(Protocol):
    """What a forward carries through the model in its keyword ``plan``."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, rules: LayerRules) -> Tensor:
        """Store the keys and values of the step's rows, then attend.

        Args:
            layer: the attention module's ``layer_idx``.
            query: ``[tokens, heads, key_dim]``.
            key: ``[tokens, kv_heads, key_dim]``.
            value: ``[tokens, kv_heads, value_dim]``.
            rules: how this layer attends.

        Returns:
            ``[tokens, heads, value_dim]``.
        """
        ...


def register() -> None:
    """Tell transformers about :func:`attention_forward`; again is fine."""
    AttentionInterface.register(ATTENTION_NAME, attention_forward)


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    plan: Step,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What a model's attention module calls with its rotated queries and keys.

    Args:
        module: the attention module; its ``layer_idx`` names the layer.
        query: ``[1, heads, tokens, key_dim]``.
        key: ``[1, kv_heads, tokens, key_dim]``.
        value: ``[1, kv_heads, tokens, value_dim]``.
        attention_mask: None, since no mask is registered under our name.
        plan: the step, as it was given to the model.
        scaling: factor on the scores; None is ``key_dim ** -0.5``.
        dropout: 0, as the model is in eval mode.
        sliding_window: see ``LayerRules.window``.
        softcap: see ``LayerRules.softcap``.
        s_aux: see ``LayerRules.sinks``.
        others: what else the model passes; refused unless it means nothing here.

    Returns:
        ``[1, tokens, heads, value_dim]``, and no weights.

    Raises:
        ModelMismatch: the model asks for something that this function does not do.
    """
    if attention_mask is not None or dropout or others:
        _refuse_extras(module, attention_mask, dropout, others)
    rules = LayerRules(query.shape[-1] ** -0.5 if scaling is None else scaling, sliding_window, softcap, s_aux)
    layer: Any = module.layer_idx
    rows = plan.attend(layer, query[0].transpose(0, 1), key[0].transpose(0, 1), value[0].transpose(0, 1), rules)
    return rows.unsqueeze(0), None


def _refuse_extras(module: torch.nn.Module, mask: Tensor | None, dropout: float, others: Mapping[str, Any]) -> None:
    """Raise ModelMismatch for what cannot be honoured."""
    name = type(module).__name__
    if mask is not None:
        raise ModelMismatch(f"{name} brings an attention mask of its own.")
    if dropout:
        raise ModelMismatch(f"{name} uses dropout.")
    for keyword, value in others.items():
        known = keyword in _WITHOUT_MEANING or value is None or value is False
        if not known and not (keyword == "is_causal" and value is True):
            raise ModelMismatch(f"{name} passes {keyword!r} to its attention, which is not known here.")


class ShapeProbe:
    """A step that only writes down what each layer asks for; its attention gives zeros."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self.shapes: dict[int, LayerShape] = {}
        """Per layer index."""
        self.rules: dict[int, LayerRules] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, rules: LayerRules) -> Tensor:
        """See ``Step.attend``.

        Raises:
            ModelMismatch: a layer that calls twice, or keys and values that do not fit its queries.
        """
        shape = LayerShape(query.shape[1], key.shape[1], key.shape[2], value.shape[2])
        if layer in self.shapes:
            raise ModelMismatch(f"its layer {layer} attends more than once in a forward.")
        fits = key.shape[0] == value.shape[0] == query.shape[0] and value.shape[1] == key.shape[1]
        if not fits or shape.heads % shape.kv_heads or query.shape[2] != shape.key_dim:
            raise ModelMismatch(f"the queries, keys and values of its layer {layer} do not fit each other.")
        if not query.dtype == key.dtype == value.dtype:
            raise ModelMismatch(f"the queries, keys and values of its layer {layer} differ in dtype.")
        self.shapes[layer], self.rules[layer] = shape, rules
        return query.new_zeros(query.shape[0], shape.heads, shape.value_dim)
