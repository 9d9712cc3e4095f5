"""One choice's place in its grammar: which tokens may come next, and where the grammar ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

import numpy as np
import torch
from llguidance import LLMatcher
from torch import Tensor

_DEAD_END = "No token of the model can continue the answer under the grammar that the request asks for."
_TOO_COMPLEX = "The grammar that the request asks for became too complex while the answer was generated."


class Constraint:
    """The grammar of one choice, moved on by its tokens alone: preemption, forks and company do not touch it.

    ``look`` is called before every draw, in any thread, and ``take`` after it.
    """

    __slots__ = ("_bits", "_device", "_eos", "_ids", "_ignore_eos", "_looked", "_matcher", "failure")

    def __init__(
        self,
        matcher: LLMatcher,
        vocab_size: int,
        eos_token_ids: Collection[int],
        device: torch.device,
        *,
        ignore_eos: bool,
    ) -> None:
        """Args:
        matcher: at the grammar's start; this choice's own.
        vocab_size: rows of the logits.
        eos_token_ids: of the model.
        ignore_eos: an end-of-sequence token is allowed only where nothing else is.
        """
        self._matcher = matcher
        self._eos = np.array(sorted(eos_token_ids), dtype=np.int64)
        self._ignore_eos = ignore_eos
        self._bits = np.zeros((vocab_size + 31) // 32, dtype=np.uint32)
        self._ids = np.zeros(0, dtype=np.int64)
        self._device = device
        self._looked = False
        self.failure: str | None = None
        """A sentence, once the choice cannot go on."""

    @property
    def allowed(self) -> Tensor:
        """Ids of the tokens that may come next, ascending, int64 ``[allowed]``; not empty unless ``failure``."""
        return torch.from_numpy(self._ids).to(self._device)

    def look(self) -> None:
        """Find the tokens that may come next; again only after the next ``take``."""
        if self._looked or self.failure is not None:
            return
        self._looked = True
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        if self._matcher.is_error():
            self.failure = _TOO_COMPLEX
            return
        ids = np.flatnonzero(np.unpackbits(self._bits.view(np.uint8), bitorder="little"))
        if self._ignore_eos:
            others = ids[~np.isin(ids, self._eos)]
            ids = others if len(others) else ids
        if not len(ids):
            self.failure = _DEAD_END
        self._ids = ids

    def take(self, token_id: int) -> None:
        """The choice goes on with this token, which does not end it."""
        self._looked = False
        if not self._matcher.consume_token(token_id):
            self.failure = _TOO_COMPLEX


class Constrained(Protocol):
    """Something that may be held to a grammar, as a sampler's row is."""

    @property
    def constraint(self) -> Constraint | None:
        """Its place in the grammar."""
        ...


def failure_of(rows: Iterable[Constrained]) -> str | None:
    """Why the first of these that cannot go on under its grammar cannot, as a sentence."""
    failures = (row.constraint.failure for row in rows if row.constraint is not None)
    return next((failure for failure in failures if failure is not None), None)
