"""Reads a folder that ModelSlim wrote: which layers it quantised, and how; all but W8A8_DYNAMIC is refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.quantised.stored import INDEX_ENDING, Int8Layer, NotServed, StoredTensor, int8_layers

DESCRIPTION = "quant_model_description"
"""What the name of the file begins with that says how each tensor is quantised."""
_WEIGHTS = "quant_model_weight"
_DYNAMIC = "W8A8_DYNAMIC"
_WHOLE = "FLOAT"
_STATIC = "its activations have scales that were fixed beforehand"
_REASONS: Mapping[str, str] = {
    "W8A8": _STATIC,
    "W8A8S": _STATIC,
    "W8A8SC": _STATIC,
    "W8A8_MIX": _STATIC,
    "W8A16": "its activations are not quantised",
}
_CACHES: Mapping[str, str] = {
    "kv_cache_type": "keys and values",
    "kv_quant_type": "keys and values",
    "fa_quant_type": "attention",
    "indexer_quant_type": "the indexer of attention",
}
"""Keys that say of something else than weights how it is quantised."""


def read_description(folder: Path) -> Mapping[str, Any] | None:
    """The description of a folder; None where it has none.

    Raises:
        NotServed: there are several, or it is no JSON object.
    """
    usual = folder / f"{DESCRIPTION}.json"
    files = [usual] if usual.is_file() else sorted(folder.glob(f"{DESCRIPTION}_*.json"))
    if not files:
        return None
    if len(files) > 1:
        raise NotServed(f"there are {len(files)} descriptions ({files[0].name}, {files[1].name}): keep one.")
    try:
        content = json.loads(files[0].read_text(encoding="utf-8"))
    except ValueError as error:
        raise NotServed(f"{files[0].name} is not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise NotServed(f"{files[0].name} is not a JSON object.")
    return content


def weights_name(folder: Path) -> str | None:
    """The file with the weights, or their index; None where they have transformers' usual names.

    Raises:
        NotServed: there are several.
    """
    for ending in (INDEX_ENDING, ".safetensors"):
        files = sorted(file.name for file in folder.glob(f"{_WEIGHTS}*{ending}"))
        if len(files) == 1:
            return files[0]
        if files:
            raise NotServed(f"there are {len(files)} files of weights ({files[0]}, {files[1]}) and no index: keep one.")
    return None


def layers_of(description: Mapping[str, Any], tensors: Mapping[str, StoredTensor]) -> dict[str, Int8Layer]:
    """The layers that are W8A8_DYNAMIC.

    Raises:
        NotServed: something is quantised in another way, or the files are not as the description says.
    """
    for key, what in _CACHES.items():
        if kind := description.get(key):
            raise NotServed(f"{key} is {kind!r}: {what} as int8 numbers are not served.")
    quantised = []
    for key, kind in description.items():
        if not isinstance(kind, str) or "." not in key:
            continue
        if kind not in (_DYNAMIC, _WHOLE):
            raise NotServed(f"{key} is {kind}{_reason(kind)}; of ModelSlim's kinds {_DYNAMIC} and {_WHOLE} are served.")
        if kind == _DYNAMIC and key.endswith(".weight"):
            quantised.append(key.removesuffix(".weight"))
    layers = int8_layers(tensors, quantised)
    undescribed = sorted(
        name for name, tensor in tensors.items() if tensor.dtype == "I8" and name.removesuffix(".weight") not in layers
    )
    if undescribed:
        raise NotServed(f"{undescribed[0]} is I8, and the description does not call it {_DYNAMIC}.")
    return layers


def _reason(kind: str) -> str:
    reason = "its weights have 4 bits" if kind.startswith("W4") else _REASONS.get(kind)
    return f" ({reason})" if reason else ""
