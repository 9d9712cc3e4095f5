"""worldSize of a config.json: how many devices share the model, where there are devices to share it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from engine.parallel.fit import refusal
from handlers.config_file import Fault
from tools.config.weights import WeightsFacts
from tools.placing import on_npu

_MODEL: Final = "BackendConfig.ModelDeployConfig.ModelConfig[0]"


def shared_out(
    size: int | None, weights: WeightsFacts | None, options: dict[str, Any], notes: list[Fault]
) -> Iterator[Fault]:
    """Put worldSize into ``options``, or a note why it has no effect; yields what forbids the start.

    Files are carried from machines with NPUs to such without: there the model runs as it can, in one process.
    """
    if size is None or size == 1 or weights is None:
        return
    if not on_npu("auto"):
        message = f"is {size}, and has no effect: torch_npu is not installed (--world-size sets it for any device)"
        notes.append(Fault(f"{_MODEL}.worldSize", message))
        return
    options["world_size"] = size
    found = refusal(weights.heads, size, "the model")
    if found is not None:
        yield Fault(f"{_MODEL}.worldSize", found)
