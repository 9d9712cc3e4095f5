"""Fused forms of the modules of Llama-like models: norms, gated feed-forward layers, whole decoder layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.attention.cpu import CpuStep
from engine.attention.registry import LayerRules
from engine.fused.int8_products import Int8Product, joined
from engine.fused.products import Product
from engine.parallel.shards import outputs
from engine.quantised.norm import bias_of


class Norm(nn.Module):
    """Root mean square norm: computed in float32, rounded once.

    ``x * gain / sqrt(mean(x * x) + epsilon)`` is ``x / hypot(|x|, sqrt(n * epsilon)) * (gain * sqrt(n))``, which takes
    half the operators of ``functional.rms_norm`` and none that mixes dtypes (those are slow on many rows).
    """

    def __init__(self, norm: Any) -> None:
        """Take the place of a norm with a ``weight`` and a ``variance_epsilon``."""
        super().__init__()
        width = norm.weight.shape[-1]
        self._gain = norm.weight.detach().float() * width**0.5  # [width]
        self._least = torch.tensor((width * norm.variance_epsilon) ** 0.5)
        self._bias = bias_of(norm)

    def forward(self, rows: Tensor) -> Tensor:
        """``[..., width]`` to the same."""
        whole = rows.float()
        length = torch.linalg.vector_norm(whole, dim=-1, keepdim=True)
        normed = torch.div(whole, length.hypot_(self._least)).mul_(self._gain).to(rows.dtype)
        return normed if self._bias is None else normed + self._bias


class GatedFeedForward(nn.Module):
    """``down(silu(gate(x)) * up(x))`` with one product for gate and up."""

    int8_product: type[Int8Product] = Int8Product

    def __init__(self, feed_forward: Any) -> None:
        """Take the place of a module with ``gate_proj``, ``up_proj`` and ``down_proj`` whose activation is SiLU."""
        super().__init__()
        self.gate_up = joined([feed_forward.gate_proj, feed_forward.up_proj], self.int8_product)
        self.down = joined([feed_forward.down_proj], self.int8_product)
        self._inner: int = self.down.in_features

    def linear_layers(self) -> Iterator[tuple[Product, tuple[str, ...]]]:
        """The products, each with the names of the layers whose outputs it gives."""
        yield self.gate_up, ("gate_proj", "up_proj")
        yield self.down, ("down_proj",)

    def inner(self, rows: Tensor) -> Tensor:
        """Everything before ``down``: ``[..., width]`` to ``[..., inner width]``."""
        gate_up = self.gate_up(rows)
        gate, up = gate_up[..., : self._inner], gate_up[..., self._inner :]
        return functional.silu(gate).mul_(up)

    def forward(self, rows: Tensor) -> Tensor:
        """``[..., width]`` to the same."""
        out: Tensor = self.down(self.inner(rows))
        return out


class DecoderLayer(nn.Module):
    """A decoder layer of the Llama shape: norm, attention, norm, gated feed-forward, with two residual sums.

    One product gives queries, keys and values; they are rotated and stored in place, and the residual sums are part of
    the products before them. So 13 operators run where the model's own layer runs about 40.
    """

    norm_type: type[Any] = Norm
    feed_forward_type: type[GatedFeedForward] = GatedFeedForward

    def __init__(self, layer: Any) -> None:
        """Take the place of a Llama, Mistral, Qwen2 or Qwen3 decoder layer."""
        super().__init__()
        attention = layer.self_attn
        self.layer_idx: int = attention.layer_idx
        self.head_dim: int = attention.head_dim
        self.heads = outputs(attention.q_proj) // self.head_dim
        self.kv_heads = outputs(attention.k_proj) // self.head_dim
        self.scale: float = attention.scaling
        window = getattr(attention, "sliding_window", None)
        if not hasattr(attention, "sliding_window") and "Mistral" in type(attention).__name__:
            window = attention.config.sliding_window
        self.sliding_window: int | None = window
        kind = self.feed_forward_type.int8_product
        self.qkv = joined([attention.q_proj, attention.k_proj, attention.v_proj], kind)
        self.out = joined([attention.o_proj], kind)
        self.feed_forward = self.feed_forward_type(layer.mlp)
        self.before_attention = self.norm_type(layer.input_layernorm)
        self.before_feed_forward = self.norm_type(layer.post_attention_layernorm)
        named = [getattr(attention, name, None) for name in ("q_norm", "k_norm")]
        self.head_norms = [self.norm_type(norm) for norm in named] if named[0] is not None else None
        """Of queries and of keys, head by head."""

    def linear_layers(self) -> Iterator[tuple[Product, tuple[str, ...]]]:
        """The products, each with the names of the layers whose outputs it gives."""
        yield self.qkv, ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        yield self.out, ("self_attn.o_proj",)
        for product, names in self.feed_forward.linear_layers():
            yield product, tuple(f"mlp.{name}" for name in names)

    def forward(
        self, hidden_states: Tensor, *, position_embeddings: tuple[Tensor, Tensor], plan: CpuStep, **_: Any
    ) -> Tensor:
        """``[1, tokens, width]`` to the same.

        Args:
            hidden_states: the residual stream.
            position_embeddings: cosines and sines, ``[1, tokens, head_dim]``.
            plan: the step.
            _: what transformers passes besides: the mask, which is None, positions, and a cache that there is not.
        """
        residual = hidden_states[0]  # [tokens, width]
        tokens = residual.shape[0]
        qkv = self.qkv(self.before_attention(residual)).view(tokens, -1, self.head_dim)  # [tokens, heads + 2 kv, dim]
        self._rotate(qkv[:, : self.heads + self.kv_heads], position_embeddings, plan)
        rules = LayerRules(self.scale, self.sliding_window)
        attended = plan.attend_joined(self.layer_idx, qkv[:, : self.heads], qkv[:, self.heads :], rules)
        residual = self.out.plus(attended.view(tokens, -1), residual)
        inner = self.feed_forward.inner(self.before_feed_forward(residual))
        return self.feed_forward.down.plus(inner, residual).unsqueeze(0)

    def _rotate(self, heads: Tensor, position_embeddings: tuple[Tensor, Tensor], plan: CpuStep) -> None:
        """Norm, where the model has one, and rotate query and key heads ``[tokens, heads, dim]`` in place."""
        if plan.rotary is None:
            cosines, sines = (table[0].unsqueeze(1) for table in position_embeddings)  # [tokens, 1, dim]
            half = self.head_dim // 2
            # The halves swap places, and the one that comes first changes its sign.
            plan.rotary = cosines, torch.cat((-sines[..., :half], sines[..., half:]), dim=-1)
        cosines, sines = plan.rotary
        if self.head_norms is not None:
            of_queries, of_keys = self.head_norms
            heads[:, : self.heads] = of_queries(heads[:, : self.heads])
            heads[:, self.heads :] = of_keys(heads[:, self.heads :])
        swapped = torch.roll(heads, self.head_dim // 2, dims=-1)
        heads.mul_(cosines).addcmul_(swapped, sines)
