"""An engine with nothing to do gives memory back, once, and answers as before."""

from __future__ import annotations

import socket
import sys

import pytest
import torch
from fake_executor import FakeExecutor

from engine import process
from engine.heap import trimmer
from engine.process import serve
from engine.scheduler import Scheduler
from engine.wire import Channel, Quit, encode


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a process's memory like this")
def test_free_memory_inside_the_heap_goes_back_to_the_system() -> None:
    """Of 64 MB in blocks of 100 kB, each second one freed, at least half of the freed ones leave the process."""

    def resident_mb() -> float:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096 / 1e6

    blocks = [torch.ones(25_000) for _ in range(640)]
    kept = blocks[::2]
    del blocks
    before = resident_mb()
    trimmer()()
    assert before - resident_mb() > 16
    assert len(kept) == 320


def test_an_idle_engine_trims_once_and_still_obeys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The front says nothing until memory has been given back; then Quit ends the loop."""
    front, its = socket.socketpair()
    calls = []

    def trim() -> None:
        calls.append("trim")
        front.sendall(encode(Quit()))

    monkeypatch.setattr(process, "IDLE_S", 0.01)
    monkeypatch.setattr(process, "trimmer", lambda: trim)
    executor = FakeExecutor()
    serve(Channel(its), Scheduler(executor, 4), executor)
    assert calls == ["trim"]
