"""The door between the scheduler and whatever runs the model: one call a round, token ids in and out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.types import BeamHypothesis, ModelInfo, Request, StepToken


@dataclass(slots=True)
class RequestRound:
    """What one round did for one request."""

    request_id: str
    tokens: list[StepToken]
    """At most one per live choice, in choice order; empty for beams."""
    beams: list[BeamHypothesis] | None
    """Best first, on the last round of a beam request only."""
    done: bool
    """No sequence of this request is left; the executor has already forgotten it."""
    cached_tokens: int = 0
    """Prompt tokens that were not computed because a cache held them (first round only)."""
    failure: str | None = None
    """A sentence when this request alone could not go on (its logits were not numbers); it is done, with no token."""


class Executor(Protocol):
    """Runs the sequences of the admitted requests, one token each a round.

    Not thread safe: one thread calls all of it. A failure of the device or of the model's code raises from ``step``;
    the executor then makes no promise about the requests it holds.
    """

    info: ModelInfo

    def add(self, request: Request) -> None:
        """Admit a request; its first ``step`` runs the prompt.

        The caller has checked the prompt: not empty, every id inside the vocabulary, within the length limits.

        Raises:
            ValueError: the request id is already admitted.
        """
        ...

    def remove(self, request_id: str) -> None:
        """Drop a whole request and free its memory at once; an unknown id is fine."""
        ...

    def remove_choice(self, request_id: str, choice: int) -> None:
        """End one choice from outside (a stop string was found in its text); an unknown one is fine.

        When it was the last live choice the request is forgotten, and no further round reports it.
        """
        ...

    def step(self) -> list[RequestRound]:
        """Run one round: every live sequence of every request gains one token; the first includes its prefill.

        Returns one entry per request that was live, in order of admission.
        """
        ...

    @property
    def live_sequences(self) -> int:
        """Sequences that the next round will run: live choices, or the beam width of a beam request."""
        ...
