"""The encoder's input as a file: written by the process that decodes, read by the one that has the weights."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.types import MediaKind

Features = Mapping[str, Tensor]
"""Tensors by the names that the model's processor gives them, contiguous and on the CPU."""

_HASH_BYTES = 32


def content_hash(kind: MediaKind, features: Features) -> bytes:
    """BLAKE2b-256 of all that the encoder sees: the kind, and each tensor's name, dtype, shape and bytes."""
    digest = blake2b(kind.encode(), digest_size=_HASH_BYTES)
    for name in sorted(features):
        tensor = features[name].contiguous()
        digest.update(f"\0{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.digest()


def save_features(path: Path, features: Features) -> None:
    """Write the tensors to a new file."""
    save_file({name: tensor.contiguous() for name, tensor in features.items()}, path)


def load_features(path: str) -> dict[str, Tensor]:
    """All tensors of a file."""
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping


def load_feature(path: str, name: str) -> Tensor:
    """One tensor of a file, without reading the others. Raises SafetensorError where it has none of that name."""
    with safe_open(path, framework="pt") as file:
        tensor: Tensor = file.get_tensor(name)
    return tensor


def on_device(features: Features, device: torch.device) -> dict[str, Tensor]:
    """The tensors where a model is."""
    return {name: tensor.to(device) for name, tensor in features.items()}
