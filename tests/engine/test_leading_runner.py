"""The first rank's runner: the others do what it does, in the same order, and a step that fails ends them all."""

from __future__ import annotations

import multiprocessing
from contextlib import suppress
from multiprocessing.connection import Connection
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.executor import RankLost
from engine.parallel.follower import obey
from engine.parallel.leading_runner import LeadingRunner
from engine.parallel.ranks import Followers, Leader
from engine.plan import Plan, Span

PLAN = Plan([Span([3, 1], 0, [5, 6, 7], 1)], 0)


class Recorder:
    """A ``ModelRunner`` that writes down what it is told."""

    info = selector = SimpleNamespace()
    page_size = num_pages = bytes_per_page = 8
    contiguous_pages = same_bits = True

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.told: list[tuple[Any, ...]] = []

    def run(self, plan: Plan) -> torch.Tensor:
        """See ``ModelRunner.run``."""
        self.told.append(("run", plan))
        if self.failure is not None:
            raise self.failure
        return torch.zeros(1, 4)

    def copy_pages(self, source: Any, target: Any) -> None:
        """See ``ModelRunner.copy_pages``."""
        self.told.append(("copy pages", source, target))

    def copy_beginning(self, source: int, target: int, tokens: int) -> None:
        """See ``ModelRunner.copy_beginning``."""
        self.told.append(("copy beginning", source, target, tokens))


def test_a_follower_does_what_the_first_rank_does() -> None:
    """Steps, copies of pages and of parts of them, each with its own numbers."""
    mine, theirs = multiprocessing.Pipe()
    own: Any = Recorder()
    other = Recorder()
    follower = Thread(target=_until_the_first_is_gone, args=(theirs, other))
    follower.start()
    followers = Followers([mine])
    leading = LeadingRunner(own, followers)
    leading.run(PLAN)
    leading.copy_pages([1, 2], [7, 4])
    leading.copy_beginning(3, 5, 6)
    followers.confirm()
    mine.close()
    follower.join(timeout=60)
    wanted = [("run", PLAN), ("copy pages", [1, 2], [7, 4]), ("copy beginning", 3, 5, 6)]
    assert own.told == wanted
    assert other.told == wanted


def _until_the_first_is_gone(pipe: Connection, runner: Any) -> None:
    with pipe, suppress(RankLost):
        obey(Leader(pipe, 1, 2), runner)


def test_a_step_that_fails_here_loses_the_instance() -> None:
    """Nobody knows any more how far the others have come, so it is no failure of one round."""
    mine, theirs = multiprocessing.Pipe()
    own: Any = Recorder(RuntimeError("out of memory"))
    leading = LeadingRunner(own, Followers([mine]))
    with pytest.raises(RankLost, match="a step of 2 ranks failed: out of memory"):
        leading.run(PLAN)
    assert theirs.recv().plan == PLAN
