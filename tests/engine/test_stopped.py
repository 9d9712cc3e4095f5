"""An answer that is ended from outside: what is told of it, and what becomes free."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_tokenizers import families

from engine.generation import Generation
from engine.mock_front import MockFront
from engine.scheduler import Limits
from engine.text.output import RequestText, merge_deltas
from engine.types import AnswerForm, ChoiceDelta, Request, SamplingParams, StepOutput, StepToken

FAMILIES = families()
MOCK = FAMILIES["byte-level"]
ENDLESS = SamplingParams(max_tokens=10**6, ignore_eos=True, temperature=1.0)


def told(text: RequestText, ids: list[int], choice: int = 0) -> list[list[ChoiceDelta]]:
    """The deltas of tokens, one round each."""
    return [text.take(StepOutput("r", 1, 10, 1000, [StepToken(choice, token_id, -0.5)])).deltas for token_id in ids]


@settings(max_examples=100, deadline=None)
@given(
    written=st.text("ab 中é😀", max_size=20),
    stop=st.lists(st.text("ab 中é", min_size=1, max_size=4), max_size=2),
    family=st.sampled_from(sorted(FAMILIES)),
)
def test_the_deltas_and_the_stop_are_the_whole_text(written: str, stop: list[str], family: str) -> None:
    """What was held back for a stop string or a character comes then; every token is counted."""
    tokenizer = FAMILIES[family]
    ids = tokenizer.encode(written, add_special_tokens=False)
    request = Request("r", (1,), SamplingParams(max_tokens=100), stop=tuple(stop))
    text = RequestText(request, tokenizer)
    rounds = told(text, ids)
    if text.finished:
        return  # a stop string has ended it before
    rounds.append(text.stop())

    (whole,) = merge_deltas(rounds)
    assert whole.text == tokenizer.decode(ids, skip_special_tokens=True)
    assert (whole.token_count, whole.finish_reason, whole.stop_reason) == (len(ids), "stop", None)
    assert len(text.stats.batch_size) == len(text.stats.round_ms) == len(ids)
    assert text.finished


def test_only_choices_that_are_open_end() -> None:
    """The first has ended by itself; the second has a token, the third none."""
    text = RequestText(Request("r", (1,), SamplingParams(max_tokens=9, n=3, temperature=1.0)), MOCK)
    text.take(StepOutput("r", 3, 0, 0, [StepToken(0, 65, finish_reason="length"), StepToken(1, 66)]))

    deltas = text.stop()
    assert [(delta.index, delta.text, delta.finish_reason) for delta in deltas] == [(1, "", "stop"), (2, "", "stop")]


def test_an_unfinished_character_is_shown_as_such() -> None:
    """Two of the three bytes of a character."""
    text = RequestText(Request("r", (1,), SamplingParams(max_tokens=9)), MOCK)
    told(text, list("中".encode()[:2]))

    assert [delta.text for delta in text.stop()] == ["\ufffd"]


def test_a_call_that_is_cut_keeps_what_there_is_of_it() -> None:
    """As where max_tokens cuts it: the name and the beginning of the arguments, and the reason is stop."""
    form = AnswerForm(tools="hermes", tool_names=("f",))
    text = RequestText(Request("r", (1,), SamplingParams(max_tokens=99), form=form), MOCK)
    written = '<tool_call>\n{"name": "f", "arguments": {"a": 1'
    rounds = [*told(text, MOCK.encode(written, add_special_tokens=False)), text.stop()]

    (whole,) = merge_deltas(rounds)
    assert ([piece.name for piece in whole.calls if piece.name], whole.finish_reason) == (["f"], "stop")
    assert "".join(piece.arguments for piece in whole.calls) == '{"a": 1'


async def read(generation: Generation) -> ChoiceDelta:
    """All of a request of one choice as one delta."""
    (whole,) = merge_deltas([deltas async for deltas in generation])
    return whole


async def test_a_stopped_generation_ends_without_an_error_and_leaves_the_engine() -> None:
    """Its reader gets all tokens that were counted, and nothing of it runs any more."""
    front = MockFront(step_delay_s=0.001)
    await front.start()
    generation = front.submit(Request("a", (1,), ENDLESS))
    first = await anext(generation)
    generation.stop()
    rest = await read(generation)
    async with asyncio.timeout(30):
        while front.executor.live_sequences:  # noqa: ASYNC110 - the engine is on this loop
            await asyncio.sleep(0)

    assert (rest.finish_reason, generation.reasons, generation.ended) == ("stop", ["stop"], True)
    assert first[0].token_count + rest.token_count == generation.generated == front.counts.generated_tokens
    assert (front.running, front.free_slots) == (0, front.total_slots)
    generation.stop()  # again: nothing
    await front.stop()


@pytest.mark.parametrize("beams", [False, True])
async def test_a_request_that_waits_is_stopped_too(beams: bool) -> None:
    """Every choice ends with no text; the next in the line has its place."""
    front = MockFront(limits=Limits(max_batch_size=2, max_queue=9), step_delay_s=0.001)
    await front.start()
    runs = front.submit(Request("a", (1,), SamplingParams(max_tokens=10**6, ignore_eos=True, n=2, temperature=1.0)))
    await anext(runs)
    sampling = SamplingParams(max_tokens=5, n=2, temperature=0.0 if beams else 1.0, use_beam_search=beams)
    waits = front.submit(Request("b", (1,), sampling))
    waits.stop()

    ends = [(delta.index, delta.text, delta.finish_reason) for deltas in [d async for d in waits] for delta in deltas]
    assert ends == [(0, "", "stop"), (1, "", "stop")]
    assert (front.running, front.waiting) == (1, 0)
    runs.cancel()
    await front.stop()


async def test_free_slots_are_places_that_no_choice_has() -> None:
    """Of three choices and a request that waits for four, and none of an engine that is not ready."""
    front = MockFront(limits=Limits(max_batch_size=8, max_queue=9), step_delay_s=0.001)
    assert (front.total_slots, front.free_slots) == (8, 0)
    await front.start()
    assert front.free_slots == 8
    three = front.submit(Request("a", (1,), SamplingParams(max_tokens=99, ignore_eos=True, n=3, temperature=1.0)))
    assert front.free_slots == 5
    front.submit(Request("b", (1,), SamplingParams(max_tokens=99, ignore_eos=True, n=4, temperature=1.0)))
    assert front.free_slots == 1
    three.cancel()
    assert front.free_slots == 4
    await front.stop()
    assert front.free_slots == 0
