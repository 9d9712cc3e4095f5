"""A described model in the native step's own memory: weights packed into one mapped piece, the rest as tensors."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from engine.native.describe import UNIT, Description, LayerDescription, Projection
from engine.native.library import CLayer, CLinear, CModel, Library, MappedMemory, ThreadPool

CpuWeights = Literal["bf16", "int8"]
"""How the matrices lie in memory: as they are, or each output's row as int8 multiples of a float32 scale."""

_ALIGNMENT = 64
_INTERLEAVED = 16
"""Columns of the gate, then as many of up."""


@dataclass(frozen=True, slots=True)
class PackedModel:
    """What the native step reads."""

    model: CModel
    layers: ctypes.Array[CLayer]
    memory: MappedMemory
    tensors: list[Tensor]
    """Gains, biases and rotations: the structures hold their addresses only."""


class _Packer:
    def __init__(self, library: Library, pool: ThreadPool, size: int, weights: CpuWeights) -> None:
        self._library = library
        self._pool = pool
        self._weights = weights
        self.memory = MappedMemory(library, size)
        self._used = 0
        self.tensors: list[Tensor] = []

    def _take(self, size: int) -> int:
        address = self.memory.address + self._used
        self._used += _rounded(size)
        assert self._used <= self.memory.size
        return address

    def tensor(self, tensor: Tensor | None) -> int | None:
        """The address of a float32 tensor that is kept."""
        if tensor is None:
            return None
        kept = tensor.float().contiguous()
        self.tensors.append(kept)
        return kept.data_ptr()

    def copy(self, matrix: Tensor | None) -> int | None:
        """A bfloat16 matrix as it is."""
        if matrix is None:
            return None
        whole = matrix.contiguous()
        address = self._take(whole.nbytes)
        ctypes.memmove(address, whole.data_ptr(), whole.nbytes)
        return address

    def linear(self, projection: Projection) -> CLinear:
        outputs, inputs = _shape(projection)
        target = self._take(_packed_bytes(projection, self._weights))
        scales = self.tensor(torch.zeros(_padded(outputs))) if self._weights == "int8" else None
        base = 0
        for index, weight in enumerate(projection.weights):
            rows = weight.shape[0]
            run, stride = (_INTERLEAVED, 2 * _INTERLEAVED) if projection.interleaved else (rows, 0)
            first = index * _INTERLEAVED if projection.interleaved else base
            source = weight.contiguous()
            columns = (source.data_ptr(), rows, inputs, first, run, stride)
            if scales is None:
                self._library.pack(self._pool.handle, target, *columns)
            else:
                self._library.pack_int8(self._pool.handle, target, scales, *columns)
            base += rows
        bias = projection.bias
        if bias is not None:
            bias = torch.nn.functional.pad(bias, (0, _padded(outputs) - outputs))
        return CLinear(target, scales, self.tensor(bias), outputs, inputs)

    def layer(self, layer: LayerDescription, window: int | None) -> CLayer:
        return CLayer(
            attention_norm=self.tensor(layer.attention_norm),
            feed_forward_norm=self.tensor(layer.feed_forward_norm),
            query_norm=self.tensor(layer.query_norm),
            key_norm=self.tensor(layer.key_norm),
            attention_post=self.tensor(layer.attention_post),
            feed_forward_post=self.tensor(layer.feed_forward_post),
            cosines=self.tensor(layer.cosines),
            sines=self.tensor(layer.sines),
            qkv=self.linear(layer.qkv),
            out=self.linear(layer.out),
            gate_up=self.linear(layer.gate_up),
            down=self.linear(layer.down),
            rotated=2 * layer.cosines.shape[1],
            window=window_of(window, layer.cosines.shape[0]),
        )


def pack(
    library: Library,
    pool: ThreadPool,
    found: Description,
    windows: list[int | None],
    page_size: int,
    weights: CpuWeights = "bf16",
) -> PackedModel:
    """Copy a model into the native step's memory; its own tensors may go then.

    Args:
        library: that does it.
        pool: its threads.
        found: the model.
        windows: per layer the tokens that a row sees, itself included; None sees all.
        page_size: tokens of a page.
        weights: of all matrices but the embeddings, which are looked up by row and stay as they are.

    Raises:
        MemoryError: there is no room.
    """
    projections = [
        found.head,
        *(p for layer in found.layers for p in (layer.qkv, layer.out, layer.gate_up, layer.down)),
    ]
    # A head of bfloat16 that has the same weights is read by column instead.
    embeddings = found.head.weights[0] if found.embeddings is None and weights == "int8" else found.embeddings
    size = sum(_rounded(_packed_bytes(projection, weights)) for projection in projections)
    if embeddings is not None:
        size += _rounded(embeddings.nbytes)
    packer = _Packer(library, pool, size, weights)
    layers = (CLayer * len(found.layers))(
        *(packer.layer(layer, window) for layer, window in zip(found.layers, windows, strict=True))
    )
    model = CModel(
        layers=len(found.layers),
        hidden=found.hidden,
        heads=found.heads,
        kv_heads=found.kv_heads,
        head_dim=found.head_dim,
        inner=found.inner,
        vocab=found.vocab,
        page=page_size,
        gelu=int(found.gelu),
        epsilon=found.epsilon,
        attention_scale=found.attention_scale,
        attention_cap=found.attention_cap,
        logit_cap=found.logit_cap,
        embedding_factor=found.embedding_factor,
        residual_factor=found.residual_factor,
        logit_factor=found.logit_factor,
        embeddings=packer.copy(embeddings),
        norm=packer.tensor(found.norm),
        head=packer.linear(found.head),
        layer=layers,
    )
    return PackedModel(model, layers, packer.memory, packer.tensors)


def window_of(window: int | None, positions: int) -> int:
    """``Layer.window`` of src/model.h: one that no sequence reaches beyond is none, and may be larger than an int."""
    return 0 if window is None or window >= positions else window


def _shape(projection: Projection) -> tuple[int, int]:
    return sum(weight.shape[0] for weight in projection.weights), projection.weights[0].shape[1]


def _packed_bytes(projection: Projection, weights: CpuWeights) -> int:
    """Whole blocks of columns, one or two bytes a weight."""
    outputs, inputs = _shape(projection)
    return _padded(outputs) * inputs * (1 if weights == "int8" else 2)


def _padded(outputs: int) -> int:
    """Whole blocks of columns."""
    return -(-outputs // UNIT) * UNIT


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
