"""Reads quantization_config of compressed-tensors: int8 with dynamic scales of rows; all else is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.quantised.stored import Int8Layer, NotServed, StoredTensor, int8_layers

METHOD = "compressed-tensors"
_FORMAT = "int-quantized"
_SCALE = ".weight_scale"
_WEIGHTS: Mapping[str, Any] = {
    "num_bits": 8,
    "type": "int",
    "symmetric": True,
    "strategy": "channel",
    "dynamic": False,
}
_ACTIVATIONS: Mapping[str, Any] = {
    "num_bits": 8,
    "type": "int",
    "symmetric": True,
    "strategy": "token",
    "dynamic": True,
}


def layers_of(config: Mapping[str, Any], tensors: Mapping[str, StoredTensor]) -> dict[str, Int8Layer]:
    """The quantised layers: those that have scales. ``targets`` and ``ignore`` said to the tool which they shall be.

    Raises:
        NotServed: they are quantised in another way, or the files are not as the configuration says.
    """
    refuse(config)
    layers = int8_layers(tensors, sorted(name.removesuffix(_SCALE) for name in tensors if name.endswith(_SCALE)))
    if not layers:
        raise NotServed("quantization_config says that weights are quantised, and the files have no weight_scale.")
    return layers


def refuse(config: Mapping[str, Any]) -> None:
    """Raise NotServed for anything but int8 weights with a scale for each output, and rows that get theirs when run."""
    _want(config, "quantization_config", {"format": _FORMAT})
    if config.get("kv_cache_scheme"):
        raise NotServed("quantization_config.kv_cache_scheme is given: quantised keys and values are not served.")
    sparsity = config.get("sparsity_config") or {}
    if sparsity.get("format", "dense") != "dense":
        raise NotServed(f"quantization_config.sparsity_config.format is {sparsity['format']!r}, where dense is served.")
    if (config.get("transform_config") or {}).get("config_groups"):
        raise NotServed("quantization_config.transform_config is given: rotations while running are not served.")
    groups = config.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise NotServed("quantization_config.config_groups is missing.")
    for name, group in groups.items():
        where = f"quantization_config.config_groups.{name}"
        if group.get("format") is not None:
            _want(group, where, {"format": _FORMAT})
        for part, wanted in (("weights", _WEIGHTS), ("input_activations", _ACTIVATIONS)):
            arguments = group.get(part)
            if not isinstance(arguments, dict):
                raise NotServed(f"{where}.{part} is missing: weights and activations of 8 bits are served (W8A8).")
            _want(arguments, f"{where}.{part}", wanted)
        if group.get("output_activations"):
            raise NotServed(f"{where}.output_activations is given: quantised outputs are not served.")


def _want(given: Mapping[str, Any], where: str, wanted: Mapping[str, Any]) -> None:
    for key, value in wanted.items():
        if given.get(key) != value or type(given.get(key)) is not type(value):
            static = ": scales that were fixed beforehand (static)" if value is True and key == "dynamic" else ""
            raise NotServed(f"{where}.{key} is {given.get(key)!r}{static}, where {value!r} is served.")
