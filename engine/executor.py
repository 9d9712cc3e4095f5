"""The door between the scheduler and whatever runs the model: one call a round, token ids in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.stats import ExecutorStats
from engine.types import BeamHypothesis, ModelInfo, Request, StepToken

NOT_FINITE = "The model computed logits that are not finite numbers, so no token can be chosen."
"""Why a request fails whose logits are no numbers."""


class RankLost(Exception):
    """A process that computes a part of the model is gone or out of step, so that the executor cannot go on at all."""


@dataclass(slots=True)
class RequestRound:
    """What one round did for one request."""

    request_id: str
    tokens: list[StepToken]
    """In choice order: one of each live choice, or several, where drafts of them came true, in their own order. Empty
    for beams, and while ``prefilling``."""
    beams: list[BeamHypothesis] | None
    """Best first, on the last round of a beam request only."""
    done: bool
    """No sequence of this request is left; the executor has already forgotten it."""
    cached_tokens: int = 0
    """Prompt tokens that were not computed because a cache held them."""
    prefilling: bool = False
    """The round ran only a part of the prompt (or ran tokens again that were reported before): no token was made."""
    failure: str | None = None
    """A sentence when this request alone could not go on (its logits were not numbers, or its grammar allows none of
    the model's tokens); it is done, with no token."""


ReadAdapter = Mapping[str, tuple[Any, Any]]
"""An adapter as it was read: per changed layer two tensors; see ``engine.plan.AdapterTensors``."""


class Executor(Protocol):
    """Runs the sequences of the admitted requests, in a round one token each, or several that were guessed.

    Not thread safe: one thread calls all of it. A failure of the device or of the model's code raises from ``step``;
    the executor then makes no promise about the requests it holds.
    """

    info: ModelInfo
    sequences_run: int
    """Sequences that had a part in the latest round."""

    def refuse(self, request: Request) -> str | None:
        """Why a request can never run here, as a sentence for the client; None when it can."""
        ...

    def prepared(self, request: Request) -> bool:
        """Whether what ``add`` needs for a request besides memory is made: its grammar.

        The first call starts the work, which goes on beside the rounds.

        Raises:
            GrammarError: it cannot be made.
        """
        ...

    def can_admit(self, request: Request) -> bool:
        """Whether ``add`` may be called now; when it may not, it may after some later round.

        Requests that wait inside have been looked at, so that those without room have none. May fail like ``step``.
        """
        ...

    def add(self, request: Request) -> None:
        """Admit a request; the next rounds run its prompt, and may let it wait for memory before.

        The caller has checked the prompt: not empty, every id inside the vocabulary, within the length limits.

        Raises:
            ValueError: the request id is already admitted, or it can never run.
        """
        ...

    def remove(self, request_id: str) -> None:
        """Drop a whole request and free its memory at once; an unknown id is fine."""
        ...

    def remove_choice(self, request_id: str, choice: int) -> bool:
        """End one choice from outside (a stop string was found in its text); an unknown one is fine.

        Returns whether the request is live still. When it was the last live choice the request is forgotten, and no
        further round reports it.
        """
        ...

    def step(self) -> list[RequestRound]:
        """Run one round: sequences that can, gain a token or more; others get on with their prompts, or wait.

        Returns one entry per request that had a part in the round, in order of admission.
        """
        ...

    @property
    def live_sequences(self) -> int:
        """Admitted sequences that are not over: live choices, or the beam width of a beam request."""
        ...

    @property
    def stats(self) -> ExecutorStats:
        """Its state between two rounds. It is asked after every round, so it has to be cheap."""
        ...

    def read_adapter(self, folder: str, max_rank: int | None) -> ReadAdapter:
        """Read and check an adapter. The one method that another thread may call, while others run.

        Raises:
            AdapterError: it cannot be served here; the message is a sentence that says why.
        """
        ...

    def load_adapter(self, number: int, name: str, read: ReadAdapter) -> None:
        """Keep an adapter that was read, for requests with this ``adapter_number``.

        Raises:
            AdapterError: it cannot be kept.
        """
        ...

    def unload_adapter(self, number: int) -> None:
        """Forget an adapter that no request uses any more."""
        ...
