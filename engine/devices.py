"""Which device a model runs on, and which runner is for it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import torch

RUNNERS: Final[Mapping[str, str]] = {
    "npu": "engine.npu.runner:NpuRunner",
    "cuda": "engine.cuda.runner:CudaRunner",
}
"""Per kind of device its runner's class, as module:name; the CPU's is ``TorchRunner`` itself."""
_DOCTOR: Final = "`mindspec doctor` looks for the cause; --device cpu runs the model on the CPU"


class NoDevice(Exception):
    """A device cannot be had; the message is a sentence that says why and what to do."""


def find_device(name: str | None) -> torch.device:
    """The device that a name means, ready to hold tensors.

    Args:
        name: such as npu, npu:1, cuda or cpu. None takes an NPU where torch_npu is installed, else CUDA where there is
            one, else the CPU.

    Raises:
        NoDevice: it is not there, or torch_npu cannot be used.
    """
    name = name or _best_kind()
    kind, _, number = name.partition(":")
    if kind == "npu":
        _import_torch_npu()
        return _npu(int(number or 0))
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise NoDevice(f"{name!r} is no device that torch knows.") from error


def device_of_rank(name: str | None, rank: int) -> str:
    """The name of a rank's device, where ``name`` is the first one's: the ranks on CPUs have the same, others the next.

    ``name`` is as in ``find_device``.
    """
    kind, _, first = (name or _best_kind()).partition(":")
    return kind if kind == "cpu" else f"{kind}:{int(first or 0) + rank}"


def runner_type(device: torch.device) -> Any:
    """The runner's class of a device; None for the CPU's own, and for devices that have none."""
    place = RUNNERS.get(device.type)
    if place is None:
        return None
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _best_kind() -> str:
    others = "cuda" if torch.cuda.is_available() else "cpu"
    return "npu" if find_spec("torch_npu") is not None else others


def _import_torch_npu() -> None:
    """Import torch_npu, which gives torch the device.

    Raises:
        NoDevice: it is not installed, or does not import: CANN's libraries are missing or do not fit, most likely.
    """
    if find_spec("torch_npu") is None:
        raise NoDevice("An NPU was asked for, and torch_npu is not installed: pip install 'mindspec[npu]'.")
    try:
        import_module("torch_npu")
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise NoDevice(f"torch_npu cannot be imported ({reason}): {_DOCTOR}.") from error


def _npu(number: int) -> torch.device:
    npu: Any = torch.npu  # type: ignore[attr-defined]  # torch_npu adds it
    count = npu.device_count()
    if not count:
        raise NoDevice(f"torch_npu is installed and finds no NPU: {_DOCTOR}.")
    if number >= count:
        known = "npu:0" if count == 1 else f"npu:0 to npu:{count - 1}"
        raise NoDevice(f"npu:{number} was asked for, and this process sees {known} (ASCEND_RT_VISIBLE_DEVICES).")
    npu.set_device(number)
    return torch.device("npu", number)
