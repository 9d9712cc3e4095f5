"""Reads an adapter's folder: its configuration, and from its safetensors file A and B of every layer it changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from engine.lora_config import AdapterConfig, LayerRank, LinearLayer
from engine.plan import AdapterTensors
from engine.types import AdapterError

WEIGHTS_FILE = "adapter_model.safetensors"
_PICKLED = ("adapter_model.bin", "adapter_model.pt", "adapter_model.pth")
_PREFIX = "base_model.model."
_HEADER_BYTES = 16 << 20
"""What names and places may take in the file, besides the numbers."""
_WIDEST = 8
"""Bytes of a number at most."""
_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def read_adapter(
    folder: Path, layers: Mapping[str, LinearLayer], dtype: torch.dtype, max_rank: int | None = None
) -> AdapterTensors:
    """Read and check a whole adapter. It touches no model, so any thread may do it.

    Args:
        folder: with adapter_config.json and adapter_model.safetensors, as PEFT saves them.
        layers: those of the model that an adapter may change, by name.
        dtype: of the result.
        max_rank: no layer may have a larger rank; None for no limit.

    Returns:
        Per changed layer A ``[rank, in]`` and B ``[out, rank]``, where B has the factor in it:
        ``y = x @ (W + B @ A).T``.

    Raises:
        AdapterError: it does not fit this model or is not whole; the message says which part.
    """
    if not folder.is_dir():
        raise AdapterError(f"there is no adapter folder named {folder.name!r}.")
    changed = AdapterConfig.read(folder).changed(layers)
    for name, layer in changed.items():
        if max_rank is not None and layer.rank > max_rank:
            raise AdapterError(f"its rank for {name!r} is {layer.rank}; at most {max_rank} is taken (maxLoraRank).")
    tensors = _tensors(folder, sum(_bytes(layers[name], layer) for name, layer in changed.items()))
    read = {}
    for name, layer in changed.items():
        size = layers[name]
        a = _take(tensors, f"{_PREFIX}{name}.lora_A.weight", (layer.rank, size.in_features))
        b = _take(tensors, f"{_PREFIX}{name}.lora_B.weight", (size.out_features, layer.rank))
        a, b = a.to(dtype), (b.float() * layer.factor).to(dtype)
        if not (a.isfinite().all() and b.isfinite().all()):
            raise AdapterError(f"its numbers for {name!r} are not all finite in {str(dtype).removeprefix('torch.')}.")
        read[name] = a.contiguous(), b.contiguous()
    if tensors:
        raise AdapterError(_unknown(min(tensors)))
    return read


def _bytes(layer: LinearLayer, change: LayerRank) -> int:
    return change.rank * (layer.in_features + layer.out_features) * _WIDEST


def _tensors(folder: Path, most_bytes: int) -> dict[str, Tensor]:
    """All tensors of the file, which is read as a whole: a mapped one that others cut short would end the process."""
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        pickled = next((name for name in _PICKLED if (folder / name).exists()), None)
        if pickled is not None:
            raise AdapterError(f"its weights are pickled ({pickled}), which is not read: convert to {WEIGHTS_FILE}.")
        raise AdapterError(f"the folder {folder.name!r} has no {WEIGHTS_FILE}.")
    most_bytes += _HEADER_BYTES
    try:
        with path.open("rb") as file:
            raw = file.read(most_bytes + 1)
    except OSError as error:
        raise AdapterError(f"{WEIGHTS_FILE} of {folder.name!r} cannot be read: {error.strerror}.") from error
    if len(raw) > most_bytes:
        raise AdapterError(f"{WEIGHTS_FILE} is larger than the {most_bytes} bytes that its layers and ranks can take.")
    try:
        return load(raw)
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise AdapterError(f"{WEIGHTS_FILE} is no whole safetensors file.") from error


def _take(tensors: dict[str, Tensor], key: str, shape: tuple[int, int]) -> Tensor:
    tensor = tensors.pop(key, None)
    if tensor is None:
        raise AdapterError(f"{key!r} is missing in {WEIGHTS_FILE}.")
    if tuple(tensor.shape) != shape:
        raise AdapterError(f"{key!r} has the shape {list(tensor.shape)}; this model and its rank need {list(shape)}.")
    if tensor.dtype not in _DTYPES:
        raise AdapterError(f"{key!r} holds {str(tensor.dtype).removeprefix('torch.')}, which is not served.")
    return tensor


def _unknown(key: str) -> str:
    """Why a tensor that no changed layer needs cannot be left aside."""
    shown = key[:200]
    if "lora_embedding_" in key:
        return f"it changes an embedding ({shown!r}), which is not served."
    if "lora_magnitude_vector" in key:
        return f"it uses DoRA ({shown!r}), which is not served."
    if ".lora_" not in key:
        return f"it brings a whole weight ({shown!r}); save it with save_embedding_layers=False."
    return f"{shown!r} belongs to no layer that its configuration names and this model lets adapters change."
