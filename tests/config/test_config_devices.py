"""Which device each instance gets, and how its memory is measured, from config.json, variables and the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from config_samples import MOCK, MODEL, changed, written
from config_server import save_weights

from engine.front import EngineSpec, Limits
from engine.mock_front import MockFront
from tools import placing, serving
from tools.cli import _parser, _settings
from tools.serving import CannotStart

Specs = Callable[..., list[EngineSpec]]


@pytest.fixture
def npu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where torch_npu is installed."""
    monkeypatch.setattr(placing, "find_spec", lambda name: object() if name == "torch_npu" else None)


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Specs:
    """What the engine of each instance would be started with: changes of a file, then options."""
    found: list[EngineSpec] = []

    class NoEngine(MockFront):
        def __init__(self, tokenizer: Any, spec: EngineSpec, **_: Any) -> None:
            found.append(spec)
            super().__init__(tokenizer, limits=Limits())

        def begin(self) -> None:
            """Nothing starts."""

    monkeypatch.setattr(serving, "ProcessFront", NoEngine)
    monkeypatch.setattr(serving, "open_listeners", lambda *_: [])
    save_weights(tmp_path / "weights")
    model = {MODEL: {"modelName": "tiny", "modelWeightPath": "weights"}}

    def made(changes: dict[str, Any], *options: str, environment: dict[str, str] | None = None) -> list[EngineSpec]:
        found.clear()
        for name, value in (environment or {}).items():
            monkeypatch.setenv(name, value)
        line = ["serve", "--config", str(written(tmp_path, changed(changed(MOCK, model), changes))), *options]
        given = _parser().parse_args(line)
        given.arguments = line
        serving.served(given, lambda defaults: _parser(defaults).parse_args(line), _settings, environment or {})
        return list(found)

    return made


def ids(*sets: list[int], **more: Any) -> dict[str, Any]:
    """npuDeviceIds, for as many instances."""
    return {"BackendConfig.npuDeviceIds": list(sets), "BackendConfig.modelInstanceNumber": len(sets), **more}


def devices(found: list[EngineSpec]) -> list[str | None]:
    """Of each instance."""
    return [spec.kwargs["device"] for spec in found]


@pytest.mark.usefixtures("npu")
def test_each_instance_runs_on_its_own_set(specs: Specs) -> None:
    """npuDeviceIds; each has a card's memory for itself, and its part of the cores."""
    found = specs(ids([1], [0]))
    assert devices(found) == ["npu:1", "npu:0"]
    assert [spec.memory_share for spec in found] == [1.0, 1.0]


@pytest.mark.usefixtures("npu")
def test_instances_on_one_card_share_its_memory(specs: Specs) -> None:
    """Those two of three that are on it."""
    found = specs(ids([0], [0], [1]))
    assert [spec.memory_share for spec in found] == [0.5, 0.5, 1.0]


@pytest.mark.usefixtures("npu")
def test_without_sets_instances_follow_each_other(specs: Specs) -> None:
    """From npu:0 on."""
    assert devices(specs({"BackendConfig.modelInstanceNumber": 3})) == ["npu:0", "npu:1", "npu:2"]


@pytest.mark.usefixtures("npu")
def test_the_command_line_wins(specs: Specs) -> None:
    """A device that is named there, or sets that are."""
    assert devices(specs(ids([1]), "--device", "cpu")) == ["cpu"]
    assert devices(specs(ids([1]), "--device", "npu:3")) == ["npu:3"]
    assert devices(specs(ids([1], [2]), "--npu-device-ids", "4", "5")) == ["npu:4", "npu:5"]


def test_without_torch_npu_the_engine_takes_the_best(specs: Specs, capsys: pytest.CaptureFixture[str]) -> None:
    """And a line says that npuDeviceIds has no effect."""
    assert devices(specs(ids([1]))) == [None]
    assert "npuDeviceIds has no effect: torch_npu is not installed.\n" in capsys.readouterr().err


@pytest.mark.usefixtures("npu")
def test_sets_that_another_device_leaves_without_effect(specs: Specs, capsys: pytest.CaptureFixture[str]) -> None:
    """A line says so."""
    specs(ids([1]), "--device", "cpu")
    assert "npuDeviceIds has no effect: --device cpu was asked for.\n" in capsys.readouterr().err


@pytest.mark.usefixtures("npu")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"BackendConfig.npuDeviceIds": [[0]], "BackendConfig.modelInstanceNumber": 2},
            "npuDeviceIds has 1 set for 2 instances; give each a set, as in [[0],[1]].",
        ),
        (
            {"BackendConfig.ScheduleConfig.cacheBlockSize": 64},
            "cacheBlockSize is 64; on an NPU it must be 128, torch_npu's block.",
        ),
        (ids([0, 1]), "npuDeviceIds gives an instance 2 devices, [0, 1]; a model here runs on 1."),
    ],
)
def test_what_an_npu_cannot_have(changes: dict[str, Any], words: str, specs: Specs) -> None:
    """The start ends with 78."""
    with pytest.raises(CannotStart) as caught:
        specs(changes)
    assert (caught.value.code, str(caught.value)) == (78, f"mindspec: {words}")


@pytest.mark.usefixtures("npu")
def test_numbers_beyond_the_visible_cards(specs: Specs) -> None:
    """ASCEND_RT_VISIBLE_DEVICES shows cards, which count from 0."""
    seen = {"ASCEND_RT_VISIBLE_DEVICES": "4,6"}
    assert devices(specs(ids([1]), environment=seen)) == ["npu:1"]
    with pytest.raises(CannotStart) as caught:
        specs(ids([4]), environment=seen)
    assert caught.value.code == 78
    assert str(caught.value) == (
        "mindspec: npu:4 was asked for, and ASCEND_RT_VISIBLE_DEVICES (4,6) shows 2 devices, counted from 0."
    )


@pytest.mark.usefixtures("npu")
def test_a_fraction_is_of_the_card(specs: Specs) -> None:
    """NPU_MEMORY_FRACTION goes to the engine process, which sees the card; npuMemSize wins over it."""
    half = {"NPU_MEMORY_FRACTION": "0.5"}
    (found,) = specs({f"{MODEL}.npuMemSize": -1}, environment=half)
    assert (found.kwargs["memory_bytes"], found.kwargs["memory_fraction"]) == (None, 0.5)
    (found,) = specs({f"{MODEL}.npuMemSize": 2}, environment=half)
    assert (found.kwargs["memory_bytes"], found.kwargs["memory_fraction"]) == (2 << 30, None)


def test_a_fraction_is_of_a_gpu_that_is_named(specs: Specs) -> None:
    """Not of the host's memory, which may be much larger."""
    half = {"NPU_MEMORY_FRACTION": "0.5"}
    (found,) = specs({f"{MODEL}.npuMemSize": -1}, "--device", "cuda", environment=half)
    assert (found.kwargs["memory_bytes"], found.kwargs["memory_fraction"]) == (None, 0.5)


def test_a_fraction_is_of_the_host_on_a_cpu(specs: Specs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of 4 GiB, less the weights."""
    monkeypatch.setattr("engine.machine_memory.available_bytes", lambda: 4 << 30)
    (found,) = specs({f"{MODEL}.npuMemSize": -1}, environment={"NPU_MEMORY_FRACTION": "0.5"})
    assert 0 < (2 << 30) - found.kwargs["memory_bytes"] < 1 << 20
    assert found.kwargs["memory_fraction"] is None


@pytest.mark.usefixtures("npu")
def test_ranks_of_world_size_share_the_model(specs: Specs) -> None:
    """So many processes, from the first device of a set on; instances without sets follow each other."""
    (found,) = specs(ids([2, 3], **{f"{MODEL}.worldSize": 2}), "--threads", "4")
    assert (found.ranks, found.kwargs["device"], found.threads, found.memory_share) == (2, "npu:2", 2, 1.0)
    two = {f"{MODEL}.worldSize": 2, "BackendConfig.modelInstanceNumber": 2}
    assert [(each.ranks, each.kwargs["device"]) for each in specs(two)] == [(2, "npu:0"), (2, "npu:2")]


@pytest.mark.usefixtures("npu")
def test_a_set_that_is_no_world(specs: Specs) -> None:
    """npuDeviceIds and worldSize have to agree."""
    with pytest.raises(CannotStart) as caught:
        specs(ids([0], **{f"{MODEL}.worldSize": 2}))
    assert str(caught.value) == "mindspec: npuDeviceIds gives an instance 1 device, [0]; a model here runs on 2."


@pytest.mark.usefixtures("npu")
def test_heads_that_cannot_be_shared(specs: Specs, tmp_path: Path) -> None:
    """The file is refused by numbers before anything is loaded, and so is the command line, on any device."""
    with pytest.raises(CannotStart) as caught:
        specs({f"{MODEL}.worldSize": 3})
    assert caught.value.code == 78
    assert (
        "ModelConfig[0].worldSize: is 3, and the model has 4 attention heads and 2 key-value heads, which 3 ranks "
        "cannot share equally; possible for it: 1, 2" in str(caught.value)
    )
    with pytest.raises(CannotStart) as caught:
        specs({}, "--device", "cpu", "--world-size", "8")
    assert caught.value.code == 78
    assert str(caught.value).startswith("mindspec: worldSize is 8, and weights has 4 attention heads and 2 key-value")


def test_world_size_without_torch_npu(specs: Specs, capsys: pytest.CaptureFixture[str]) -> None:
    """The file's has no effect, and a line says so; the command line's has it on any device."""
    assert [each.ranks for each in specs({f"{MODEL}.worldSize": 2})] == [1]
    assert (
        "ModelConfig[0].worldSize: is 2, and has no effect: torch_npu is not installed (--world-size sets it for any "
        "device)\n" in capsys.readouterr().err
    )
    assert [each.ranks for each in specs({}, "--world-size", "2")] == [2]
