"""Which device a model gets: an NPU comes first, and what cannot be had is said with its remedy."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine import devices
from engine.devices import NoDevice, find_device, runner_type


@pytest.fixture
def npu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A torch_npu that imports and finds two NPUs."""
    used: list[int] = []
    found = SimpleNamespace(device_count=lambda: 2, set_device=used.append, used=used)
    monkeypatch.setattr(devices, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "torch_npu", SimpleNamespace())
    monkeypatch.setattr(torch, "npu", found, raising=False)
    monkeypatch.setattr(torch, "device", lambda *parts: SimpleNamespace(type=parts[0], index=parts[1:]))
    return found


def test_without_torch_npu_and_cuda_it_is_the_cpu() -> None:
    """As on the machine that these tests run on."""
    assert find_device(None) == torch.device("cpu")
    assert runner_type(torch.device("cpu")) is None


def test_an_npu_comes_first(npu: Any) -> None:
    """Without a name it is the first one that this process sees."""
    assert (find_device(None).type, npu.used) == ("npu", [0])


def test_an_npu_by_its_number(npu: Any) -> None:
    """It becomes the current one, which memory is asked of."""
    find_device("npu:1")
    assert npu.used == [1]


def test_a_number_beyond_those_that_are_seen(npu: Any) -> None:
    """Named with what there is, and the variable that may hide others."""
    with pytest.raises(NoDevice, match=r"npu:2 was asked for, and this process sees npu:0 to npu:1 \(ASCEND_RT_VIS"):
        find_device("npu:2")


def test_torch_npu_without_an_npu(npu: Any) -> None:
    """A server that was installed for an NPU does not go to the CPU by itself."""
    npu.device_count = lambda: 0
    with pytest.raises(NoDevice, match=r"finds no NPU: `mindspec doctor` looks for the cause; --device cpu"):
        find_device(None)


def test_torch_npu_that_does_not_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line of its reason is told, such as a library of CANN that is missing."""
    monkeypatch.setattr(devices, "find_spec", lambda name: object())

    def fail(name: str) -> None:
        raise ImportError("libhccl.so: cannot open shared object file\nand more")

    monkeypatch.setattr(devices, "import_module", fail)
    with pytest.raises(
        NoDevice, match=r"cannot be imported \(libhccl\.so: cannot open shared object file\): `mindspec"
    ):
        find_device(None)


def test_an_npu_without_torch_npu() -> None:
    """What to install is said."""
    with pytest.raises(NoDevice, match=r"torch_npu is not installed: pip install 'mindspec\[npu\]'"):
        find_device("npu")


def test_a_device_that_nobody_knows() -> None:
    """A typing mistake."""
    with pytest.raises(NoDevice, match="'gpu' is no device that torch knows"):
        find_device("gpu")
