"""Which device each instance of the engine runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Final

VISIBLE_VARIABLE: Final = "ASCEND_RT_VISIBLE_DEVICES"
"""Which cards a process sees, by CANN's runtime; they count from 0 among these."""


NPU_PAGE_TOKENS: Final = 128
"""As in ``engine.npu.operators``, which imports torch_npu."""


class NoPlace(Exception):
    """The devices that were asked for do not fit together; the message is a sentence."""


def on_npu(device: str) -> bool:
    """Whether a --device means an NPU: auto does where torch_npu is installed, which is not imported for that."""
    return device.partition(":")[0] == "npu" or (device == "auto" and find_spec("torch_npu") is not None)


def places(
    device: str,
    sets: Sequence[Sequence[int]] | None,
    instances: int,
    environment: Mapping[str, str],
    devices_each: int = 1,
) -> list[str | None]:
    """The first device of each instance; None where the engine takes the best that is not an NPU.

    Args:
        device: auto, cpu, cuda or npu, the last two also with a number, which then is for all instances.
        sets: npuDeviceIds: the devices of each instance, numbers among the visible ones; further sets are not used.
            Without, instances follow each other from npu:0 on. They are for --device auto or npu.
        instances: how many there are.
        environment: the process's variables.
        devices_each: of an instance, which follow each other.

    Raises:
        NoPlace: too few sets, a set of another size or with gaps, or a device that is not visible.
    """
    if device == "auto" and not on_npu(device):
        return [None] * instances
    if device not in ("auto", "npu"):
        return [device] * instances
    if sets is None:
        sets = [range(first, first + devices_each) for first in range(0, instances * devices_each, devices_each)]
    if len(sets) < instances:
        raise NoPlace(
            f"npuDeviceIds has {_count(len(sets), 'set')} for {instances} instances; give each a set, as in [[0],[1]]."
        )
    for numbers in sets[:instances]:
        _check(numbers, devices_each, environment.get(VISIBLE_VARIABLE))
    return [f"npu:{numbers[0]}" for numbers in sets[:instances]]


def _check(numbers: Sequence[int], devices_each: int, visible: str | None) -> None:
    """Raise NoPlace where an instance cannot have these devices."""
    shown = list(numbers)
    if len(numbers) != devices_each:
        raise NoPlace(
            f"npuDeviceIds gives an instance {_count(len(numbers), 'device')}, {shown}; a model here runs on "
            f"{devices_each}."
        )
    if shown != list(range(shown[0], shown[0] + len(shown))):
        raise NoPlace(
            f"npuDeviceIds gives an instance {shown}; devices of one instance have to follow each other, and "
            f"{VISIBLE_VARIABLE} may put them in order."
        )
    count = None if not visible else len(visible.split(","))
    if count is not None and shown[-1] >= count:
        raise NoPlace(
            f"npu:{shown[-1]} was asked for, and {VISIBLE_VARIABLE} ({visible}) shows {_count(count, 'device')}, "
            "counted from 0."
        )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
