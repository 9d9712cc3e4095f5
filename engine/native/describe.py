"""A transformers model of the Llama kind as data for the native step, or the reason why it is none."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.attention.registry import ShapeProbe
from engine.forward import ModelMismatch
from engine.types import ModelInfo

UNIT = 32
"""Widths that the kernels read in one piece: sizes must be multiples."""
MAX_HEAD_DIM = 512

_TWO_NORMS = frozenset({"input_layernorm", "post_attention_layernorm"})
_FOUR_NORMS = _TWO_NORMS | {"pre_feedforward_layernorm", "post_feedforward_layernorm"}
_NORMS_OF = {
    **dict.fromkeys(("Llama", "Qwen2", "Qwen3", "Mistral", "Gemma", "Granite", "Phi3"), _TWO_NORMS),
    **dict.fromkeys(("Gemma2", "Gemma3"), _FOUR_NORMS),
}
"""The decoder layers whose order of operations is known, by the first part of their class's name."""
_ATTENTION_PARTS = frozenset({"q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm", "qkv_proj"})
_FEED_FORWARD_PARTS = frozenset({"gate_proj", "up_proj", "down_proj", "gate_up_proj", "act_fn", "activation_fn"})
_ROPE_ROWS = 4096
"""Positions whose rotation is computed at a time."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Linear layers that read the same rows, as matrices ``[outputs, inputs]`` one below the other."""

    weights: list[Tensor]
    bias: Tensor | None
    """float32, of all outputs."""
    interleaved: bool = False
    """Two matrices of which 16 rows come from the first, then 16 from the second, and so on."""


@dataclass(frozen=True, slots=True)
class LayerDescription:
    """One decoder layer. Gains are float32 ``[width]``; ``*_post`` norm a branch before it is added."""

    attention_norm: Tensor
    feed_forward_norm: Tensor
    query_norm: Tensor | None
    key_norm: Tensor | None
    attention_post: Tensor | None
    feed_forward_post: Tensor | None
    cosines: Tensor
    """float32 ``[positions, rotated / 2]``, as are the sines."""
    sines: Tensor
    qkv: Projection
    out: Projection
    gate_up: Projection
    down: Projection


@dataclass(frozen=True, slots=True)
class Description:
    """A whole model. Names as in src/model.h."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    gelu: bool
    epsilon: float
    attention_scale: float
    attention_cap: float
    logit_cap: float
    embedding_factor: float
    residual_factor: float
    logit_factor: float
    embeddings: Tensor | None
    """``[vocab, hidden]``; None where the head's weights are the same tensor."""
    norm: Tensor
    head: Projection
    layers: list[LayerDescription]


@torch.inference_mode()
def describe(model: Any, info: ModelInfo, probe: ShapeProbe, positions: int) -> Description:
    """Read a model's structure and weights.

    Args:
        model: a causal language model of transformers on a CPU, in bfloat16.
        info: of the model.
        probe: what its layers asked of their attention.
        positions: so many have a rotation.

    Raises:
        ModelMismatch: something in it is not known here.
    """
    if model.dtype != torch.bfloat16:
        raise ModelMismatch(f"its weights are {info.dtype}, and the native step multiplies bfloat16 only.")
    _only(model, {"model", "lm_head"})
    base, config = model.model, model.config.get_text_config()
    _only(base, {"embed_tokens", "layers", "norm", "rotary_emb"})
    shape, rules = probe.shapes[0], probe.rules[0]
    if any(probe.shapes[index] != shape for index in probe.shapes) or shape.key_dim != shape.value_dim:
        raise ModelMismatch("its layers differ in the heads of their attention.")
    if any((other.scale, other.softcap) != (rules.scale, rules.softcap) for other in probe.rules.values()):
        raise ModelMismatch("its layers differ in the scale of their attention.")
    if any(other.sinks is not None for other in probe.rules.values()):
        raise ModelMismatch("its attention has sinks.")
    rotations: dict[str | None, tuple[Tensor, Tensor]] = {}
    kinds = _rotation_kinds(base.rotary_emb, config, len(base.layers))
    for kind in kinds:
        if kind not in rotations:
            rotations[kind] = _rotation(base.rotary_emb, kind, positions)
    epsilon = _epsilon(base.norm)
    layers = [
        _layer(layer, rotations[kind], shape.key_dim, epsilon) for layer, kind in zip(base.layers, kinds, strict=True)
    ]
    tied = model.lm_head.weight.data_ptr() == base.embed_tokens.weight.data_ptr()
    found = Description(
        hidden=base.embed_tokens.weight.shape[1],
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.key_dim,
        inner=layers[0].down.weights[0].shape[1],
        vocab=info.vocab_size,
        gelu=_is_gelu(base.layers[0].mlp),
        epsilon=epsilon,
        attention_scale=rules.scale,
        attention_cap=rules.softcap or 0.0,
        logit_cap=getattr(config, "final_logit_softcapping", None) or 0.0,
        embedding_factor=float(getattr(base.embed_tokens, "embed_scale", 1.0))
        * getattr(config, "embedding_multiplier", 1.0),
        residual_factor=getattr(config, "residual_multiplier", 1.0),
        logit_factor=1.0 / getattr(config, "logits_scaling", 1.0),
        embeddings=None if tied else base.embed_tokens.weight.detach(),
        norm=_gains(base.norm, epsilon),
        head=_projection([model.lm_head]),
        layers=layers,
    )
    _check_sizes(found)
    return found


def _check_sizes(found: Description) -> None:
    """Raise ModelMismatch for sizes that the kernels cannot hold, and for layers of different sizes."""
    sizes = {"hidden size": found.hidden, "head size": found.head_dim, "feed-forward size": found.inner}
    for name, size in sizes.items():
        if size % UNIT:
            raise ModelMismatch(f"its {name} is {size}, and the native step needs multiples of {UNIT}.")
    if found.head_dim > MAX_HEAD_DIM:
        raise ModelMismatch(f"its head size is {found.head_dim}, above {MAX_HEAD_DIM}.")
    query, keys = found.heads * found.head_dim, found.kv_heads * found.head_dim
    for index, layer in enumerate(found.layers):
        shapes = [
            (layer.qkv, query + 2 * keys, found.hidden),
            (layer.out, found.hidden, query),
            (layer.gate_up, 2 * found.inner, found.hidden),
            (layer.down, found.hidden, found.inner),
        ]
        for projection, outputs, inputs in shapes:
            rows = sum(weight.shape[0] for weight in projection.weights)
            if rows != outputs or any(weight.shape[1] != inputs for weight in projection.weights):
                raise ModelMismatch(f"a matrix of its layer {index} has an unexpected shape.")


def _layer(layer: Any, rotation: tuple[Tensor, Tensor], head_dim: int, epsilon: float) -> LayerDescription:
    name = type(layer).__name__
    norms = _NORMS_OF.get(name.removesuffix("DecoderLayer"))
    if norms is None or not name.endswith("DecoderLayer"):
        raise ModelMismatch(f"the order of operations in its {name} is not known to the native step.")
    dropouts = {child for child, module in layer.named_children() if type(module) is nn.Dropout}
    _only(layer, {"self_attn", "mlp", *norms}, dropouts)
    attention, feed_forward = layer.self_attn, layer.mlp
    _only(attention, set(), _ATTENTION_PARTS)
    _only(feed_forward, set(), _FEED_FORWARD_PARTS)
    four = norms is _FOUR_NORMS
    fused_qkv = getattr(attention, "qkv_proj", None)
    qkv = [fused_qkv] if fused_qkv is not None else [attention.q_proj, attention.k_proj, attention.v_proj]
    head_norms = [getattr(attention, part, None) for part in ("q_norm", "k_norm")]
    return LayerDescription(
        attention_norm=_gains(layer.input_layernorm, epsilon),
        feed_forward_norm=_gains(layer.pre_feedforward_layernorm if four else layer.post_attention_layernorm, epsilon),
        query_norm=None if head_norms[0] is None else _gains(head_norms[0], epsilon, head_dim),
        key_norm=None if head_norms[1] is None else _gains(head_norms[1], epsilon, head_dim),
        attention_post=_gains(layer.post_attention_layernorm, epsilon) if four else None,
        feed_forward_post=_gains(layer.post_feedforward_layernorm, epsilon) if four else None,
        cosines=rotation[0],
        sines=rotation[1],
        qkv=_projection(qkv),
        out=_projection([attention.o_proj]),
        gate_up=_gate_up(feed_forward),
        down=_projection([feed_forward.down_proj]),
    )


def _only(module: nn.Module, needed: set[str], possible: Sequence[str] | frozenset[str] | set[str] = ()) -> None:
    """Raise ModelMismatch where a module has other parts than these, or parameters of its own."""
    parts = set(dict(module.named_children()))
    other = (needed - parts) | (parts - needed - set(possible))
    other |= {name for name, _ in module.named_parameters(recurse=False)}
    if other:
        raise ModelMismatch(f"the part {min(other)!r} of its {type(module).__name__} is missing or not known.")


def _projection(layers: Sequence[Any]) -> Projection:
    for layer in layers:
        if type(layer) is not nn.Linear:
            raise ModelMismatch(f"one of its products is a {type(layer).__name__}.")
    biases = [
        torch.zeros(layer.out_features) if layer.bias is None else layer.bias.detach().float() for layer in layers
    ]
    bias = torch.cat(biases) if any(layer.bias is not None for layer in layers) else None
    return Projection([layer.weight.detach() for layer in layers], bias)


def _gate_up(feed_forward: Any) -> Projection:
    fused = getattr(feed_forward, "gate_up_proj", None)
    if fused is not None:
        whole = _projection([fused])
        weights, bias = list(whole.weights[0].chunk(2)), whole.bias
    else:
        whole = _projection([feed_forward.gate_proj, feed_forward.up_proj])
        weights, bias = whole.weights, whole.bias
    if bias is not None:
        # In the order of the columns: 16 of the gate, 16 of up.
        gate, up = bias.chunk(2)
        bias = torch.stack((gate.view(-1, 16), up.view(-1, 16)), dim=1).reshape(-1)
    return Projection(weights, bias, interleaved=True)


def _is_gelu(feed_forward: Any) -> bool:
    """Whether the activation is the tanh form of GELU; raises ModelMismatch where it is not SiLU either."""
    activation = getattr(feed_forward, "act_fn", None) or feed_forward.activation_fn
    x = torch.linspace(-6, 6, 257)
    found = activation(x)
    for gelu, wanted in ((False, functional.silu(x)), (True, functional.gelu(x, approximate="tanh"))):
        if torch.allclose(found, wanted, atol=1e-6, rtol=1e-5):
            return gelu
    raise ModelMismatch(f"its activation {type(activation).__name__} is neither SiLU nor the tanh form of GELU.")


def _epsilon(norm: Any) -> float:
    found = getattr(norm, "variance_epsilon", getattr(norm, "eps", None))
    if not isinstance(found, float):
        raise ModelMismatch(f"its {type(norm).__name__} has no epsilon.")
    return found


def _gains(norm: Any, epsilon: float, width: int | None = None) -> Tensor:
    """What a norm multiplies by, whether it stores that or one less: float32 ``[width]``.

    Found by calling it; that it is ``x * gains / sqrt(mean(x * x) + epsilon)`` is found the same way.
    """
    name = type(norm).__name__
    if _epsilon(norm) != epsilon:
        raise ModelMismatch("its norms differ in their epsilon.")
    size = norm.weight.shape[0]
    if width not in (None, size):
        raise ModelMismatch(f"its {name} of heads is {size} wide instead of {width}.")
    ones = torch.ones(1, size)
    gains: Tensor = norm(ones)[0].float() * (1 + epsilon) ** 0.5
    x = torch.linspace(-1, 2, size)
    wanted = x * gains * torch.rsqrt(x.square().mean() + epsilon)
    if not torch.allclose(norm(x[None])[0].float(), wanted, atol=1e-4, rtol=1e-3):
        raise ModelMismatch(f"its {name} is not a root mean square norm.")
    return gains.contiguous()


def _rotation_kinds(rotary: Any, config: Any, layers: int) -> list[str | None]:
    """Which rotation each layer has, where the model tells them apart."""
    if "layer_type" not in inspect.signature(rotary.forward).parameters:
        return [None] * layers
    kinds: list[str | None] = list(config.layer_types)
    return kinds


def _rotation(rotary: Any, kind: str | None, positions: int) -> tuple[Tensor, Tensor]:
    """The model's own cosines and sines, float32 ``[positions, rotated / 2]`` each."""
    types = rotary.rope_type
    if (types if isinstance(types, str) else types.get(kind)) == "dynamic":
        raise ModelMismatch("its rotation depends on the length of the sequence.")
    extra = () if kind is None else (kind,)
    pieces = []
    for begin in range(0, positions, _ROPE_ROWS):
        rows = torch.arange(begin, min(begin + _ROPE_ROWS, positions))[None]
        both = torch.stack(rotary(torch.zeros(1, 1), rows, *extra))[:, 0].float()  # [2, rows, rotated]
        first, second = both.chunk(2, dim=-1)
        if not torch.equal(first, second):
            raise ModelMismatch("its rotation pairs other dimensions than the two halves of a head.")
        pieces.append(first)
    cosines, sines = torch.cat(pieces, dim=1)
    return cosines.contiguous(), sines.contiguous()
