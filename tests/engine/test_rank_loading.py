"""How a rank loads its part: what it takes of the memory, and that all ranks run in one way or fail together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.forward import ModelMismatch
from engine.loader import LoadError
from engine.parallel import loading
from engine.parallel.ranks import Failed, Followers, RankFailure
from engine.torch_runner import ReplacementMismatch

PAGES = 40
"""That this rank has room for."""


class Other:
    """Another rank beside this one, by what it says when both have come to something."""

    rank = 0
    size = 2

    def __init__(self, *says: Any) -> None:
        self.says = list(says)
        self.heard: list[Any] = []

    def exchange(self, value: Any) -> list[Any]:
        """See ``Ranks.exchange``."""
        self.heard.append(value)
        return [value, self.says.pop(0)]


class Built:
    """Stands for the runner, and for what makes it."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        """Of the first try, the second and so on."""
        self.options: list[dict[str, Any]] = []
        self.pages = 0

    def build(self, _: object, **options: Any) -> Built:
        """See ``engine.torch_runner.build``."""
        self.options.append(options)
        self.pages = options["least"](PAGES)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return self


@pytest.fixture
def load_part(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``load_part`` of a rank on a device, with everything around it made up."""

    def load_part(ranks: Any, built: Built, device: str = "cpu", **options: Any) -> Any:
        loaded = SimpleNamespace(info=SimpleNamespace(architecture="Made"))
        monkeypatch.setattr(loading, "find_device", lambda _: torch.device(device))
        monkeypatch.setattr(loading, "join_group", lambda *_: None)
        monkeypatch.setattr(loading, "runner_type", lambda _: None)
        monkeypatch.setattr(loading, "load", lambda *_, **__: loaded)
        monkeypatch.setattr(loading, "try_out", lambda *_: None)
        monkeypatch.setattr(loading, "build", built.build)
        return loading.load_part(ranks, Path("models/m"), **options)

    return load_part


@pytest.mark.parametrize(("theirs", "common"), [(30, 30), (50, 40)])
def test_all_ranks_have_as_many_pages_as_the_one_with_the_fewest(load_part: Any, theirs: int, common: int) -> None:
    """Their numbers are everybody's; a card beside this one may have less room."""
    built = Built()
    assert load_part(Other(None, theirs, True), built) is built
    assert built.pages == common


@pytest.mark.parametrize(("device", "share"), [("cpu", 0.25), ("cuda", 0.5)])
def test_ranks_on_a_cpu_share_its_memory_and_those_on_cards_do_not(load_part: Any, device: str, share: float) -> None:
    """Of half for this engine each of two ranks on a CPU takes half; a card is its rank's own."""
    built = Built()
    load_part(Other(None, PAGES, True), built, device, memory_share=0.5)
    assert built.options[0]["memory_share"] == share


@pytest.mark.parametrize(
    ("own", "theirs"), [(ReplacementMismatch("it differs"), True), (None, False)], ids=["this one", "the other"]
)
def test_where_one_rank_cannot_replace_modules_none_has_any(load_part: Any, own: Any, theirs: bool) -> None:
    """Both load again without, or they would wait for each other in sums that only one of them makes."""
    ranks, built = Other(None, PAGES, theirs, None, PAGES, True), Built(own)
    assert load_part(ranks, built) is built
    assert [options["fuse"] for options in built.options] == [True, False]
    assert ranks.heard == [None, PAGES, own is None, None, PAGES, True]


def test_a_model_that_cannot_run_is_told_by_name(load_part: Any) -> None:
    """With the number of devices and the reason."""
    built = Built(ModelMismatch("its attention is of another kind."))
    with pytest.raises(LoadError, match=r"^The model 'm' cannot run on 2 devices: its attention is of another kind\.$"):
        load_part(Other(None, PAGES), built)


def test_a_failure_here_is_told_as_the_other_ranks_where_that_has_said_so(load_part: Any) -> None:
    """A sum that breaks off here broke since the other rank had failed: its sentence is the cause."""
    said = [None, PAGES, Failed("There is no memory left.", "device")]
    pipe: Any = SimpleNamespace(poll=lambda: True, recv=lambda: said.pop(0), send=lambda _: None)
    with pytest.raises(RankFailure, match=r"^Rank 1: There is no memory left\.$") as caught:
        load_part(Followers([pipe]), Built(ModelMismatch("a sum failed.")))
    assert caught.value.load_failure_cause == "device"
