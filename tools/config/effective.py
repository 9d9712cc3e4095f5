"""The value that every key of a config.json has in effect, and where it comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from generated.config_keys import KEYS, Key
from handlers.config_file import ConfigFile
from tools.config.options import SLOWEST, Chosen
from tools.config.weights import WeightsFacts


@dataclass(frozen=True, slots=True)
class Effective:
    """One key in effect."""

    path: str
    value: str
    """JSON, or words where there is no constant."""
    origin: str
    """file, weights, default, or the variable's name."""
    honoured: bool


def effective(chosen: Chosen, weights: WeightsFacts | None) -> list[Effective]:
    """Every key in the order of the schema; of lists of objects those entries that the file has."""
    return [
        row for pattern, key in KEYS.items() if key.honoured is not None for row in _rows(chosen, weights, pattern, key)
    ]


def _rows(chosen: Chosen, weights: WeightsFacts | None, pattern: str, key: Key) -> Iterator[Effective]:
    honoured = bool(key.honoured)
    if _is_entered(pattern) and any(True for _ in _paths(chosen.file, pattern) if chosen.file.value(_) is not None):
        return
    paths = list(_paths(chosen.file, pattern))
    for path in paths:
        if path in chosen.environment:
            name, value = chosen.environment[path]
            yield Effective(path, _json(value), name, honoured)
            continue
        raised = _raised(chosen, pattern)
        value = chosen.file.value(path)
        if raised is not None:
            yield Effective(path, raised, "EnableDynamicAdjustTimeoutConfig", honoured)
        elif value is not None:
            yield Effective(path, _json(value), "file", honoured)
        else:
            text, origin = _default(chosen, weights, pattern, key)
            yield Effective(path, text, origin, honoured)


def _raised(chosen: Chosen, pattern: str) -> str | None:
    names = {"ServerConfig.tokenTimeout": "token_timeout", "ServerConfig.e2eTimeout": "e2e_timeout"}
    wanted = bool(chosen.file.value("EnableDynamicAdjustTimeoutConfig")) and pattern in names
    return str(SLOWEST[names[pattern]]) if wanted else None


def _default(chosen: Chosen, weights: WeightsFacts | None, pattern: str, key: Key) -> tuple[str, str]:
    name = pattern.rpartition(".")[2]
    if weights is not None and weights.max_position_embeddings is not None:
        length = chosen.options.get("max_seq_len") or weights.max_position_embeddings
        found = {"maxSeqLen": length, "maxIterTimes": length, "maxInputTokenLen": length - 1}
        if name in found:
            return str(found[name]), "weights" if "max_seq_len" not in chosen.options else "default"
    if name == "LoraModules" and weights is not None and weights.adapters:
        return _json([{"name": adapter, "path": str(path)} for adapter, path in weights.adapters]), "weights"
    return key.default, "default"


def _is_entered(pattern: str) -> bool:
    """Whether a key holds objects whose own keys are listed."""
    return any(other.startswith((f"{pattern}[].", f"{pattern}.*.")) for other in KEYS)


def _paths(file: ConfigFile, pattern: str) -> Iterator[str]:
    """The paths of a pattern: for the entries of lists and maps that the file has, the first of ModelConfig always."""
    wanted = re.split(r"(\[\]|\.\*)", pattern)
    if len(wanted) == 1:
        yield pattern
        return
    heads = [wanted[0]]
    for mark, rest in zip(wanted[1::2], wanted[2::2], strict=True):
        found = []
        for head in heads:
            value = file.value(head)
            names: list[Any] = list(range(len(value))) if isinstance(value, list) else list(value or {})
            found += [f"{head}[{name}]{rest}" if mark == "[]" else f"{head}.{name}{rest}" for name in names]
        heads = found
    yield from heads


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
