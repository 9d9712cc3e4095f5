"""What a model folder says about quantised weights, whichever tool wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.quantised import compressed_tensors, modelslim
from engine.quantised.stored import Int8Layer, NotServed, all_zero, stored_tensors

_USUAL_INDEX = "model.safetensors.index.json"
_USUAL_FILE = "model.safetensors"


@dataclass(frozen=True, slots=True)
class QuantisedFolder:
    """Int8 weights with a scale for each output; activations get a scale for each row when they are run."""

    written_by: str
    """The tool, for log lines."""
    weights: str
    """The file with the weights, or their index."""
    layers: Mapping[str, Int8Layer]
    """By the name of the module."""
    norm_biases: frozenset[str]
    """Modules that are called norms and have biases in the files."""
    without_effect: frozenset[str]
    """Tensors that the model has no place for and does not need: offsets that are 0."""


def read_quantised(folder: Path, config: Mapping[str, Any]) -> QuantisedFolder | None:
    """What is quantised in a folder; None where nothing is, or by a tool whose models transformers loads itself.

    Args:
        folder: with safetensors files.
        config: its config.json.

    Raises:
        NotServed: quantised in a way that is not served, or not whole.
    """
    description = modelslim.read_description(folder)
    if description is not None:
        weights = modelslim.weights_name(folder) or _usual(folder)
        tensors = stored_tensors(folder, weights)
        layers = modelslim.layers_of(description, tensors)
        norms = frozenset(name.removesuffix(".bias") for name in tensors if name.endswith("norm.bias"))
        return QuantisedFolder("ModelSlim", weights, layers, norms, all_zero(tensors, ".weight_offset"))
    if (kind := config.get("quantize")) and str(kind).lower() != "float":
        wanted = f"{modelslim.DESCRIPTION}.json, which says of each layer how"
        raise NotServed(f"config.json says quantize {kind!r}, and there is no {wanted}.")
    method = config.get("quantization_config")
    if isinstance(method, dict) and method.get("quant_method") == compressed_tensors.METHOD:
        weights = _usual(folder)
        layers = compressed_tensors.layers_of(method, stored_tensors(folder, weights))
        return QuantisedFolder(compressed_tensors.METHOD, weights, layers, frozenset(), frozenset())
    return None


def _usual(folder: Path) -> str:
    return _USUAL_FILE if (folder / _USUAL_FILE).is_file() else _USUAL_INDEX
