"""What an adapter's adapter_config.json says: which layers it changes, by what rank and factor; all else is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regex

from engine.types import AdapterError

CONFIG_FILE = "adapter_config.json"
MAX_CONFIG_BYTES = 1 << 20
"""A larger adapter_config.json is refused."""
MAX_PATTERN_CHARACTERS = 1000
"""A longer regular expression is refused."""
PATTERN_TIME_S = 0.5
"""What one regular expression may take for one layer's name, in seconds."""

_ALL_LINEAR = "all-linear"
_WITHOUT_EFFECT = frozenset(
    {
        *("peft_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision", "inference_mode"),
        *("lora_dropout", "megatron_core", "qalora_group_size", "runtime_config", "loftq_config", "eva_config"),
        # Whether a weight is stored transposed matters to a merge only: A and B have one layout.
        *("fan_in_fan_out", "ensure_weight_tying"),
    }
)
_READ = frozenset(
    {
        *("r", "lora_alpha", "use_rslora", "target_modules", "exclude_modules", "layers_to_transform"),
        *("layers_pattern", "rank_pattern", "alpha_pattern"),
    }
)
_PLAIN_STARTS = (True, False, None, "gaussian", "eva", "orthogonal")
"""Values of init_lora_weights that leave the model's own weights as they are."""
_KNOWN_KINDS: Mapping[str, str] = {
    "use_dora": "DoRA",
    "use_qalora": "QA-LoRA",
    "use_bdlora": "block-diagonal LoRA",
    "lora_bias": "a bias of its own (lora_bias)",
    "modules_to_save": "whole modules (modules_to_save)",
    "trainable_token_indices": "rows of the embedding (trainable_token_indices)",
    "target_parameters": "parameters that are no linear layer (target_parameters)",
    "layer_replication": "repeated layers (layer_replication)",
    "alora_invocation_tokens": "activated LoRA (alora_invocation_tokens)",
    "megatron_config": "Megatron layers (megatron_config)",
}


@dataclass(frozen=True, slots=True)
class LinearLayer:
    """The size of a layer that an adapter may change."""

    in_features: int
    out_features: int
    is_output: bool = False
    """It gives the logits; "all-linear" leaves it out."""


@dataclass(frozen=True, slots=True)
class LayerRank:
    """What an adapter does to one layer: adds ``factor * B @ A``, of this rank."""

    rank: int
    factor: float


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """The settings of a LoRA adapter in PEFT's format, all of them with an effect here."""

    rank: int
    alpha: float
    rank_scaled_by_root: bool
    """use_rslora: the factor is alpha / sqrt(rank) in place of alpha / rank."""
    target_modules: str | tuple[str, ...]
    """A regular expression on whole names or "all-linear"; or last parts of names."""
    exclude_modules: str | tuple[str, ...]
    layers: frozenset[int] | None
    """Numbers of the decoder layers that it changes; None for all."""
    layers_pattern: tuple[str, ...]
    """What the list of decoder layers may be called; empty for any name."""
    rank_pattern: Mapping[str, int]
    """Regular expressions on the ends of names; the first that fits gives the layer's rank."""
    alpha_pattern: Mapping[str, float]

    @classmethod
    def read(cls, folder: Path) -> AdapterConfig:
        """Read the file of a folder.

        Raises:
            AdapterError: it cannot be read, or asks for something that is not done here.
        """
        try:
            with (folder / CONFIG_FILE).open("rb") as file:
                raw = file.read(MAX_CONFIG_BYTES + 1)
        except OSError as error:
            raise AdapterError(f"{CONFIG_FILE} of {folder.name!r} cannot be read: {error.strerror}.") from error
        if len(raw) > MAX_CONFIG_BYTES:
            raise AdapterError(f"{CONFIG_FILE} has more than {MAX_CONFIG_BYTES} bytes.")
        try:
            config = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise AdapterError(f"{CONFIG_FILE} is not JSON.") from error
        if not isinstance(config, dict):
            raise AdapterError(f"{CONFIG_FILE} is not a JSON object.")
        return cls.of(config)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> AdapterConfig:
        """Take a parsed file. Raises AdapterError as ``read`` does."""
        _refuse_other_kinds(config)
        layers = config.get("layers_to_transform")
        targets = _modules(config, "target_modules")
        if not targets:
            raise AdapterError(f"{CONFIG_FILE} names no target_modules.")
        if layers not in (None, []) and isinstance(targets, str):
            raise AdapterError("layers_to_transform goes with a list of target_modules only.")
        return cls(
            rank=_rank(config.get("r"), "r"),
            alpha=_alpha(config.get("lora_alpha"), "lora_alpha"),
            rank_scaled_by_root=_boolean(config, "use_rslora"),
            target_modules=targets,
            exclude_modules=_modules(config, "exclude_modules"),
            layers=None if layers in (None, []) else frozenset(_numbers(layers)),
            layers_pattern=_texts(config, "layers_pattern"),
            rank_pattern={key: _rank(value, "rank_pattern") for key, value in _mapping(config, "rank_pattern")},
            alpha_pattern={key: _alpha(value, "alpha_pattern") for key, value in _mapping(config, "alpha_pattern")},
        )

    def changed(self, layers: Mapping[str, LinearLayer]) -> dict[str, LayerRank]:
        """The layers that the adapter changes, by name, out of those that can be.

        Raises:
            AdapterError: none, or a regular expression that cannot be used.
        """
        found = {}
        for name, layer in layers.items():
            if not self._targets(name, layer):
                continue
            rank = self.rank_pattern.get(_fitting(self.rank_pattern, name), self.rank)
            alpha = self.alpha_pattern.get(_fitting(self.alpha_pattern, name), self.alpha)
            found[name] = LayerRank(rank, alpha / (math.sqrt(rank) if self.rank_scaled_by_root else rank))
        if not found:
            raise AdapterError("its target_modules name no layer of this model that an adapter can change.")
        return found

    def _targets(self, name: str, layer: LinearLayer) -> bool:
        if self.exclude_modules and _named(self.exclude_modules, name):
            return False
        if isinstance(self.target_modules, str) and self.target_modules.lower() == _ALL_LINEAR:
            return not layer.is_output
        return _named(self.target_modules, name) and self._in_layers(name)

    def _in_layers(self, name: str) -> bool:
        if self.layers is None:
            return True
        for pattern in self.layers_pattern or (r"[^.]*",):
            number = _match(rf"(?:.*?\.)?(?:{pattern})\.(?P<index>\d+)\..*", name)
            if number is not None:
                return int(number["index"]) in self.layers
        return False


def _named(modules: str | tuple[str, ...], name: str) -> bool:
    if isinstance(modules, str):
        return _match(modules, name) is not None
    return any(name == module or name.endswith(f".{module}") for module in modules)


def _fitting(patterns: Mapping[str, object], name: str) -> str:
    """The first key that fits the end of a name, from a dot on; the empty text where none does."""
    return next((key for key in patterns if _match(rf"(?:.*\.)?(?:{key})", name)), "")


def _match(pattern: str, name: str) -> Any:
    """A match of the whole name. Other threads run on meanwhile, and it ends: patterns are the adapter's own."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise AdapterError(f"a regular expression of {CONFIG_FILE} has more than {MAX_PATTERN_CHARACTERS} characters.")
    try:
        return regex.fullmatch(pattern, name, timeout=PATTERN_TIME_S, concurrent=True)
    except TimeoutError as error:
        raise AdapterError(f"the regular expression {pattern[:100]!r} takes too long.") from error
    except (regex.error, RecursionError, OverflowError) as error:
        raise AdapterError(f"{pattern[:100]!r} is no regular expression.") from error


def _refuse_other_kinds(config: Mapping[str, Any]) -> None:
    """Raise AdapterError for what would have to change more than a linear layer's product, or is not known."""
    kind = config.get("peft_type")
    if kind != "LORA":
        raise AdapterError(f"it is of the type {str(kind)[:100]!r}; only LORA is served.")
    task = config.get("task_type")
    if task not in (None, "CAUSAL_LM"):
        raise AdapterError(f"it was trained for {str(task)[:100]!r}; only CAUSAL_LM is served.")
    bias = config.get("bias", "none")
    if bias != "none":
        raise AdapterError(f"it changes biases (bias is {str(bias)[:100]!r}), which is not served.")
    start = config.get("init_lora_weights", True)
    if not any(start is plain or (isinstance(plain, str) and start == plain) for plain in _PLAIN_STARTS):
        raise AdapterError(
            f"it was made with init_lora_weights {str(start)[:100]!r}, which changes the model's own weights; "
            "convert it to a plain LoRA when saving."
        )
    for key, what in _KNOWN_KINDS.items():
        if config.get(key) not in (None, False, [], {}):
            raise AdapterError(f"it uses {what}, which is not served.")
    passed = _WITHOUT_EFFECT | _READ | set(_KNOWN_KINDS) | {"task_type", "bias", "init_lora_weights"}
    for key, value in config.items():
        if key not in passed and value not in (None, False, [], {}, ""):
            raise AdapterError(f"{CONFIG_FILE} sets {key[:100]!r}, which is not known here.")


def _rank(value: object, key: str) -> int:
    if type(value) is not int or value < 1:
        raise AdapterError(f"{key} must be a whole number of at least 1, and a rank is {str(value)[:100]}.")
    return value


def _alpha(value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise AdapterError(f"{key} must be a number, and it is {str(value)[:100]}.")
    return float(value)


def _boolean(config: Mapping[str, Any], key: str) -> bool:
    value = config.get(key)
    if value not in (None, True, False):
        raise AdapterError(f"{key} must be true or false, and it is {str(value)[:100]}.")
    return bool(value)


def _modules(config: Mapping[str, Any], key: str) -> str | tuple[str, ...]:
    value = config.get(key)
    return value if isinstance(value, str) else _texts(config, key)


def _texts(config: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = config.get(key)
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise AdapterError(f"{key} must be text or a list of texts.")
    return tuple(items)


def _numbers(value: object) -> list[int]:
    items: list[Any] = value if isinstance(value, list) else [value]
    if not all(type(item) is int for item in items):
        raise AdapterError("layers_to_transform must be a whole number or a list of them.")
    return items


def _mapping(config: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    value = config.get(key) or {}
    if not isinstance(value, dict):
        raise AdapterError(f"{key} must be an object.")
    return list(value.items())
