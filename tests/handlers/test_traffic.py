"""Averages over a window, with a clock that the test moves."""

from __future__ import annotations

import dataclasses

import pytest

from engine.front_base import FrontCounts
from handlers.record import Record
from handlers.traffic import Traffic

CHAT = "/v1/chat/completions"


@dataclasses.dataclass
class World:
    """A clock and a front's counts."""

    now_s: float = 1000.0
    counts: FrontCounts = dataclasses.field(default_factory=FrontCounts)


@pytest.fixture
def world() -> World:
    """Nothing has happened."""
    return World()


def traffic(world: World, window: int = 1000) -> Traffic:
    """Of that world."""
    return Traffic(window, lambda: world.counts, lambda: world.now_s)


def run(counted: Traffic, world: World, generated: int, took_s: float) -> None:
    """One request of 2 prompt tokens that is answered whole."""
    record = Record("POST", CHAT, begun_s=world.now_s)
    counted.begin(record)
    world.now_s += took_s
    world.counts.prompt_tokens += 2
    world.counts.generated_tokens += generated
    record.status, record.whole = 200, True
    counted.end(record, world.now_s)


def test_throughput_is_that_of_the_last_minute(world: World) -> None:
    """Twenty requests of 5 s and 100 tokens each: 20 tokens a second, also from the middle of the window on."""
    counted = traffic(world)
    for _ in range(20):
        run(counted, world, 100, 5)

    assert counted.tokens_per_s == (pytest.approx(0.4), pytest.approx(20))


def test_throughput_looks_back_over_the_windows_requests_at_most(world: World) -> None:
    """A window of two: what slow ones did before does not count."""
    counted = traffic(world, window=2)
    for _ in range(3):
        run(counted, world, 1, 5)
    for _ in range(2):
        run(counted, world, 100, 5)

    assert counted.tokens_per_s[1] == pytest.approx(20)


def test_throughput_falls_to_zero_when_nobody_asks(world: World) -> None:
    """A minute after the last request nothing of it is left; the next one counts from its own beginning."""
    counted = traffic(world)
    assert counted.tokens_per_s == (0, 0)
    run(counted, world, 100, 1)
    world.now_s += 61
    assert counted.tokens_per_s == (0, 0)
    run(counted, world, 50, 2)
    assert counted.tokens_per_s[1] == pytest.approx(25)


def test_a_long_answer_counts_while_it_runs(world: World) -> None:
    """Tokens are counted as they come, not at the request's end."""
    counted = traffic(world)
    counted.begin(Record("POST", CHAT, begun_s=world.now_s))
    world.now_s += 30
    world.counts.generated_tokens += 600

    assert counted.tokens_per_s[1] == pytest.approx(20)


@pytest.mark.parametrize(
    ("method", "endpoint", "received"),
    [("POST", CHAT, 1), ("POST", "/v1/completions", 1), ("GET", CHAT, 0), ("POST", "/v1/load_lora_adapter", 0)],
)
def test_only_inference_requests_are_received(world: World, method: str, endpoint: str, received: int) -> None:
    """Others are answers by endpoint and status, and nothing else."""
    counted = traffic(world)
    record = Record(method, endpoint, begun_s=world.now_s, status=405, whole=True)
    counted.begin(record)
    counted.end(record, world.now_s)

    assert (counted.received, counted.failed, counted.answers[endpoint, 405]) == (received, received, 1)
