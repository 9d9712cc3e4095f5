"""The front's door on the event loop: generations, cancelling, queue limits, slow consumers, drain and failures."""

from __future__ import annotations

import asyncio
import gc
from contextlib import asynccontextmanager

import pytest

from engine.front_base import FrontBase
from engine.generation import GenerationState
from engine.mock_front import MockFront
from engine.scheduler import Limits
from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.output import merge_deltas
from engine.types import ChoiceDelta, EngineError, Request, SamplingParams, StepOutput, StepToken
from engine.wire import Cancel, RemoveChoice, Submit


def request(prompt="Hello", *, stop=(), **sampling):
    """A request for the built-in tokenizer."""
    sampling.setdefault("max_tokens", 8)
    ids = tuple(mock_tokenizer().encode(prompt, add_special_tokens=False))
    return Request("r", ids, SamplingParams(**sampling), stop=tuple(stop))


async def whole(generation):
    """The answer's choices, joined."""
    return merge_deltas([deltas async for deltas in generation])


@asynccontextmanager
async def mock(**options):
    """A started mock front."""
    front = MockFront(**options)
    await front.start()
    await front.wait_ready()
    try:
        yield front
    finally:
        await front.stop()


class SilentFront(FrontBase):
    """A front whose engine only takes notes; the test reports the rounds."""

    def __init__(self, **limits):
        super().__init__(mock_tokenizer(), Limits(**limits))
        self.state = "ready"
        self.commands = []

    def _send(self, command):
        self.commands.append(command)

    def report(self, *outputs):
        """A round's report."""
        self._receive(list(outputs))

    @property
    def ids(self):
        """Ids of the submitted requests, as the engine knows them."""
        return [command.request.request_id for command in self.commands if isinstance(command, Submit)]


def output(request_id, *tokens, done=False):
    """One round of one request."""
    return StepOutput(request_id, 1, 5, 1000, list(tokens), done=done)


async def test_a_generation_gives_one_list_a_round_and_ends():
    """Five tokens with nothing held back: five rounds, then the end."""
    async with mock() as front:
        generation = front.submit(request(max_tokens=5, ignore_eos=True))
        rounds = [deltas async for deltas in generation]
        assert [delta.token_count for deltas in rounds for delta in deltas] == [1] * 5
        assert rounds[-1][0].finish_reason == "length"
        assert len(generation.stats.round_ms) == 5
        with pytest.raises(StopAsyncIteration):
            await generation.__anext__()


async def test_equal_request_ids_do_not_mix():
    """Clients choose ids; two requests of one id get their own answers."""
    async with mock() as front:
        alone = [await whole(front.submit(request(prompt, max_tokens=20))) for prompt in ("one", "two")]
        together = await asyncio.gather(
            *(whole(front.submit(request(prompt, max_tokens=20))) for prompt in ("one", "two"))
        )
        assert together == alone
        assert alone[0] != alone[1]


async def test_a_burst_of_requests_gets_every_answer():
    """Two hundred requests on a batch of four: each ends with its own text."""
    async with mock(limits=Limits(max_batch_size=4)) as front:
        alone = [await whole(front.submit(request(f"number {index}"))) for index in range(200)]
        burst = await asyncio.gather(*(whole(front.submit(request(f"number {index}"))) for index in range(200)))
        assert burst == alone
        assert front.running == front.waiting == 0


async def test_before_start_requests_are_refused_as_loading():
    """The code tells a client to try again."""
    with pytest.raises(EngineError) as caught:
        MockFront().submit(request())
    assert caught.value.code == "loading"


async def test_cancelling_ends_the_iteration_and_frees_the_engine():
    """A waiting reader is released, and the engine holds nothing of the request at its next round."""
    async with mock() as front:
        generation = front.submit(request(max_tokens=10**9, ignore_eos=True))
        await anext(generation)
        reader = asyncio.create_task(whole(generation))
        generation.cancel()
        generation.cancel()
        await reader
        assert front.running == 0
        assert front.executor.live_sequences == 0


async def test_a_dropped_generation_is_cancelled():
    """A consumer that forgets its generation does not keep the engine busy."""
    front = SilentFront()
    generation = front.submit(request())
    del generation
    gc.collect()
    await asyncio.sleep(0)
    assert front.commands[1:] == [Cancel(front.ids[0])]
    assert front.running == 0


async def test_a_report_on_a_cancelled_request_is_ignored():
    """It was on its way when the request was given up."""
    front = SilentFront()
    generation = front.submit(request())
    generation.cancel()
    front.report(output(front.ids[0], StepToken(0, 65)))
    assert await whole(generation) == []


async def test_a_stop_string_removes_the_choice_in_the_engine_once():
    """Later tokens of that choice change nothing; the other choice goes on."""
    front = SilentFront()
    generation = front.submit(request(n=2, stop=["B"]))
    (request_id,) = front.ids
    for token in (65, 66, 67):
        front.report(output(request_id, StepToken(0, token), StepToken(1, 68)))
    assert front.commands[1:] == [RemoveChoice(request_id, 0)]
    assert [(delta.text, delta.token_count) for delta in await anext(generation)] == [("A", 2), ("DDD", 3)]
    generation.cancel()


async def test_a_request_that_the_engine_drops_early_fails():
    """Done without a finish reason for every choice is an error, never a silent end."""
    front = SilentFront()
    generation = front.submit(request(n=2))
    front.report(output(front.ids[0], StepToken(0, 65, finish_reason="stop"), done=True))
    assert (await anext(generation))[0].finish_reason == "stop"
    with pytest.raises(EngineError) as caught:
        await anext(generation)
    assert caught.value.code == "internal"


async def test_the_queue_is_bounded():
    """A batch of two and a queue of two: the fifth request is refused, and one more fits when one has ended."""
    front = SilentFront(max_batch_size=2, max_queue=2)
    generations = [front.submit(request()) for _ in range(4)]
    assert front.waiting == 2
    with pytest.raises(EngineError) as caught:
        front.submit(request())
    assert caught.value.code == "queue_full"
    generations[0].cancel()
    generations.append(front.submit(request()))
    assert front.waiting == 2


async def test_a_request_wider_than_the_batch_fills_the_queue_behind_it():
    """It is admitted alone, so everything after it waits."""
    front = SilentFront(max_batch_size=2, max_queue=1)
    wide = front.submit(request(n=5))
    assert front.waiting == 0
    behind = front.submit(request())
    assert front.waiting == 1
    with pytest.raises(EngineError):
        front.submit(request())
    wide.cancel()
    behind.cancel()


async def test_without_a_queue_only_what_fits_is_taken():
    """max_queue 0: two sequences run, a third request is refused."""
    front = SilentFront(max_batch_size=2, max_queue=0)
    running = front.submit(request(n=2))
    with pytest.raises(EngineError) as caught:
        front.submit(request())
    assert caught.value.code == "queue_full"
    running.cancel()
    front.submit(request()).cancel()


async def test_a_consumer_that_lags_gets_the_missed_rounds_as_one():
    """The text is whole, and statistics still count every round."""
    front = SilentFront()
    generation = front.submit(request(max_tokens=1000))
    for _ in range(999):
        front.report(output(front.ids[0], StepToken(0, 65)))
    front.report(output(front.ids[0], StepToken(0, 65, finish_reason="length"), done=True))
    rounds = [deltas async for deltas in generation]
    assert [[(delta.text, delta.token_count) for delta in deltas] for deltas in rounds] == [[("A" * 1000, 1000)]]
    assert len(generation.stats.batch_size) == 1000


async def test_unread_rounds_do_not_pile_up():
    """After 100,000 unread rounds of two choices fewer than 1,000 deltas are held."""
    state = GenerationState()
    for _ in range(100_000):
        state.add([ChoiceDelta(0, "ab", 1), ChoiceDelta(1, "c", 1)])
    gc.collect()
    assert sum(isinstance(thing, ChoiceDelta) for thing in gc.get_objects()) < 1000
    first, second = await state.read()
    assert (len(first.text), first.token_count, len(second.text)) == (200_000, 100_000, 100_000)


async def test_a_generation_that_is_failed_gives_what_it_has_then_the_error():
    """The engine is told at once; a second error changes nothing."""
    front = SilentFront()
    generation = front.submit(request())
    front.report(output(front.ids[0], StepToken(0, 65)))
    generation.fail(EngineError("timeout", "Too late."))
    generation.fail(EngineError("internal", "Later."))
    assert front.commands[1:] == [Cancel(front.ids[0])]
    assert [delta.text for delta in await anext(generation)] == ["A"]
    with pytest.raises(EngineError, match="Too late"):
        await anext(generation)
    assert front.running == 0


async def test_every_round_is_a_sign_of_life_of_its_request():
    """Also one without new text, as beams have; others' rounds are not."""
    front = SilentFront()
    one, other = front.submit(request(n=2, use_beam_search=True)), front.submit(request())
    one._state.heard_s = other._state.heard_s = 0.0
    front.report(output(front.ids[0]))
    assert one.heard_s > other.heard_s == 0.0
    one.cancel()
    other.cancel()


async def test_a_failure_in_mid_stream_follows_the_text_before_it():
    """Three rounds of text, then the error; the engine serves the next request."""
    async with mock(fail_at=4) as front:
        generation = front.submit(request(max_tokens=20, ignore_eos=True))
        assert [len(await anext(generation)) for _ in range(3)] == [1, 1, 1]
        with pytest.raises(EngineError) as caught:
            await anext(generation)
        assert caught.value.code == "internal"
        front.executor.fail_at = None
        (choice,) = await whole(front.submit(request(max_tokens=2, ignore_eos=True)))
        assert choice.finish_reason == "length"


async def test_draining_lets_the_running_finish_and_refuses_new_ones():
    """The running request ends normally; a new one is told that the server stops."""
    async with mock() as front:
        answer = asyncio.create_task(whole(front.submit(request(max_tokens=50, ignore_eos=True))))
        await front.drain(30)
        assert (await answer)[0].token_count == 50
        with pytest.raises(EngineError) as caught:
            front.submit(request())
        assert caught.value.code == "stopping"


async def test_draining_gives_up_after_its_time():
    """What still runs then fails as stopping."""
    async with mock() as front:
        answer = asyncio.create_task(whole(front.submit(request(max_tokens=10**9, ignore_eos=True))))
        await front.drain(0.05)
        with pytest.raises(EngineError) as caught:
            await answer
        assert caught.value.code == "stopping"
        assert front.executor.live_sequences == 0


async def test_stopping_fails_what_still_runs():
    """Nobody waits for an answer that cannot come."""
    front = MockFront()
    await front.start()
    answer = asyncio.create_task(whole(front.submit(request(max_tokens=10**9, ignore_eos=True))))
    await asyncio.sleep(0)
    await front.stop()
    with pytest.raises(EngineError) as caught:
        await answer
    assert caught.value.code == "stopping"


async def test_the_loop_stays_free_between_the_rounds_of_a_mock():
    """With a delay of 20 ms a round, other work runs many times while one token is made."""
    async with mock(step_delay_s=0.02) as front:
        answer = asyncio.create_task(whole(front.submit(request(max_tokens=1, ignore_eos=True))))
        turns = 0
        while not answer.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 20
