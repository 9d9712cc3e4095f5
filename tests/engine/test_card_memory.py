"""How much of a card's memory the pages get: a share of what is free, or a fraction of all, or what was asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine import card_memory as memory
from engine import packed_loader
from engine.torch_runner import TorchRunner
from engine.types import ModelInfo

GIB = 1 << 30


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Any:
    """64 GiB, of which 41 are free."""
    found = SimpleNamespace(free=41 * GIB, total=64 * GIB)
    npu = SimpleNamespace(mem_get_info=lambda: (found.free, found.total))
    monkeypatch.setattr(torch, "npu", npu, raising=False)
    return found


@pytest.mark.usefixtures("card")
def test_a_share_of_what_is_free() -> None:
    """Nine tenths beyond 1 GiB; two processes on the card have half of that each."""
    assert memory.pool_bytes(None) == 36 * GIB
    assert memory.pool_bytes(None, 0.5) == 18 * GIB


@pytest.mark.usefixtures("card")
def test_a_fraction_of_the_card() -> None:
    """Half of 64 GiB, less the 23 that are in use, weights among them."""
    assert memory.fraction_bytes(0.5) == 9 * GIB
    assert memory.fraction_bytes(0.5, 0.5) == 9 * GIB // 2


def test_what_was_asked_for() -> None:
    """Nothing is measured."""
    assert memory.pool_bytes(12345) == 12345


def test_a_card_that_is_full(card: Any) -> None:
    """A sentence says what is free, and what to do."""
    card.free = 1 * GIB
    with pytest.raises(memory.CardFull, match=r"The card has 1.00 GiB of 64.00 GiB free .* `npu-smi info` lists"):
        memory.pool_bytes(None)
    with pytest.raises(memory.CardFull, match="a larger NPU_MEMORY_FRACTION, or npuMemSize, gives them more"):
        memory.fraction_bytes(0.5)


def runner_on(device: str) -> TorchRunner:
    """One that has pages of 4 GiB and has never been made."""
    runner = TorchRunner.__new__(TorchRunner)
    runner.info = ModelInfo(96, 256, (2,), "bfloat16", device, "LlamaForCausalLM")
    runner.num_pages, runner.bytes_per_page = 4096, 1 << 20
    return runner


def test_the_prefix_cache_may_fill_a_card() -> None:
    """Its pages are taken in any case; on a host it stops at 1 GiB, of a pool that nobody asked for."""
    assert packed_loader._soft_limit(runner_on("npu:0"), None) is None
    assert packed_loader._soft_limit(runner_on("cuda:0"), None) is None
    assert packed_loader._soft_limit(runner_on("cpu"), None) == GIB


@pytest.mark.usefixtures("card")
def test_one_sequence_at_a_time_has_the_card_s_memory() -> None:
    """Not the host's."""
    assert packed_loader._card_bytes(None, 1.0, None) == 36 * GIB
    assert packed_loader._card_bytes(None, 1.0, 0.5) == 9 * GIB
    assert packed_loader._card_bytes(7, 1.0, 0.5) == 7


def test_a_gpu_is_asked_for_its_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch.cuda, and a full one names the program that lists its users."""
    free = 41 * GIB
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 64 * GIB))
    assert memory.pool_bytes(None, kind="cuda") == 36 * GIB
    assert packed_loader._card_bytes(None, 1.0, 0.5, "cuda") == 9 * GIB
    free = GIB
    with pytest.raises(memory.CardFull, match="`nvidia-smi` lists what else is on the card"):
        memory.pool_bytes(None, kind="cuda")
