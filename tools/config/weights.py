"""Looks at a folder of weights before anything is loaded: whether it is whole, and what its config.json says."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.loader_facts import POSITION_FIELDS
from engine.parallel.fit import heads_of

_MOST_HEADER_BYTES: Final = 100_000_000
"""What the safetensors format allows."""
ADAPTERS_FILE: Final = "lora_adapter.json"
"""Names of adapters and their folders, in MindIE's older way."""


class WeightsProblem(Exception):
    """The folder cannot be served; the message is a sentence that names it."""


@dataclass(frozen=True, slots=True)
class WeightsFacts:
    """What the folder's config.json says."""

    model_type: str
    max_position_embeddings: int | None
    adapters: tuple[tuple[str, Path], ...] = ()
    """Of lora_adapter.json."""
    size_bytes: int = 0
    """Of the safetensors files."""
    heads: tuple[int, int] | None = None
    """Of attention, and of keys and values."""


def weights_facts(folder: Path) -> WeightsFacts:
    """Check a folder, and read what the server wants to know before the engine starts.

    Raises:
        WeightsProblem: it is not there, cannot be read, or has files that are cut off.
    """
    try:
        if not folder.exists():
            raise WeightsProblem(f"there is no folder {folder}")
        if not folder.is_dir():
            raise WeightsProblem(f"{folder} is not a folder")
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise WeightsProblem(f"the folder {folder} cannot be read: {error.strerror}") from None
    if not any(name.endswith((".safetensors", ".gguf")) for name in names):
        raise WeightsProblem(f"the folder {folder} has no weights: no .safetensors and no .gguf file")
    size_bytes = sum(_checked_size(folder / name) for name in names if name.endswith(".safetensors"))
    if "config.json" not in names:
        return WeightsFacts("", None, (), size_bytes)
    config = _read_json(folder / "config.json")
    text = config.get("text_config")
    lengths = [
        part[name] for part in (text, config) if isinstance(part, dict) for name in POSITION_FIELDS if name in part
    ]
    length = next((value for value in lengths if isinstance(value, int) and value > 0), None)
    return WeightsFacts(
        str(config.get("model_type") or ""), length, _adapters(folder, names), size_bytes, heads_of(config)
    )


def _checked_size(file: Path) -> int:
    """Size of a safetensors file whose header and last tensor are there, in bytes."""
    try:
        size = file.stat().st_size
        with file.open("rb") as opened:
            start = opened.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            header = json.loads(opened.read(length)) if 0 < length <= min(size - 8, _MOST_HEADER_BYTES) else None
    except OSError as error:
        raise WeightsProblem(f"the weights {file} cannot be read: {error.strerror}") from None
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise WeightsProblem(f"the weights {file} are cut off or no safetensors file ({size} bytes)")
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    needed = 8 + length + max(ends, default=0)
    if size < needed:
        raise WeightsProblem(f"the weights {file} are cut off: {size} bytes of {needed}; copy them again")
    return size


def _adapters(folder: Path, names: list[str]) -> tuple[tuple[str, Path], ...]:
    if ADAPTERS_FILE not in names:
        return ()
    found = _read_json(folder / ADAPTERS_FILE)
    wrong = [name for name, path in found.items() if not isinstance(path, str) or not path]
    if wrong:
        raise WeightsProblem(f"{folder / ADAPTERS_FILE} gives no folder for {wrong[0]!r}; each name needs a path")
    return tuple((name, folder / path) for name, path in found.items())


def _read_json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise WeightsProblem(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise WeightsProblem(f"{file} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise WeightsProblem(f"{file} is not a JSON object")
    return found
