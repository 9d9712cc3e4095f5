"""The executor with continuous batching: admits by memory, runs one packed step at a time, hands out its tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from engine.admission import Admission
from engine.batching import BatchLimits, Part, build_step
from engine.drafting import Drafting
from engine.draws import StepDraws, failures, pairs
from engine.executor import NOT_FINITE, RequestRound
from engine.extent_memory import ExtentMemory
from engine.forks import Forks
from engine.grammar.compiler import GrammarCompiler, is_prepared
from engine.lora_files import read_adapter
from engine.memory import KVMemory
from engine.multimodal.desk import MediaDesk
from engine.pace import StepPace
from engine.paged_memory import PagedMemory
from engine.plan import AdapterTensors, ModelRunner
from engine.prefix import SHORTEST_RUN
from engine.sampling.one_copy import OneCopySelector
from engine.sampling.sampler import Draw
from engine.sequences import Group, RequestState
from engine.stats import ExecutorStats
from engine.types import Request, StepToken

_log = logging.getLogger(__name__)

GROWTH_TOKENS = 512


class PackedExecutor:
    """The ``Executor`` over a ``ModelRunner``: many requests, one packed forward a step, one pool of pages.

    A step makes room for the next token of every running sequence (preempting the youngest where there is none),
    starts waiting groups, and runs decode rows and prefill chunks together. So a request in the middle of its prompt
    gets no token in a step, and neither does one that was preempted; none ever gets a token twice or loses one.

    With ``draft_tokens`` a decode row may run guesses of its next tokens along. Every draw is keyed by its place, so
    each row is drawn as it would be alone; the first draw that is no guess ends it. The answer is the same.
    """

    def __init__(
        self,
        runner: ModelRunner,
        limits: BatchLimits | None = None,
        growth_tokens: int = GROWTH_TOKENS,
        grammars: GrammarCompiler | None = None,
        cache_bytes: int | None = None,
        shortest_run: int = SHORTEST_RUN,
        prefix_cache: bool = True,
        pace: StepPace | None = None,
        media: MediaDesk | None = None,
    ) -> None:
        """Args:
        runner: the model and its pages.
        limits: how large a step may become.
        growth_tokens: room that a new extent has beyond its tokens; for runners with ``contiguous_pages`` only.
        grammars: of the model; without it no request may have one.
        cache_bytes: so much memory may become used for the sake of what is cached; None: all that the pages take.
        shortest_run: tokens of a cached page that are worth a copy of it where the rest differs.
        prefix_cache: what one request has computed serves others that begin alike.
        pace: tells of long steps before they begin.
        media: of a model that takes more than text.
        """
        self.info = runner.info
        pool_tokens = runner.num_pages * runner.page_size
        if pool_tokens < self.info.max_position_embeddings:
            _log.warning(
                "the memory for keys and values holds %d tokens, fewer than the model's %d: no request may be longer",
                pool_tokens,
                self.info.max_position_embeddings,
            )
            self.info = replace(self.info, max_position_embeddings=pool_tokens)
        self._runner = runner
        self._grammars = grammars
        self._limits = limits or BatchLimits()
        self._pace = pace or StepPace()
        self._media = media
        self._prefix_cache = prefix_cache
        self._after_prefills = False
        soft_limit = None if cache_bytes is None else cache_bytes // runner.bytes_per_page
        self._memory: KVMemory = (
            ExtentMemory(runner, growth_tokens, soft_limit, shortest_run=shortest_run)
            if runner.contiguous_pages
            else PagedMemory(runner, soft_limit, shortest_run=shortest_run)
        )
        self._admission = Admission(self._memory, self._limits.max_batch_size)
        self._forks = Forks(self._memory, self._admission)
        self._drafting = Drafting(self._limits.draft_tokens if runner.same_bits else 0, runner.page_size)
        self._device = torch.device(self.info.device)
        self._requests: dict[str, RequestState] = {}
        self._adapters: dict[int, int] = {}  # number of the load -> the runner's id
        self._arrivals = 0
        self._prepared = False
        """Nothing but additions since the last look at who can run."""
        self.sequences_run = 0

    @property
    def live_sequences(self) -> int:
        """Live choices, and the width of each beam request."""
        return sum(state.width for state in self._requests.values())

    @property
    def stats(self) -> ExecutorStats:
        """See ``Executor.stats``."""
        admission = self._admission
        running = sum([group.width for group in admission.running])
        waiting = sum([group.width for group in admission.waiting])
        counts = (admission.preemptions, self._drafting.drafted, self._drafting.accepted)
        media = None if self._media is None else self._media.stats
        return ExecutorStats(running, waiting, admission.unstarted, *counts, self._memory.stats, media)

    def refuse(self, request: Request) -> str | None:
        """Why a request can never run here, as a sentence; None when it can."""
        return self._memory.refusal(request)

    def prepared(self, request: Request) -> bool:
        """Whether the request's grammar is compiled; see ``Executor.prepared``."""
        return is_prepared(self._grammars, request)

    def can_admit(self, request: Request) -> bool:
        """Whether a request may come in; not while an older one waits for memory or for a place in the batch."""
        if self._admission.blocked:
            # What has ended may have left the room that it waits for.
            with self._all_or_nothing():
                self._prepare()
        return not self._admission.blocked

    def add(self, request: Request) -> None:
        """Admit a request.

        Raises:
            ValueError: its id is admitted already, it can never run, its adapter is not there, or its media do not fit.
            GrammarError: its grammar cannot be compiled.
            OSError, SafetensorError: its media cannot be read.
        """
        if request.request_id in self._requests:
            raise ValueError(f"request {request.request_id!r} is admitted already")
        refusal = self.refuse(request)
        if refusal is not None:
            raise ValueError(refusal)
        self._arrivals += 1
        number = request.adapter_number
        if number and number not in self._adapters:
            raise ValueError(f"request {request.request_id!r} asks for an adapter that is not loaded")
        state = RequestState.of(request, self._arrivals, self.info.eos_token_ids, self._device, self._grammars)
        state.adapter, state.shares = (self._adapters[number] if number else 0), self._prefix_cache
        if request.media:
            if self._media is None:
                raise ValueError(f"request {request.request_id!r} has media, and the model takes text only")
            state.media, state.drafts = self._media.admit(request), False
        self._requests[request.request_id] = state
        together = list(state.rows)[: self._limits.max_batch_size]
        self._enter(state, together)
        for choice in list(state.rows)[len(together) :]:
            self._enter(state, [choice])
        try:
            self._admission.admit()
        except BaseException:
            self.remove(request.request_id)
            raise

    def remove(self, request_id: str) -> None:
        """Drop a request and free its pages; an unknown id is fine."""
        self._prepared = False
        state = self._requests.pop(request_id, None)
        if state is not None:
            self._forget(state)
            for group in state.groups:
                self._admission.drop(group)

    def remove_choice(self, request_id: str, choice: int) -> bool:
        """End one choice and free its pages; see ``Executor.remove_choice``."""
        self._prepared = False
        state = self._requests.get(request_id)
        if state is None or state.rows.pop(choice, None) is None:
            return state is not None
        group = next(group for group in state.groups if choice in group.choices)
        group.choices.remove(choice)
        if not group.choices:
            state.groups.remove(group)
            self._admission.drop(group)
        if not state.rows:
            del self._requests[request_id]
            self._forget(state)
        return bool(state.rows)

    @torch.inference_mode()
    def step(self) -> list[RequestRound]:
        """Run one step; see ``Executor.step``. After an exception no request is left, and nothing is cached."""
        with self._all_or_nothing():
            return self._step()

    def read_adapter(self, folder: str, max_rank: int | None) -> AdapterTensors:
        """See ``Executor.read_adapter``."""
        layers = self._runner.adapter_layers()
        return read_adapter(Path(folder), layers, getattr(torch, self.info.dtype), max_rank)

    def load_adapter(self, number: int, name: str, read: AdapterTensors) -> None:
        """See ``Executor.load_adapter``."""
        self._adapters[number] = self._runner.load_adapter(name, read)

    def unload_adapter(self, number: int) -> None:
        """See ``Executor.unload_adapter``."""
        self._runner.unload_adapter(self._adapters.pop(number))

    def check(self) -> None:
        """Raise PageError or ValueError unless every page and every group is where the books say."""
        groups = [group for state in self._requests.values() for group in state.groups]
        listed = self._admission.running + self._admission.waiting
        if {id(group) for group in groups} != {id(group) for group in listed} or len(groups) != len(listed):
            raise ValueError("the groups of the requests are not those that run or wait")
        if any(sequence.pages for group in self._admission.waiting for sequence in group.sequences):
            raise ValueError("a waiting group has pages")
        self._memory.check(sequence for group in groups for sequence in group.sequences)

    def _enter(self, state: RequestState, choices: list[int]) -> None:
        first = choices[0] if choices else 0
        group = Group(state, (state.arrival, first), [state.prompt_sequence()], choices)
        state.groups.append(group)
        self._admission.enter(group)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Whatever was half done: all pages are free, and what they hold is not trusted any more.
            self._requests.clear()
            self._admission.clear()
            self._memory.reset()
            if self._media is not None:
                self._media.clear()
            raise

    def _forget(self, state: RequestState) -> None:
        if state.media is not None and self._media is not None:
            self._media.forget(state.request.request_id)

    def _prepare(self) -> None:
        """Make room for the running sequences, then start waiting ones in what is left; once before a step."""
        if not self._prepared:
            self._admission.secure()
            self._admission.admit()
            self._prepared = True

    def _encode(self) -> list[RequestRound]:
        """Give the encoder its turn; the rounds of the requests that it worked for, and of those that failed by it."""
        if self._media is None:
            return []
        running = self._admission.running
        reading = [(group.state.media, group.sequences[0].computed) for group in running if group.state.media]
        turn = self._media.turn(reading, any(group.ready for group in running))
        for request_id in turn.failed:
            self.remove(request_id)
        return turn.rounds()

    def _step(self) -> list[RequestRound]:
        self._prepare()
        encoded = self._encode()
        self._prepared = False
        step = build_step(self._admission.running, self._limits, self._after_prefills)
        self._after_prefills = len(step.parts) > step.plan.decode_count
        if not step.parts:
            self.sequences_run = 0
            return encoded
        self._drafting.add(step.parts, step.plan.decode_count)
        looked = self._look(step.parts)
        with self._pace.step(sum(len(span.token_ids) for span in step.plan.spans)):
            logits = self._runner.run(step.plan)  # [wanted rows, vocab]
        wanted: dict[Group, list[int]] = {}  # group -> its rows of the logits, one after the other
        rows = 0
        for part in step.parts:
            part.sequence.computed += len(part.span.token_ids) - len(part.drafts)
            if part.span.wanted:
                wanted.setdefault(part.group, []).extend(range(rows, rows + part.span.wanted))
                rows += part.span.wanted
        if logits.shape[0] != rows:
            raise RuntimeError(f"the runner gave {logits.shape[0]} rows of logits where {rows} were wanted")
        expected = pairs(wanted) if isinstance(self._runner.selector, OneCopySelector) else []
        if looked is not None and expected:
            looked.result()
        draws = StepDraws(logits, self._runner.selector, expected) if rows else None
        if looked is not None:
            looked.result()
        for part in step.parts:
            if draws is not None and part.drafts and not draws.healthy(wanted[part.group][0], part.span.wanted):
                del wanted[part.group]
                self._drafting.undo(part)
                self._admission.preempt(part.group)
        failed = {} if draws is None else failures(draws, wanted)
        for part in step.parts:
            if part.group.state.request.request_id not in failed:
                self._memory.commit(part.sequence)
        self.sequences_run = len(step.parts) + sum(len(group.choices) - 1 for group in wanted if group.choices)
        rounds = self._rounds_of(step.parts)
        for request_id, reason in failed.items():
            self._fail(request_id, rounds[request_id], reason)
        if draws is not None:
            alive = {group: rows for group, rows in wanted.items() if group.state.request.request_id not in failed}
            self._advance(draws, alive, rounds)
            self._follow(draws, step.parts, alive, rounds)
            for outcome in rounds.values():
                outcome.tokens.sort(key=lambda token: token.choice)
        for part in step.parts:
            if part.group.resume is not None and not part.group.sequences[0].left:
                self._forks.resume_beams(part.group)
        return [*rounds.values(), *(outcome for outcome in encoded if outcome.request_id not in rounds)]

    def _look(self, parts: list[Part]) -> Future[None] | None:
        """Begin to find the tokens that grammars allow next, for the choices that draw in this step."""
        rows = [part.group.state.rows[choice] for part in parts if part.span.wanted for choice in part.group.choices]
        constraints = [row.constraint for row in rows if row.constraint is not None]
        return self._grammars.look(constraints) if self._grammars is not None and constraints else None

    def _rounds_of(self, parts: list[Part]) -> dict[str, RequestRound]:
        """An empty round for each request that ran, in order of arrival."""
        states = sorted({part.group.state for part in parts}, key=lambda state: state.arrival)
        rounds = {}
        for state in states:
            request_id = state.request.request_id
            cached = state.cached_tokens or 0
            rounds[request_id] = RequestRound(request_id, [], None, False, cached, prefilling=True)
        return rounds

    def _advance(self, draws: StepDraws, wanted: dict[Group, list[int]], rounds: dict[str, RequestRound]) -> None:
        """Give every group that has logits its next tokens."""
        drawn = iter(draws.draw(pairs(wanted)))
        for group, indices in wanted.items():
            state = group.state
            outcome = rounds[state.request.request_id]
            outcome.prefilling = False
            if state.beam is None:
                self._give(group, drawn, outcome)
                continue
            parents = state.beam.advance(draws.rows(indices[0], len(indices)))
            if parents is None:
                outcome.beams, outcome.done = state.beam.hypotheses(), True
                self.remove(outcome.request_id)
            else:
                self._forks.part_beams(group, parents, state.beam.last_tokens)

    def _follow(
        self, draws: StepDraws, parts: list[Part], wanted: dict[Group, list[int]], rounds: dict[str, RequestRound]
    ) -> None:
        """Go on drawing along the drafts for as long as they are what was drawn, all sequences together."""
        going = [part for part in parts if part.drafts and part.group in wanted]
        while going := [part for part in going if self._drafting.accept(part)]:
            for part in going:
                self._memory.commit(part.sequence)
            rows = [(wanted[part.group][part.accepted], part.group.state.rows[part.group.choices[0]]) for part in going]
            drawn = iter(draws.draw(rows))
            for part in going:
                self._give(part.group, drawn, rounds[part.group.state.request.request_id])

    def _give(self, group: Group, drawn: Iterator[Draw], outcome: RequestRound) -> None:
        outcome.tokens += self._take(group, drawn)
        outcome.done = not group.state.rows
        if outcome.done:
            self.remove(outcome.request_id)

    def _take(self, group: Group, drawn: Iterator[Draw]) -> list[StepToken]:
        """One token for each choice of a group; those that go on part."""
        state = group.state
        tokens, going_on = [], []
        for choice in group.choices:
            row, draw = state.rows[choice], next(drawn)
            row.position += 1
            if row.counts is not None:
                row.counts.add(draw.token_id)
            reason, stop_token_id = state.rule.check(draw.token_id, row.position)
            token = StepToken(choice, draw.token_id, draw.logprob, draw.top, reason, stop_token_id)
            tokens.append(token)
            if reason is None:
                going_on.append((choice, draw.token_id))
                row.go_on(draw.token_id)
            else:
                del state.rows[choice]
        self._forks.part_choices(group, going_on)
        return tokens

    def _fail(self, request_id: str, outcome: RequestRound, reason: str) -> None:
        """End a request that cannot go on. Where its logits are no numbers, what it computed may be wrong as well."""
        if reason == NOT_FINITE:
            for group in self._requests[request_id].groups:
                for sequence in group.sequences:
                    self._memory.distrust(sequence)
        self.remove(request_id)
        outcome.done, outcome.failure, outcome.prefilling = True, reason, False
