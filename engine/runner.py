"""The torch executor: each live sequence runs its own forward a round, then all of them draw together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.executor import NOT_FINITE, RequestRound
from engine.forward import SequenceForward, SequenceState
from engine.grammar.compiler import GrammarCompiler, constraints_of, is_prepared
from engine.grammar.constraint import failure_of
from engine.loader import LoadedModel
from engine.lora_files import read_adapter
from engine.lora_layers import LoraLayers, changeable_layers
from engine.machine_memory import pool_bytes
from engine.multimodal.desk import MediaDesk
from engine.multimodal.prompt import PromptMedia
from engine.pace import StepPace
from engine.plan import AdapterTensors
from engine.sampling.beam import BeamSearch
from engine.sampling.params import DrawSettings, FinishRule
from engine.sampling.penalties import TokenCounts
from engine.sampling.sampler import Draw, Row, Sampler
from engine.sampling.thinking import ThinkingLimit
from engine.stats import ExecutorStats
from engine.types import Request, StepToken

_TRIAL = (0, 1, 2)
"""Tokens of a forward that shows which layers adapters may change."""


@dataclass(slots=True)
class _Sequence:
    """One running sequence: a choice, or one beam."""

    index: int
    state: SequenceState
    last_token: int


@dataclass(slots=True)
class _Running:
    """An admitted request."""

    request: Request
    rule: FinishRule
    rows: dict[int, Row]
    """Per live choice what the sampler needs; empty for beams."""
    beam: BeamSearch | None
    sequences: list[_Sequence] | None = None
    """None until the prompt has run."""
    media: PromptMedia | None = None
    begun: SequenceState | None = None
    """The prompt as far as its media were encoded."""
    computed: int = 0
    """Tokens in ``begun``."""


class TorchExecutor:
    """The ``Executor`` over a model that transformers loaded.

    A round runs one forward per live sequence, each with a cache of its own, so that no sequence's numbers depend on
    the others. The choices of one request, or its beams, share the prompt's forward and copy its cache after it.

    A request comes in when there is memory for the longest that it can become, so none that runs can lack it.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        memory_bytes: int | None = None,
        grammars: GrammarCompiler | None = None,
        memory_share: float = 1.0,
        pace: StepPace | None = None,
        media: MediaDesk | None = None,
    ) -> None:
        """Args:
        loaded: the model.
        memory_bytes: for keys and values; None takes a share of what the machine has.
        grammars: without, no request may have one.
        memory_share: this process's part of that share, where several serve.
        pace: tells of long steps before they begin.
        media: of a model that takes more than text.
        """
        self._grammars = grammars
        self._pace = pace or StepPace()
        self._media = media
        self.info = loaded.info
        self._forward = SequenceForward(loaded.model, loaded.info.vocab_size)
        self._capacity = pool_bytes(memory_bytes, memory_share) // self._forward.bytes_per_token()
        """Tokens that all caches may hold together."""
        layers = changeable_layers(loaded.model, lambda: self._forward.prefill(_TRIAL), len(_TRIAL))
        self._lora = LoraLayers(loaded.model, layers)
        self._adapters: dict[int, int] = {}  # number of the load -> id among the layers
        self._sampler = Sampler()
        self._requests: dict[str, _Running] = {}
        self.sequences_run = 0

    @property
    def live_sequences(self) -> int:
        """Live choices, and the width of each beam request."""
        return sum(map(_width, self._requests.values()))

    @property
    def stats(self) -> ExecutorStats:
        """Every admitted sequence runs in every round, unless it waits for its media; there are no pages."""
        return ExecutorStats(self.live_sequences, media=None if self._media is None else self._media.stats)

    def refuse(self, request: Request) -> str | None:
        """Why a request can never run here, as a sentence; None when it can."""
        needed = _most_tokens(request)
        if needed <= self._capacity:
            return None
        return f"This request needs memory for up to {needed} tokens; this deployment has memory for {self._capacity}."

    def prepared(self, request: Request) -> bool:
        """Whether the request's grammar is compiled; see ``Executor.prepared``."""
        return is_prepared(self._grammars, request)

    def can_admit(self, request: Request) -> bool:
        """Whether there is memory for all that it may need beside what the others may."""
        held = sum(_most_tokens(running.request) for running in self._requests.values())
        return held + _most_tokens(request) <= self._capacity

    def add(self, request: Request) -> None:
        """Admit a request.

        Raises:
            ValueError: its id is admitted already, it can never run, or its media do not fit.
            GrammarError: for its grammar.
            OSError, SafetensorError: its media cannot be read.
        """
        if request.request_id in self._requests:
            raise ValueError(f"request {request.request_id!r} is admitted already")
        refusal = self.refuse(request)
        if refusal is not None:
            raise ValueError(refusal)
        if request.adapter_number and request.adapter_number not in self._adapters:
            raise ValueError(f"request {request.request_id!r} asks for an adapter that is not loaded")
        sampling, device = request.sampling, self._forward.device
        rule = FinishRule.of(sampling, self.info.eos_token_ids, constrained=request.grammar is not None)
        rows: dict[int, Row] = {}
        beam = None
        if sampling.use_beam_search:
            beam = BeamSearch(request, rule, device)
        else:
            for choice, constraint in enumerate(constraints_of(self._grammars, request)):
                settings = DrawSettings.of(sampling, choice)
                counts = TokenCounts.start(settings, request.prompt_ids, device)
                rows[choice] = Row(settings, 0, counts, constraint, ThinkingLimit.of(request.thinking_budget))
        running = _Running(request, rule, rows, beam)
        if request.media:
            if self._media is None:
                raise ValueError(f"request {request.request_id!r} has media, and the model takes text only")
            running.media = self._media.admit(request)
        self._requests[request.request_id] = running

    def remove(self, request_id: str) -> None:
        """Drop a request with its caches; an unknown id is fine."""
        self._requests.pop(request_id, None)
        if self._media is not None:
            self._media.forget(request_id)

    def remove_choice(self, request_id: str, choice: int) -> bool:
        """End one choice; an unknown one is fine, and so is a beam request, whose beams are no choices yet."""
        running = self._requests.get(request_id)
        if running is None or running.beam is not None:
            return running is not None
        running.rows.pop(choice, None)
        if running.sequences is not None:
            running.sequences = [sequence for sequence in running.sequences if sequence.index != choice]
        if not running.rows:
            self.remove(request_id)
        return bool(running.rows)

    def read_adapter(self, folder: str, max_rank: int | None) -> AdapterTensors:
        """See ``Executor.read_adapter``."""
        return read_adapter(Path(folder), self._lora.layers, getattr(torch, self.info.dtype), max_rank)

    def load_adapter(self, number: int, name: str, read: AdapterTensors) -> None:
        """See ``Executor.load_adapter``."""
        device = self._forward.device
        self._adapters[number] = self._lora.load({key: (a.to(device), b.to(device)) for key, (a, b) in read.items()})

    def unload_adapter(self, number: int) -> None:
        """See ``Executor.unload_adapter``."""
        self._lora.unload(self._adapters.pop(number))

    @torch.inference_mode()
    def step(self) -> list[RequestRound]:
        """Run one round; see ``Executor.step``. A request that cannot go on fails alone."""
        rounds = [] if self._media is None else self._encode(self._media)
        requests = [running for running in self._requests.values() if self._can_run(running)]
        self.sequences_run = sum(_width(running) for running in requests)
        if not requests:
            return rounds
        constraints = [row.constraint for running in requests for row in running.rows.values() if row.constraint]
        looked = self._grammars.look(constraints) if self._grammars is not None and constraints else None
        with self._pace.step(sum(map(_step_tokens, requests))):
            computed = [self._run(running) for running in requests]
        logits = torch.cat([part for part, _ in computed])  # [rows, vocab]
        finite: list[bool] = logits.amax(dim=-1).isfinite().tolist()  # NaN anywhere in a row is its largest value
        spans: list[slice] = []
        for part, _ in computed:
            start = spans[-1].stop if spans else 0
            spans.append(slice(start, start + len(part)))
        if looked is not None:
            looked.result()
        failures = [
            failure_of(running.rows.values()) if all(finite[span]) else NOT_FINITE
            for running, span in zip(requests, spans, strict=True)
        ]

        drawing = [index for index, running in enumerate(requests) if failures[index] is None and running.beam is None]
        draws: Iterator[Draw] = iter(())
        if drawing:
            rows = [row for index in drawing for row in requests[index].rows.values()]
            draws = iter(self._sampler.draw(torch.cat([logits[spans[index]] for index in drawing]), rows))

        ran = {running.request.request_id for running in requests}
        rounds = [outcome for outcome in rounds if outcome.request_id not in ran]
        for running, (_, prompt), span, failure in zip(requests, computed, spans, failures, strict=True):
            request_id = running.request.request_id
            if failure is not None:
                outcome = RequestRound(request_id, [], None, done=True, failure=failure)
            elif running.beam is not None:
                outcome = self._advance_beams(running, running.beam, logits[span], prompt)
            else:
                outcome = self._advance_choices(running, [next(draws) for _ in running.rows], prompt)
            if outcome.done:
                self.remove(request_id)
            rounds.append(outcome)
        return rounds

    def _encode(self, media: MediaDesk) -> list[RequestRound]:
        """Give the encoder its turn; the rounds of the requests that it worked for, and of those that failed by it."""
        requests = self._requests.values()
        reading = [(each.media, each.computed) for each in requests if each.media and each.sequences is None]
        turn = media.turn(reading, any(running.sequences is not None for running in requests))
        for request_id in turn.failed:
            self.remove(request_id)
        return turn.rounds()

    def _can_run(self, running: _Running) -> bool:
        """Whether a request gains tokens in this round. A prompt whose media are not all there goes on as far as they
        are."""
        media = running.media
        if media is None or running.sequences is not None:
            return True
        start, end = running.computed, media.ready_end(running.computed)
        if end >= len(media.tokens):
            return True
        if end > start:
            running.begun = running.begun or self._forward.begin()
            self._follow(running)
            self._forward.extend(running.begun, media.tokens[start:end], media.rows(start, end))
            running.computed = end
        return False

    def _follow(self, running: _Running) -> None:
        number = running.request.adapter_number
        self._lora.follow_one(self._adapters[number] if number else 0)

    def _run(self, running: _Running) -> tuple[Tensor, SequenceState | None]:
        """The forwards of one request: logits ``[live choices or beams, vocab]``, and the prompt's state when new.

        In a beam request's first round there is one row, the prompt's.
        """
        self._follow(running)
        media = running.media
        if running.sequences is None and media is not None:
            state = running.begun or self._forward.begin()
            length = len(media.tokens)
            rest = media.tokens[running.computed :]
            logits = self._forward.extend(state, rest, media.rows(running.computed, length))
            running.begun, state.shift = None, media.shift(length)
            return logits.expand(len(running.rows) or 1, -1), state
        if running.sequences is None:
            logits, state = self._forward.prefill(running.request.prompt_ids)  # [vocab]
            return logits.expand(len(running.rows) or 1, -1), state
        rows = [self._forward.extend(sequence.state, [sequence.last_token]) for sequence in running.sequences]
        return torch.stack(rows), None

    def _advance_choices(self, running: _Running, draws: list[Draw], prompt: SequenceState | None) -> RequestRound:
        """Take one drawn token per live choice, in their order, and end those that it ends."""
        tokens: list[StepToken] = []
        going_on: list[StepToken] = []
        for (choice, row), draw in zip(list(running.rows.items()), draws, strict=True):
            row.position += 1
            if row.counts is not None:
                row.counts.add(draw.token_id)
            reason, stop_token_id = running.rule.check(draw.token_id, row.position)
            token = StepToken(choice, draw.token_id, draw.logprob, draw.top, reason, stop_token_id)
            tokens.append(token)
            if reason is None:
                going_on.append(token)
                row.go_on(draw.token_id)
            else:
                del running.rows[choice]
        if prompt is not None:
            states = self._copies(prompt, len(going_on))
        else:
            held = {sequence.index: sequence.state for sequence in running.sequences or ()}
            states = [held[token.choice] for token in going_on]
        running.sequences = [
            _Sequence(token.choice, state, token.token_id) for token, state in zip(going_on, states, strict=True)
        ]
        return RequestRound(running.request.request_id, tokens, None, done=not running.rows)

    def _advance_beams(
        self, running: _Running, beam: BeamSearch, logits: Tensor, prompt: SequenceState | None
    ) -> RequestRound:
        """Take one token per beam, and hand each new beam the state of the one that it continues."""
        request_id = running.request.request_id
        parents = beam.advance(logits)
        if parents is None:
            return RequestRound(request_id, [], beam.hypotheses(), done=True)
        rows = [prompt] if prompt is not None else [sequence.state for sequence in running.sequences or ()]
        children = {parent: self._copies(rows[parent], parents.count(parent)) for parent in set(parents)}
        running.sequences = [
            _Sequence(index, children[parent].pop(), token_id)
            for index, (parent, token_id) in enumerate(zip(parents, beam.last_tokens, strict=True))
        ]
        return RequestRound(request_id, [], None, done=False)

    @staticmethod
    def _copies(state: SequenceState, count: int) -> list[SequenceState]:
        """``count`` states that go on separately from one that is needed no more: itself and copies."""
        return [state, *(state.fork() for _ in range(count - 1))] if count else []


def _width(running: _Running) -> int:
    """Live sequences of a request."""
    return running.beam.width if running.beam else len(running.rows)


def _step_tokens(running: _Running) -> int:
    """Tokens that the next step computes of a request."""
    prompt = len(running.request.prompt_ids) - running.computed
    return prompt if running.sequences is None else len(running.sequences)


def _most_tokens(request: Request) -> int:
    """Tokens that the caches of a request hold at most. Beams that fork are there twice until the old ones go."""
    sampling = request.sampling
    copies = 2 * sampling.n if sampling.use_beam_search else sampling.n
    return copies * (len(request.prompt_ids) + sampling.max_tokens)
