"""The fused modules of Llama-like models on an NPU: the same shapes, with torch_npu's operators inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from engine.attention.npu import NpuStep
from engine.attention.registry import LayerRules
from engine.fused.int8_products import Int8Product
from engine.fused.layers import DecoderLayer, GatedFeedForward
from engine.npu import operators
from engine.quantised.linear import Int8Linear
from engine.quantised.norm import bias_of


class NpuNorm(nn.Module):
    """Root mean square norm."""

    def __init__(self, norm: Any) -> None:
        """Take the place of a norm with a ``weight`` and a ``variance_epsilon``."""
        super().__init__()
        self.gain: Tensor = norm.weight.detach()  # [width]
        self.epsilon: float = norm.variance_epsilon
        self.bias = bias_of(norm)

    def forward(self, rows: Tensor) -> Tensor:
        """``[..., width]`` to the same."""
        return self._shifted(operators.rms_norm(rows, self.gain, self.epsilon))

    def of_sum(self, rows: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """The norm of ``rows + residual``, and the sum itself."""
        normed, total = operators.add_rms_norm(rows, residual, self.gain, self.epsilon)
        return self._shifted(normed), total

    def _shifted(self, normed: Tensor) -> Tensor:
        return normed if self.bias is None else normed + self.bias


class NpuInt8Product(Int8Product):
    """A product with int8 weights."""

    def __init__(self, layers: Sequence[Int8Linear]) -> None:
        """See ``Int8Product``.

        Raises:
            ValueError: more outputs or inputs than the operator takes.
        """
        super().__init__(layers)
        if max(self.weight.shape) > operators.MOST_OUTPUTS:
            raise ValueError(f"an int8 weight {list(self.weight.shape)}, where {operators.MOST_OUTPUTS} is the most")

    def part(self, rows: Tensor, bias: Tensor | None) -> Tensor:
        """See ``Product.part``."""
        return operators.int8_product(rows, self.weight, self.scales, bias)


class NpuFeedForward(GatedFeedForward):
    """``down(silu(gate(x)) * up(x))``."""

    int8_product = NpuInt8Product

    def inner(self, rows: Tensor) -> Tensor:
        """See ``GatedFeedForward.inner``."""
        return operators.gated(self.gate_up(rows))


class NpuDecoderLayer(DecoderLayer):
    """A decoder layer of the Llama shape: the second norm and the residual sum before it are one operator."""

    norm_type = NpuNorm
    feed_forward_type = NpuFeedForward

    def forward(  # type: ignore[override]  # the plan is the NPU's
        self, hidden_states: Tensor, *, position_embeddings: tuple[Tensor, Tensor], plan: NpuStep, **_: Any
    ) -> Tensor:
        """See ``DecoderLayer.forward``."""
        residual = hidden_states[0]  # [tokens, width]
        tokens = residual.shape[0]
        qkv = self.qkv(self.before_attention(residual)).view(tokens, -1, self.head_dim)  # [tokens, heads + 2 kv, dim]
        query, key, value = qkv.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        if self.head_norms is not None:
            query, key = (norm(heads) for norm, heads in zip(self.head_norms, (query, key), strict=True))
        query, key = (self._rotated(heads, position_embeddings, plan) for heads in (query, key))
        rules = LayerRules(self.scale, self.sliding_window)
        attended = self.out(plan.attend(self.layer_idx, query, key, value, rules).reshape(tokens, -1))
        normed, residual = self.before_feed_forward.of_sum(attended, residual)
        return self.feed_forward.down.plus(self.feed_forward.inner(normed), residual).unsqueeze(0)

    def _rotated(self, heads: Tensor, position_embeddings: tuple[Tensor, Tensor], plan: NpuStep) -> Tensor:
        """``[tokens, heads, dim]`` to the same."""
        if plan.rotary is None:
            cosines, sines = position_embeddings  # [1, tokens, dim]
            plan.rotary = cosines.unsqueeze(2), sines.unsqueeze(2)
        return operators.rotate(heads.unsqueeze(0), *plan.rotary)[0]
