"""What a step is expected to use, and that the front hears of it before the step begins."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from fake_runner import FakeRunner
from packed_play import greedy
from tiny_models import build

from engine.front import EngineSpec, HangLimits, ProcessFront
from engine.loader import LoadedModel
from engine.pace import StepPace
from engine.packed_executor import PackedExecutor
from engine.runner import TorchExecutor
from engine.text.byte_tokenizer import mock_tokenizer
from engine.types import ModelInfo, Request, SamplingParams
from engine.wire import LongStep, decode, encode


class Clock:
    """A clock that a test moves."""

    now_s = 0.0

    def __call__(self):
        return self.now_s


def paced(*steps):
    """A pace after steps of so many tokens and seconds, and what it told."""
    told, clock = [], Clock()
    pace = StepPace(told.append, clock)
    for tokens, spent_s in steps:
        with pace.step(tokens):
            clock.now_s += spent_s
    return pace, told


@pytest.mark.parametrize(
    ("steps", "tokens", "expected_s"),
    [
        ([], 8192, 0.0),
        ([(1, 0.01)], 8192, 81.92),
        ([(1, 0.01), (1024, 1.024)], 8192, 8.192),
        ([(1, 0.01), (1024, 1.024)], 1500, 1.5),
        ([(1, 0.01), (1024, 1.024)], 512, 5.12),
        ([(1024, 1.024)], 1, 0.001),
        ([(1, 0.01), (1, 0.02)], 1, 0.013),
    ],
)
def test_the_nearest_smaller_size_says_how_long_a_token_takes(steps, tokens, expected_s):
    """Nothing before the first step; of one size the newest step counts three tenths."""
    pace, _ = paced(*steps)
    assert pace.expected_s(tokens) == pytest.approx(expected_s)


def test_only_long_steps_are_told_and_before_they_begin():
    """The first is unknown, the second is expected to take 20 ms, the third 0.2 s."""
    pace, told = paced((1, 0.01), (2, 0.02))
    with pace.step(20):
        assert told == [pytest.approx(0.2)]


def test_a_step_that_fails_changes_nothing():
    """It may have failed early."""
    pace, _ = paced((1, 0.01))
    with pytest.raises(RuntimeError), pace.step(1):
        raise RuntimeError("told to")
    assert pace.expected_s(1) == pytest.approx(0.01)


def test_a_word_about_a_long_step_crosses_the_socket():
    """As every message does."""
    assert decode(encode(LongStep(2.5))[8:]) == LongStep(2.5)


class SeenPace(StepPace):
    """Keeps the tokens of each step."""

    def __init__(self):
        super().__init__()
        self.steps = []

    @contextmanager
    def step(self, tokens):
        self.steps.append(tokens)
        yield


INFO = ModelInfo(96, 256, (), "float32", "cpu", "Llama")


def run(executor, *requests):
    """Run requests together to their end."""
    for request in requests:
        executor.add(request)
    while executor.live_sequences:
        executor.step()


def executors():
    """Each kind, with a pace that is seen."""
    packed, alone = SeenPace(), SeenPace()
    return [
        (PackedExecutor(FakeRunner(), pace=packed), packed),
        (TorchExecutor(LoadedModel(build("llama", 1), INFO), pace=alone), alone),
    ]


@pytest.mark.parametrize("kind", [0, 1], ids=["packed", "alone"])
def test_executors_say_how_many_tokens_a_step_has(kind):
    """A prompt of twelve, then each token of the answer but the last; two requests together."""
    executor, pace = executors()[kind]
    run(executor, greedy("a", tuple(range(1, 13)), 3))
    assert pace.steps == [12, 1, 1]
    run(executor, greedy("b", (3, 2, 1), 2), greedy("c", (4, 3, 2), 2))
    assert pace.steps[3:] == [6, 2]


async def test_a_front_waits_for_a_long_step_that_was_told():
    """It uses two seconds of the processor, ten times the timeout, and said that three may be expected."""
    front = ProcessFront(mock_tokenizer(), EngineSpec("fake_executor:foretelling"), hang=HangLimits(0.2, 1e6))
    await front.start()
    try:
        await front.wait_ready()
        answer = front.submit(Request("r", (1,), SamplingParams(max_tokens=1)))
        (deltas,) = [deltas async for deltas in answer]
        assert deltas[0].finish_reason == "length"
        assert front.counts.engine_restarts == 0
    finally:
        await front.stop()
