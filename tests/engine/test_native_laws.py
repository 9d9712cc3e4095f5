"""Laws of the packed executor on the native step: whatever the company, every answer is exactly the one alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_models import PAGE, model, need_native, runner
from packed_play import Arrival, limits, play, request

from engine.native.runner import NativeRunner
from engine.packed_executor import PackedExecutor
from engine.types import ModelInfo

VOCAB = 20
"""Small, so that choices meet again and stop tokens are hit."""
LAW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TOKENS = st.integers(0, VOCAB - 1)
BASES = st.lists(st.lists(TOKENS, min_size=PAGE, max_size=3 * PAGE), min_size=1, max_size=2)
SAMPLING = st.fixed_dictionaries(
    {"max_tokens": st.integers(1, 40), "n": st.sampled_from([1, 1, 2, 3]), "seed": st.integers(0, 3)},
    optional={
        "temperature": st.sampled_from([0.0, 0.7, 2.0]),
        "use_beam_search": st.booleans(),
        "ignore_eos": st.booleans(),
        "repetition_penalty": st.sampled_from([0.5, 1.7]),
        "logprobs": st.integers(0, 2),
    },
)
LIMITS = limits(st.integers(8, 200), st.integers(3, 50), st.integers(1, 60))


@dataclass
class FewPages:
    """A runner that has fewer pages than the one behind it."""

    behind: NativeRunner
    num_pages: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


@pytest.fixture(scope="module", params=[("llama", "bf16"), ("gemma2", "bf16"), ("llama tied", "int8")], ids=" ".join)
def step(request: pytest.FixtureRequest, library_cache: Path) -> NativeRunner:
    """A runner whose EOS is 7."""
    need_native()
    family, weights = request.param
    built = runner(model(family, vocab_size=VOCAB), library_cache, weights=weights)
    built.info = ModelInfo(VOCAB, built.info.max_position_embeddings, (7,), "bfloat16", "cpu", "tiny")
    return built


@st.composite
def schedules(draw: Any) -> list[Arrival]:
    """Requests, some with a common beginning, when they come, and which of them are given up."""
    bases = draw(BASES)
    arrivals = []
    for number in range(draw(st.integers(2, 6))):
        base = draw(st.sampled_from(bases))
        prompt = (*base[: draw(st.integers(0, len(base)))], *draw(st.lists(TOKENS, min_size=1, max_size=6)))
        asked = request(number, prompt, **draw(SAMPLING))
        arrivals.append(Arrival(asked, draw(st.integers(0, 12)), draw(st.none() | st.integers(0, 20))))
    return arrivals


def alone(step: NativeRunner, arrival: Arrival) -> Any:
    """The answer to one request that nothing else runs beside, from an empty memory."""
    played = play(PackedExecutor(step), [Arrival(arrival.request)])
    return played.answers[arrival.request.request_id]


@LAW
@given(data=st.data())
def test_every_answer_is_the_one_alone(step: NativeRunner, data: st.DataObject) -> None:
    """Tokens, logprobs and beams, to the last bit: with prefix hits, chunks, forks, preemptions, drafts, removals."""
    arrivals, limits = data.draw(schedules()), data.draw(LIMITS)
    probe = PackedExecutor(step)
    largest = max(
        probe._memory.most_pages(
            len(arrival.request.prompt_ids),
            len(arrival.request.prompt_ids) + arrival.request.sampling.max_tokens - 1,
            arrival.request.sampling.n if arrival.request.sampling.use_beam_search else 1,
        )
        for arrival in arrivals
    )
    few = FewPages(step, min(step.num_pages, largest + data.draw(st.sampled_from([0, 0, 1, 3, 30]))))
    executor = PackedExecutor(few, limits, shortest_run=data.draw(st.sampled_from([1, 5, 8])))
    played = play(executor, arrivals, limits.max_batch_size)
    assert played.failures == []
    for arrival in arrivals:
        if arrival.cancel_step is None:
            assert played.answers[arrival.request.request_id] == alone(step, arrival)
    assert executor.stats.memory.pages_used == 0


def test_a_preempted_sequence_goes_on_exactly_as_it_would_have(step: NativeRunner) -> None:
    """Three sequences in a memory for fewer: some are computed again, and no logprob differs."""
    arrivals = [
        Arrival(request(number, range(number, number + 12), max_tokens=100, ignore_eos=True, logprobs=1, seed=number))
        for number in range(3)
    ]
    executor = PackedExecutor(FewPages(step, 6))
    played = play(executor, arrivals)
    assert executor.stats.preemptions > 0
    assert [played.answers[str(number)] for number in range(3)] == [alone(step, arrival) for arrival in arrivals]


def test_a_prefix_is_read_where_it_lies(step: NativeRunner) -> None:
    """The second request computes only what is after the first one's full pages, and answers the same."""
    prompt = [index * 7 % VOCAB for index in range(2 * PAGE + 5)]
    asked = [request(number, prompt, max_tokens=9, ignore_eos=True, logprobs=2) for number in range(2)]
    executor = PackedExecutor(step)
    played = play(executor, [Arrival(asked[0]), Arrival(asked[1], step=20)])
    assert played.cached_tokens == {"0": 0, "1": 2 * PAGE}
    assert played.answers["0"] == played.answers["1"]
