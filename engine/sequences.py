"""What the executor knows of a running request: its sequences, which of them move together, and its choices."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from engine.grammar.compiler import GrammarCompiler, constraints_of
from engine.multimodal.prompt import PromptMedia
from engine.ngrams import NgramDrafts
from engine.sampling.beam import BeamSearch
from engine.sampling.params import DrawSettings, FinishRule
from engine.sampling.penalties import TokenCounts
from engine.sampling.sampler import Row
from engine.sampling.thinking import ThinkingLimit
from engine.types import Request


@dataclass(slots=True, eq=False)
class KVSequence:
    """A row of tokens and the pages that hold their keys and values."""

    tokens: list[int]
    """Prompt and generated tokens."""
    limit: int
    """Tokens whose keys and values can be needed at most: all but the last that may be generated."""
    cacheable: int
    """Tokens from the first one whose pages are worth to be looked up by others."""
    salt: bytes = b""
    """What the pages' content depends on besides the tokens."""
    pages: list[int] | range = field(default_factory=list)
    computed: int = 0
    """Tokens whose keys and values are in the pages."""
    keys: list[bytes] = field(default_factory=list)
    """Of the first full pages, as far as they were needed."""
    told: int = 0
    """Computed tokens from the first one that the index has been told of, or came from it."""
    tell_at: int = 0
    """Computed tokens with which the index is told again."""
    source: int | None = None
    """The page of which a part was copied when it started."""
    drafts: NgramDrafts | None = None
    """Once it was asked for drafts."""

    @property
    def left(self) -> int:
        """Tokens to run before the next one can be drawn."""
        return len(self.tokens) - self.computed


@dataclass(slots=True, eq=False)
class Group:
    """Sequences that are admitted, run and preempted together: one choice, choices that have not parted, or beams."""

    state: RequestState
    order: tuple[int, int]
    """Arrival of the request, then the first choice: who comes first is served first."""
    sequences: list[KVSequence]
    """One; with beams one until the prompt has run, then one per beam."""
    choices: list[int]
    """The choices that draw from the one sequence; empty with beams."""
    resume: list[list[int]] | None = None
    """Preempted beams: their tokens, for when the prompt has been run again."""
    reserve_all: bool = False
    """There was no room to grow: come back only with all the memory that can be needed."""

    @property
    def width(self) -> int:
        """Sequences that this group becomes."""
        return self.state.beam.width if self.state.beam is not None else len(self.choices)

    @property
    def in_step(self) -> bool:
        """Beams after their prompt, which need the logits of all sequences in one step."""
        return len(self.sequences) > 1

    @property
    def ready(self) -> bool:
        """Each sequence lacks just its newest token: the next step is a decode step."""
        if self.resume is not None:
            return False
        for sequence in self.sequences:  # a loop: this is asked of every group in every step
            computed = sequence.computed
            if not computed or len(sequence.tokens) - computed != 1:
                return False
        return True


@dataclass(slots=True, eq=False)
class RequestState:
    """An admitted request."""

    request: Request
    arrival: int
    rule: FinishRule
    rows: dict[int, Row]
    """Per live choice what the sampler needs; empty for beams."""
    beam: BeamSearch | None
    groups: list[Group] = field(default_factory=list)
    """Running and waiting ones."""
    adapter: int = 0
    """The runner's id of the request's adapter."""
    cached_tokens: int | None = None
    """Prompt tokens that the cache held when it was first admitted."""
    drafts: bool = True
    """Tokens may be guessed for it."""
    media: PromptMedia | None = None
    shares: bool = True
    """Its sequences may share with others what they compute."""

    @classmethod
    def of(
        cls,
        request: Request,
        arrival: int,
        eos: tuple[int, ...],
        device: torch.device,
        grammars: GrammarCompiler | None,
    ) -> RequestState:
        """Of a request that arrives, without groups. Raises GrammarError as ``constraints_of`` does."""
        sampling = request.sampling
        rule = FinishRule.of(sampling, eos, constrained=request.grammar is not None)
        if sampling.use_beam_search:
            return cls(request, arrival, rule, {}, BeamSearch(request, rule, device))
        rows = {}
        for choice, constraint in enumerate(constraints_of(grammars, request)):
            settings = DrawSettings.of(sampling, choice)
            counts = TokenCounts.start(settings, request.prompt_ids, device)
            rows[choice] = Row(settings, 0, counts, constraint, ThinkingLimit.of(request.thinking_budget))
        return cls(request, 0 if request.reserved else arrival, rule, rows, None)

    @property
    def width(self) -> int:
        """Live sequences: choices, or beams."""
        return self.beam.width if self.beam is not None else len(self.rows)

    def prompt_sequence(self) -> KVSequence:
        """A sequence of the prompt alone, nothing of it computed."""
        prompt = self.request.prompt_ids if self.media is None else self.media.tokens
        limit = len(prompt) + self.request.sampling.max_tokens - 1
        alike = self.beam is None and (self.media is None or self.media.answers_follow_on)
        cacheable = (limit if alike else len(prompt)) if self.shares else 0
        number = self.request.adapter_number
        salt = number.to_bytes(8, "little") if number else b""
        return KVSequence(list(prompt), limit, cacheable, salt)
