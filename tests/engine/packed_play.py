"""Plays a schedule of requests on the packed executor, and an oracle that answers each of them without any pages."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from fake_runner import VOCAB, FakeRunner, context_logits
from hypothesis import strategies as st

from engine.batching import BatchLimits
from engine.packed_executor import PackedExecutor
from engine.prefix import SHORTEST_RUN
from engine.sampling.beam import BeamSearch
from engine.sampling.params import DrawSettings, FinishRule
from engine.sampling.penalties import TokenCounts
from engine.sampling.sampler import Row, Sampler
from engine.scheduler import Scheduler
from engine.types import Request, RequestFailure, SamplingParams, StepOutput, StepToken

CPU = torch.device("cpu")
STEP_LIMIT = 5000


def limits(prefill_tokens, chunk_size, mixed_tokens):
    """A strategy for the limits of a batch, given those that depend on the prompts' lengths."""
    return st.builds(
        BatchLimits,
        max_batch_size=st.integers(1, 8),
        max_prefill_batch_size=st.integers(1, 4),
        max_prefill_tokens=prefill_tokens,
        prefill_chunk_size=st.none() | chunk_size,
        mixed_prefill_tokens=mixed_tokens,
        draft_tokens=st.integers(0, 4),
    )


def request(request_id, prompt, **sampling):
    """A request of some token ids."""
    return Request(str(request_id), tuple(prompt), SamplingParams(**sampling))


def answer_of(asked, eos=(), vocab=VOCAB, adapter=0, rhythm=0.0, seen=list):
    """What a request answers by itself: per choice its tokens, or its hypotheses. Uses no page and no batch.

    ``adapter`` is what its adapter does on the fake runner, ``rhythm`` is that runner's, and ``seen`` makes of a
    context's tokens what they are to it.
    """

    def logits(context):
        return context_logits(seen(context), vocab=vocab, adapter=adapter, rhythm=rhythm)

    sampling = asked.sampling
    rule = FinishRule.of(sampling, eos)
    if sampling.use_beam_search:
        beam, contexts = BeamSearch(asked, rule, CPU), [list(asked.prompt_ids)]
        while (parents := beam.advance(torch.stack([logits(c) for c in contexts]))) is not None:
            contexts = [[*contexts[parent], token] for parent, token in zip(parents, beam.last_tokens, strict=True)]
        return beam.hypotheses()
    answer = {}
    for choice in range(sampling.n):
        row_settings = DrawSettings.of(sampling, choice)
        row = Row(row_settings, 0, TokenCounts.start(row_settings, asked.prompt_ids, CPU))
        context, tokens, reason = list(asked.prompt_ids), [], None
        while reason is None:
            (draw,) = Sampler().draw(logits(context)[None], [row])
            row.position += 1
            if row.counts is not None:
                row.counts.add(draw.token_id)
            reason, stop = rule.check(draw.token_id, row.position)
            tokens.append(StepToken(choice, draw.token_id, draw.logprob, draw.top, reason, stop))
            context.append(draw.token_id)
        answer[choice] = tokens
    return answer


@dataclass
class Arrival:
    """A request, the step before which it comes, and what its client does later."""

    request: Request
    step: int = 0
    cancel_step: int | None = None
    end_choice: tuple[int, int] | None = None
    """(step, choice): the client's stop string ends a choice."""


@dataclass
class Played:
    """Everything that happened."""

    answers: dict = field(default_factory=dict)
    """Request id -> choice -> tokens, or hypotheses."""
    done: set = field(default_factory=set)
    failures: list = field(default_factory=list)
    cached_tokens: dict = field(default_factory=dict)
    first_part: dict = field(default_factory=dict)
    """Request id -> the step in which a part of it ran first."""
    steps: int = 0


def make(
    *,
    eos=(),
    limits=None,
    growth_tokens=4,
    cache_pages=None,
    prefix_cache=True,
    shortest_run=SHORTEST_RUN,
    media=None,
    **runner,
):
    """(executor, its fake runner)."""
    fake = FakeRunner(eos=eos, **runner)
    cache_bytes = None if cache_pages is None else cache_pages * fake.bytes_per_page
    options = {"cache_bytes": cache_bytes, "shortest_run": shortest_run, "prefix_cache": prefix_cache, "media": media}
    return PackedExecutor(fake, limits or BatchLimits(), growth_tokens, **options), fake


def play(executor, arrivals, max_batch_size=None):
    """Run a schedule through the real scheduler to its end, with all books checked after every step."""
    played = Played()
    scheduler = Scheduler(executor, max_batch_size or 10**6)
    step = executor.step

    def watched():
        rounds = step()
        executor.check()
        for round_ in rounds:
            played.first_part.setdefault(round_.request_id, played.steps)
            assert round_.prefilling <= (not round_.tokens and round_.beams is None)
        return rounds

    executor.step = watched
    left = sorted(arrivals, key=lambda arrival: arrival.step)
    while left or scheduler.has_work:
        while left and left[0].step <= played.steps:
            scheduler.submit(left.pop(0).request, 0)
        for arrival in arrivals:
            if arrival.cancel_step == played.steps:
                scheduler.cancel(arrival.request.request_id)
            if arrival.end_choice is not None and arrival.end_choice[0] == played.steps:
                scheduler.remove_choice(arrival.request.request_id, arrival.end_choice[1])
        executor.check()
        _note(played, scheduler.run_round())
        played.steps += 1
        assert played.steps < STEP_LIMIT, "it does not end"
    executor.step = step
    return played


def _note(played, outputs):
    for output in outputs:
        if isinstance(output, RequestFailure):
            played.failures.append(output)
            continue
        assert isinstance(output, StepOutput)
        assert output.batch_size >= 1
        played.cached_tokens.setdefault(output.request_id, output.cached_tokens)
        if output.beams is not None:
            played.answers[output.request_id] = output.beams
        for token in output.tokens:
            played.answers.setdefault(output.request_id, {}).setdefault(token.choice, []).append(token)
        if output.done:
            assert output.request_id not in played.done
            played.done.add(output.request_id)


def ids(tokens):
    """Token ids of step tokens."""
    return [token.token_id for token in tokens]


def greedy(name, prompt, max_tokens, **sampling):
    """A greedy request."""
    return request(name, prompt, max_tokens=max_tokens, temperature=0.0, **sampling)


def finish(executor, *requests):
    """Run requests to their end: the answer of each, by id."""
    return play(executor, [Arrival(asked) for asked in requests]).answers


def steps(executor, count):
    """So many steps, with the books checked."""
    for _ in range(count):
        executor.step()
        executor.check()
