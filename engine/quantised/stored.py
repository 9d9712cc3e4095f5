"""The tensors that a folder's safetensors files have, by their headers alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

INDEX_ENDING = ".safetensors.index.json"
_FLOATS = frozenset({"F16", "BF16", "F32"})


class NotServed(Exception):
    """Quantised weights that are not served, or not whole; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """What a header says of a tensor."""

    file: Path
    name: str
    dtype: str
    """As safetensors writes it: I8, BF16."""
    shape: tuple[int, ...]

    def read(self) -> Tensor:
        """The tensor."""
        with safe_open(self.file, framework="pt") as file:
            tensor: Tensor = file.get_tensor(self.name)
            return tensor


@dataclass(frozen=True, slots=True)
class Int8Layer:
    """A linear layer with int8 weights."""

    in_features: int
    out_features: int
    has_bias: bool


def stored_tensors(folder: Path, weights: str) -> dict[str, StoredTensor]:
    """All tensors of a .safetensors file, or of the files that an index names.

    Raises:
        NotServed: a file is missing or cannot be read.
    """
    found: dict[str, StoredTensor] = {}
    for name in _files(folder, weights):
        try:
            with safe_open(folder / name, framework="pt") as file:
                for key in file.keys():  # noqa: SIM118 - it is no mapping
                    header = file.get_slice(key)
                    found[key] = StoredTensor(folder / name, key, header.get_dtype(), tuple(header.get_shape()))
        except (OSError, SafetensorError) as error:
            raise NotServed(f"{name} cannot be read: {str(error).splitlines()[0]}") from error
    return found


def int8_layers(tensors: Mapping[str, StoredTensor], names: Iterable[str]) -> dict[str, Int8Layer]:
    """The layers of these names.

    Raises:
        NotServed: one has no int8 weight ``[out, in]``, or no scale for each output, ``weight_scale`` ``[out, 1]``.
    """
    layers = {}
    for name in names:
        weight = _known(tensors, f"{name}.weight")
        if weight.dtype != "I8" or len(weight.shape) != 2:
            raise NotServed(f"{weight.name} is {_said(weight)}, where I8 [out, in] is served.")
        scale = _known(tensors, f"{name}.weight_scale")
        if scale.dtype not in _FLOATS or scale.shape != (weight.shape[0], 1):
            wanted = f"a float of shape [{weight.shape[0]}, 1], one scale for each output,"
            raise NotServed(f"{scale.name} is {_said(scale)}, where {wanted} is served.")
        layers[name] = Int8Layer(weight.shape[1], weight.shape[0], f"{name}.bias" in tensors)
    return layers


def all_zero(tensors: Mapping[str, StoredTensor], ending: str) -> frozenset[str]:
    """The names with an ending.

    Raises:
        NotServed: a tensor of such a name is not 0 everywhere.
    """
    names = frozenset(name for name in tensors if name.endswith(ending))
    for name in sorted(names):
        if tensors[name].read().count_nonzero():
            raise NotServed(f"{name} is not 0: weights that are not symmetric are not served.")
    return names


def _files(folder: Path, weights: str) -> list[str]:
    if not weights.endswith(INDEX_ENDING):
        return [weights]
    try:
        names = set(json.loads((folder / weights).read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise NotServed(f"{weights} cannot be read, or has no weight_map.") from error
    if strange := [name for name in names if not isinstance(name, str) or Path(name).name != name]:
        raise NotServed(f"{weights} names {strange[0]!r}, which is no file of the folder.")
    return sorted(names)


def _known(tensors: Mapping[str, StoredTensor], name: str) -> StoredTensor:
    if name not in tensors:
        raise NotServed(f"{name} is missing.")
    return tensors[name]


def _said(tensor: StoredTensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"
