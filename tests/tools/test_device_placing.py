"""Devices of instances: sets of several, gaps in them, and names that the command line refuses."""

from __future__ import annotations

import pytest

from tools.cli import main
from tools.placing import NoPlace, on_npu, places


def test_sets_of_several_devices_begin_at_their_first() -> None:
    """With two devices each, in order."""
    assert places("npu", [[2, 3], [0, 1]], 2, {}, devices_each=2) == ["npu:2", "npu:0"]
    assert places("npu", None, 2, {}, devices_each=2) == ["npu:0", "npu:2"]


def test_a_set_with_a_gap() -> None:
    """Its devices have to follow each other."""
    with pytest.raises(NoPlace, match=r"gives an instance \[0, 2\]; devices of one instance have to follow each other"):
        places("npu", [[0, 2]], 1, {}, devices_each=2)


def test_further_sets_are_not_used() -> None:
    """Of three sets, one instance takes the first."""
    assert places("npu", [[1], [0], [2]], 1, {}) == ["npu:1"]


def test_a_device_with_a_number_is_for_all() -> None:
    """Also CUDA's."""
    assert places("cuda:1", None, 2, {}) == ["cuda:1", "cuda:1"]


def test_what_means_an_npu() -> None:
    """torch_npu is not installed where these tests run."""
    assert [on_npu(name) for name in ("npu", "npu:1", "cpu", "cuda", "auto")] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--device", "gpu"], "'gpu' is not auto, cpu, cuda, npu, npu:N or cuda:N"),
        (["--device", "npu:"], "'npu:' is not auto"),
        (["--npu-device-ids", "0-3"], "'0-3' is not a list of device numbers such as 0 or 0,1"),
    ],
)
def test_names_that_nobody_knows(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command line is wrong."""
    with pytest.raises(SystemExit) as caught:
        main(["serve", *options])
    assert caught.value.code == 2
    assert words in capsys.readouterr().err
