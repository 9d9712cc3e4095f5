"""The place that is reserved for a front's probes: beside a full batch, before the queue, and where no page is free."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_executor import FakeExecutor
from packed_play import greedy, make

from engine.batching import BatchLimits
from engine.scheduler import Scheduler
from engine.types import Request, SamplingParams

PROBE = Request("probe", (0,), SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True), reserved=True)


def tokens_of(executor, name, steps=200):
    """The steps until a request is done, and how many tokens it had."""
    count = 0
    for step in range(1, steps + 1):
        for outcome in executor.step():
            if outcome.request_id == name:
                count += len(outcome.tokens)
                if outcome.done:
                    return step, count
    raise AssertionError(f"{name} did not end")


def test_a_probe_passes_the_queue_and_a_full_batch():
    """One place, taken, and another request waits: the probe has its token in the next round."""
    scheduler = Scheduler(FakeExecutor(), 1, max_queue=1)
    for name in ("runs", "waits"):
        scheduler.submit(Request(name, (1,), SamplingParams(max_tokens=9)), 0)
    scheduler.run_round()
    scheduler.submit(PROBE, 0)
    outputs = {output.request_id: output for output in scheduler.run_round()}

    assert outputs.keys() == {"runs", "probe"}
    assert len(outputs["probe"].tokens) == 1
    assert scheduler.queued == 1


def test_a_probe_pushes_nobody_out_of_a_full_queue():
    """The queue holds one, and one waits: both stay."""
    scheduler = Scheduler(FakeExecutor(), 1, max_queue=1)
    for name in ("runs", "waits"):
        scheduler.submit(Request(name, (1,), SamplingParams(max_tokens=9)), 0)
    scheduler.submit(PROBE, 0)
    outputs = {output.request_id for output in scheduler.run_round()}

    assert outputs == {"probe", "runs"}
    assert scheduler.queued == 1


@pytest.mark.parametrize("contiguous", [False, True])
def test_a_probe_runs_beside_a_full_batch(contiguous):
    """A batch of one: both go on in the same step, and the running request keeps its pages."""
    executor, _ = make(num_pages=10, page_size=4, limits=BatchLimits(max_batch_size=1), contiguous=contiguous)
    executor.add(greedy("a", [1, 2], 9))
    executor.step()
    executor.add(PROBE)

    assert tokens_of(executor, "probe") == (1, 1)
    assert executor.stats.preemptions == 0
    executor.check()


@pytest.mark.parametrize("contiguous", [False, True])
def test_a_probe_gets_a_page_of_the_youngest_where_none_is_free(contiguous):
    """All three pages are taken; the younger of two requests gives way, and both answer as they would alone."""
    options = {"num_pages": 3, "page_size": 2, "contiguous": contiguous, "growth_tokens": 1}
    asked = [greedy("old", [1, 2], 3), greedy("young", [3], 3)]
    alone = {}
    for request in asked:
        executor, _ = make(**options)
        executor.add(request)
        alone |= rest(executor, {request.request_id: []})
    executor, _ = make(**options)
    for request in asked:
        executor.add(request)
    found = {request.request_id: [] for request in asked}
    while executor.stats.memory.pages_used < 3:
        step(executor, found)
    executor.add(PROBE)
    executor.check()

    assert executor.stats.preemptions == 1
    assert rest(executor, found) == alone


@pytest.mark.parametrize("contiguous", [False, True])
def test_probes_do_not_take_each_others_pages(monkeypatch, contiguous):
    """Two pages and three probes at once: the third one waits for a round, and none gives way for it."""
    executor, _ = make(num_pages=2, page_size=2, contiguous=contiguous)
    monkeypatch.setattr(executor._admission, "preempt", None)  # else they would do so for ever
    for name in ("one", "two", "three"):
        executor.add(replace(PROBE, request_id=name))
    done = [sorted(outcome.request_id for outcome in executor.step() if outcome.done) for _ in range(2)]

    assert done == [["one", "two"], ["three"]]
    executor.check()


def step(executor, found):
    """Run a step, and add its token ids to those found."""
    for outcome in executor.step():
        if outcome.request_id in found:
            found[outcome.request_id] += [token.token_id for token in outcome.tokens]


def rest(executor, found):
    """Run to the end: the token ids of all requests."""
    for _ in range(200):
        step(executor, found)
        if not executor.live_sequences:
            return found
    raise AssertionError("the requests did not end")


def test_an_ordinary_request_waits_where_a_probe_does_not():
    """The same request without the reservation finds no place."""
    scheduler = Scheduler(FakeExecutor(), 1)
    scheduler.submit(Request("runs", (1,), SamplingParams(max_tokens=9)), 0)
    scheduler.run_round()
    scheduler.submit(replace(PROBE, reserved=False), 0)

    assert {output.request_id for output in scheduler.run_round()} == {"runs"}
