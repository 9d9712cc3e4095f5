"""Ranks without a model, for engine processes: steps in which the first one waits for the others."""

from __future__ import annotations

import os

from engine.parallel.ranks import Failed
from tests.engine.fake_executor import FakeExecutor


class LeadingExecutor(FakeExecutor):
    """Every step is over once all followers have answered."""

    def __init__(self, followers):
        super().__init__()
        self.followers = followers

    def step(self):
        self.followers.confirm()
        return super().step()


def leading(*, followers):
    """A factory of the first rank."""
    followers.exchange(None)
    return LeadingExecutor(followers)


def following(leader):
    """A follower that answers whatever it hears."""
    leader.exchange(None)
    while True:
        leader.say(leader.hear())


def refusing(leader):
    """A follower that cannot load."""
    leader.say(Failed("There is no such NPU.", "device"))
    raise RuntimeError("there is no such NPU")


def dying(leader):
    """A follower whose process is gone in the middle of loading."""
    os._exit(3)
