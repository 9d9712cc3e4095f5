"""Several engine processes behind one front: shares, sums, adapters, and the death of one under load."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager

import pytest

from engine.front import EngineSpec, Limits, ProcessFront, RestartPolicy
from engine.lora_book import AdapterBook, AdapterLimits
from engine.multi_front import MultiFront
from engine.process import divided
from engine.text.byte_tokenizer import mock_tokenizer
from engine.types import AdapterError, AdapterSource, EngineError, Request, SamplingParams

MOCK = EngineSpec("engine.mock:make_executor")
SLOW = EngineSpec("engine.mock:make_executor", {"step_delay_s": 0.002})
ENDLESS = 10**6


def request(prompt="hello", max_tokens=3, **rest):
    """A request for the built-in tokenizer that does not end by itself."""
    ids = tuple(mock_tokenizer().encode(prompt, add_special_tokens=False))
    return Request("r", ids, SamplingParams(max_tokens=max_tokens, ignore_eos=True), **rest)


@asynccontextmanager
async def started(*specs, revive_after_s=300.0, adapters=0, **options):
    """Instances that are all ready."""
    limits = AdapterLimits(adapters, 8)
    fronts = [ProcessFront(mock_tokenizer(), spec, adapters=AdapterBook((), limits), **options) for spec in specs]
    front = MultiFront(fronts, revive_after_s)
    await front.start()
    try:
        await asyncio.wait_for(asyncio.gather(*(each.wait_ready() for each in fronts)), 60)
        yield front
    finally:
        await front.stop()


async def text_of(generation):
    """The answer's text."""
    return "".join([delta.text for deltas in [deltas async for deltas in generation] for delta in deltas])


async def test_requests_are_shared_and_answers_are_those_of_one_engine():
    """Ten requests on two instances run five on each; each answer is the one that an instance alone gives."""
    async with started(SLOW, SLOW) as front:
        answers = [front.submit(request(f"prompt {number}", 50)) for number in range(10)]
        assert [each.running for each in front.instances] == [5, 5]
        assert (front.running, front.state, front.info) == (10, "ready", front.instances[0].info)
        together = [await text_of(answer) for answer in answers]
        alone = [await text_of(front.instances[0].submit(request(f"prompt {number}", 50))) for number in range(10)]
        assert together == alone
        assert front.counts.generated_tokens == 1000
        assert front.counts.generated_tokens == sum(each.counts.generated_tokens for each in front.instances)
        assert front.engine_stats.received == sum(each.engine_stats.received for each in front.instances)


async def test_equal_beginnings_go_to_the_same_idle_instance():
    """So that its cache is of use."""
    async with started(MOCK, MOCK) as front:
        for _ in range(6):
            await text_of(front.submit(request("the same beginning")))
        assert sorted(each.counts.prompt_tokens > 0 for each in front.instances) == [False, True]


async def test_a_full_instance_is_passed_over_until_all_are_full():
    """One place each and no queue: two requests run, the third is refused."""
    async with started(SLOW, SLOW, limits=Limits(max_batch_size=1, max_queue=0)) as front:
        running = [front.submit(request(max_tokens=ENDLESS)) for _ in range(2)]
        with pytest.raises(EngineError) as refused:
            front.submit(request())
        assert refused.value.code == "queue_full"
        await asyncio.wait_for(front.probe(30), 60)
        for answer in running:
            answer.cancel()


async def test_an_instance_that_is_killed_fails_its_own_requests_alone():
    """Readiness stays; the other instance's requests go on, new ones go to it, and the dead one comes back."""
    async with started(SLOW, SLOW) as front:
        answers = [front.submit(request(f"prompt {number}", ENDLESS)) for number in range(8)]
        for answer in answers:
            await asyncio.wait_for(anext(answer), 30)
        states = set()
        first, second = front.instances
        os.kill(first.pid, signal.SIGKILL)
        while first.running:
            states.add(front.state)
            await asyncio.sleep(0.001)
        states.add(front.state)
        assert states == {"ready"}
        assert (first.running, second.running) == (0, 4)
        late = [front.submit(request(f"late {number}", ENDLESS)) for number in range(2)]
        assert second.running == 6
        codes = []
        for answer in answers:
            try:
                async with asyncio.timeout(0.5):
                    while True:
                        await anext(answer)
            except EngineError as error:
                codes.append(error.code)
            except TimeoutError:
                codes.append("goes on")
        assert sorted(codes) == ["engine_down"] * 4 + ["goes on"] * 4
        await asyncio.wait_for(first.wait_ready(), 60)
        assert front.counts.engine_restarts == 1
        for answer in (*answers, *late):
            answer.cancel()


async def test_an_instance_that_dies_too_often_is_tried_again_while_another_serves():
    """It is left out for a while, here not long."""
    async with started(MOCK, MOCK, restart=RestartPolicy(max_deaths=1), revive_after_s=0.01) as front:
        first = front.instances[0]
        os.kill(first.pid, signal.SIGKILL)
        while first.state == "ready":  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        assert (front.state, front.lost) == ("ready", None)
        while first.state != "ready":  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        assert front.lost is None


async def test_all_instances_that_die_too_often_are_a_loss():
    """The front says so, and why."""
    async with started(MOCK, MOCK, restart=RestartPolicy(max_deaths=1)) as front:
        for each in front.instances:
            os.kill(each.pid, signal.SIGKILL)
        assert await asyncio.wait_for(front.wait_lost(), 30) == "deaths"
        assert (front.state, front.lost) == ("down", "deaths")
        assert "is not started again" in front.failure
        with pytest.raises(EngineError, match="is not started again") as caught:
            await front.wait_ready()
        assert caught.value.code == "engine_down"


async def test_an_instance_that_cannot_be_loaded_is_the_loss_of_all():
    """Who asked for two shall not have one."""
    fronts = [ProcessFront(mock_tokenizer(), spec) for spec in (MOCK, EngineSpec("fake_executor:refusing"))]
    front = MultiFront(fronts)
    await front.start()
    try:
        assert await asyncio.wait_for(front.wait_lost(), 60) == "weights"
        assert (front.state, front.failure) == ("down", "The model folder is empty.")
    finally:
        await front.stop()


async def test_an_adapter_is_had_by_all_instances_also_by_one_that_was_away():
    """Loaded while one restarts; when that is back, each answers with the adapter, and unloading takes it from both."""
    async with started(MOCK, MOCK, adapters=2) as front:
        first, second = front.instances
        os.kill(first.pid, signal.SIGKILL)
        while first.state == "ready":  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        await asyncio.wait_for(front.load_adapter(AdapterSource("poet", "/nowhere")), 30)
        assert [source.name for source in front.adapters.ready] == ["poet"]
        await asyncio.wait_for(first.wait_ready(), 60)
        texts = {await text_of(each.submit(request(adapter="poet"))) for each in front.instances}
        plain = await text_of(front.submit(request()))
        assert len(texts) == 1
        assert plain not in texts
        front.unload_adapter("poet")
        assert front.adapters.ready == []
        for each in (first, second):
            with pytest.raises(EngineError, match="not loaded any more"):
                each.submit(request(adapter="poet"))
        with pytest.raises(AdapterError, match="not loaded"):
            front.unload_adapter("poet")


async def test_a_drain_ends_all_instances():
    """Running requests end as stopping at the deadline, wherever they are."""
    async with started(SLOW, SLOW) as front:
        answers = [front.submit(request(f"prompt {number}", ENDLESS)) for number in range(4)]
        await front.drain(0.05)
        assert (front.state, front.running) == ("draining", 0)
        for answer in answers:
            with pytest.raises(EngineError) as caught:
                await text_of(answer)
            assert caught.value.code == "stopping"


def test_instances_share_cores_and_memory():
    """Two of four threads each, and half of the memory; never less than one thread."""
    spec = EngineSpec("m:f", threads=4)
    assert divided(spec, 1) == spec
    assert (divided(spec, 2).threads, divided(spec, 2).memory_share) == (2, 0.5)
    assert divided(spec, 10).threads == 1


async def test_an_answer_is_stopped_where_it_runs_and_gives_its_place_back():
    """In the engine process that has it; places are those of all instances."""
    async with started(SLOW, SLOW, limits=Limits(max_batch_size=4)) as front:
        assert (front.total_slots, front.free_slots) == (8, 8)
        stopped, other = (front.submit(request(max_tokens=ENDLESS)) for _ in range(2))
        await asyncio.gather(anext(stopped), anext(other))
        assert front.free_slots == 6
        stopped.stop()
        reasons = [delta.finish_reason async for deltas in stopped for delta in deltas]

        assert reasons[-1] == "stop"
        assert (front.free_slots, front.running, other.ended) == (7, 1, False)
        async with asyncio.timeout(60):
            while front.engine_stats.executor.running != 1:
                await anext(other)
        other.cancel()
