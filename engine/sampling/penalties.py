"""Repetition, frequency and presence penalties, and the counts of tokens that they need."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.sampling.params import DrawSettings

_FIRST_CAPACITY = 64


class TokenCounts:
    """The distinct tokens of one sequence, and how often each was generated.

    Holds one entry per distinct token and none per vocabulary row; counting one more token costs the same at any
    length.
    """

    def __init__(self, seen: Sequence[int], device: torch.device) -> None:
        """Start with the prompt's tokens ``seen``, each generated zero times."""
        distinct = list(dict.fromkeys(seen))
        self._slots = {token_id: slot for slot, token_id in enumerate(distinct)}
        capacity = len(distinct) + _FIRST_CAPACITY
        self._ids = torch.zeros(capacity, dtype=torch.int64, device=device)
        self._ids[: len(distinct)] = torch.tensor(distinct, dtype=torch.int64, device=device)
        self._counts = torch.zeros(capacity, dtype=torch.float64, device=device)

    @classmethod
    def start(cls, settings: DrawSettings, prompt_ids: Sequence[int], device: torch.device) -> TokenCounts | None:
        """The counts that ``settings`` will ask for: none without penalties, no prompt without a repetition penalty."""
        if not settings.penalised:
            return None
        return cls(prompt_ids if settings.repetition_penalty != 1.0 else (), device)

    @property
    def ids(self) -> Tensor:
        """Distinct token ids, int64 ``[distinct]``."""
        return self._ids[: len(self._slots)]

    @property
    def generated(self) -> Tensor:
        """How often each of ``ids`` was generated, float64 ``[distinct]``; 0 for one of the prompt only."""
        return self._counts[: len(self._slots)]

    def add(self, token_id: int) -> None:
        """Count one generated token."""
        slot = self._slots.setdefault(token_id, len(self._slots))
        if slot == self._ids.numel():
            self._ids = torch.cat((self._ids, torch.zeros_like(self._ids)))
            self._counts = torch.cat((self._counts, torch.zeros_like(self._counts)))
        self._ids[slot] = token_id
        self._counts[slot] += 1

    def copy(self) -> TokenCounts:
        """Counts that go on separately."""
        other = TokenCounts.__new__(TokenCounts)
        other._slots = dict(self._slots)
        other._ids = self._ids.clone()
        other._counts = self._counts.clone()
        return other


def penalise(logits: Tensor, counts: TokenCounts, settings: DrawSettings) -> Tensor:
    """Logits after the three penalties, in their order: repetition, frequency, presence.

    Repetition (prompt and output): a positive logit is divided by the penalty, a negative one multiplied (Keskar et
    al. 2019, with the sign rule that every server uses). Frequency: minus penalty x times generated. Presence: minus
    penalty, once generated.

    Args:
        logits: ``[vocab]``; left as it is.

    Returns:
        float64 ``[vocab]``: finite wherever ``logits`` is, also for the most extreme settings.
    """
    penalised = logits.to(torch.float64, copy=True)
    seen = penalised[counts.ids]  # [distinct]
    seen = torch.where(seen > 0, seen / settings.repetition_penalty, seen * settings.repetition_penalty)
    seen -= settings.frequency_penalty * counts.generated
    seen -= settings.presence_penalty * (counts.generated > 0).to(torch.float64)
    penalised[counts.ids] = seen
    return penalised
