"""What the sampler needs to know of one choice, worked out once from its request: settings and when it ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.sampling.noise import choice_key
from engine.types import GREEDY_BELOW, FinishReason, SamplingParams

REPETITION_FLOOR = 1e-150
"""Repetition penalties under this act as this one.

Both leave a positive logit so large that no temperature and no other logit can matter, and turn a negative one into
nothing; but a float32 logit divided by this floor and by the least temperature is still a finite float64.
"""


@dataclass(frozen=True, slots=True)
class DrawSettings:
    """How one choice draws its tokens."""

    greedy: bool
    """Take the likeliest token of the raw logits; nothing below has a say then."""
    temperature: float
    top_k: int
    """0: off."""
    top_p: float
    """1.0: off."""
    repetition_penalty: float
    frequency_penalty: float
    presence_penalty: float
    key: int
    """Of (seed, choice); with the position it keys a draw."""
    logprob: bool
    """Compute the chosen token's logprob."""
    top_logprobs: int | None
    """How many of the likeliest tokens to report; None: no list at all."""

    @property
    def penalised(self) -> bool:
        """Whether any of the three penalties changes a logit."""
        return self.repetition_penalty != 1.0 or self.frequency_penalty != 0.0 or self.presence_penalty != 0.0

    @classmethod
    def of(cls, sampling: SamplingParams, choice: int) -> DrawSettings:
        """The settings of choice number ``choice``.

        Temperature 0 (and anything below ``GREEDY_BELOW``) is a greedy search in which the other sampling fields do
        nothing: that covers the penalties too. Who wants the likeliest token *after* penalties sends top_k 1.
        Beams are no draws: there the penalties act at every temperature, and nothing else does.
        """
        greedy = sampling.temperature < GREEDY_BELOW and not sampling.use_beam_search
        return cls(
            greedy=greedy,
            temperature=sampling.temperature,
            top_k=max(sampling.top_k, 0),
            top_p=sampling.top_p,
            repetition_penalty=1.0 if greedy else max(sampling.repetition_penalty, REPETITION_FLOOR),
            frequency_penalty=0.0 if greedy else sampling.frequency_penalty,
            presence_penalty=0.0 if greedy else sampling.presence_penalty,
            key=choice_key(sampling.seed, choice),
            logprob=sampling.logprobs is not None or sampling.rank_by_logprob,
            top_logprobs=sampling.logprobs,
        )


@dataclass(frozen=True, slots=True)
class FinishRule:
    """When a choice ends: the model's EOS ids, the request's stop tokens, the token budget."""

    eos_token_ids: frozenset[int]
    """Empty with ignore_eos: then the model's ids are ordinary tokens."""
    stop_token_ids: frozenset[int]
    max_tokens: int

    @classmethod
    def of(cls, sampling: SamplingParams, eos_token_ids: Iterable[int], *, constrained: bool = False) -> FinishRule:
        """The rule of a request on a model with these EOS ids; ``constrained``: it is held to a grammar, which lets an
        EOS id through only where the choice may, and with ignore_eos must, end."""
        return cls(
            eos_token_ids=frozenset() if sampling.ignore_eos and not constrained else frozenset(eos_token_ids),
            stop_token_ids=frozenset(sampling.stop_token_ids),
            max_tokens=sampling.max_tokens,
        )

    @property
    def end_ids(self) -> frozenset[int]:
        """Every token that ends a choice."""
        return self.eos_token_ids | self.stop_token_ids

    def check(self, token_id: int, generated: int) -> tuple[FinishReason | None, int | None]:
        """Whether a token ends its choice, and the stop token it matched.

        An EOS id counts as EOS even when the request lists it as a stop token; a token that ends the choice and uses
        up the budget at once ends it with "stop".

        Args:
            token_id: the newest token.
            generated: tokens of the choice, the newest included.
        """
        if token_id in self.eos_token_ids:
            return "stop", None
        if token_id in self.stop_token_ids:
            return "stop", token_id
        if generated >= self.max_tokens:
            return "length", None
        return None, None
