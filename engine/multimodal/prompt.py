"""A prompt with media as the executor runs it: tokens that name contents, places of the model, rows of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from sys import maxsize

import torch
from torch import Tensor

from engine.multimodal.embeddings import Embeddings
from engine.plan import MediaRows
from engine.types import MediaItem, Request


@dataclass(frozen=True, slots=True)
class PromptItem:
    """One item of a prompt."""

    item: MediaItem
    number: int
    """Negative; stands for the content."""
    places: Tensor | None
    """int64 ``[axes, tokens]``, counted from where the item begins; None: one after the other, on one axis."""
    advance: int
    """By how much the place of the token behind it is further on."""

    @property
    def start(self) -> int:
        """Index of its first token in the prompt."""
        return self.item.start

    @property
    def end(self) -> int:
        """Index behind its last token."""
        return self.item.start + self.item.tokens


class PromptMedia:
    """What is different about a request with media.

    Its placeholders become the numbers of the contents, in what the prefix index sees and a sequence has: so prompts
    share pages where their texts and contents are equal, and nowhere else. The runner never sees these numbers: rows
    that have one come with their embedding.
    """

    def __init__(self, request: Request, items: Sequence[PromptItem], kept: Embeddings) -> None:
        """Args:
        request: with the media.
        items: of it, in order.
        kept: where the embeddings are found.

        Raises:
            ValueError: items overlap or lie outside of the prompt.
        """
        prompt = request.prompt_ids
        ends = [0, *(item.end for item in items)]
        starts = [*(item.start for item in items), len(prompt)]
        if any(start < end for start, end in zip(starts, ends, strict=True)):
            raise ValueError(
                f"the media of request {request.request_id!r} do not lie one after the other in its prompt"
            )
        self.request_id = request.request_id
        self.items = tuple(items)
        self._kept = kept
        self.tokens = list(prompt)
        """The prompt with the contents' numbers."""
        for item in items:
            self.tokens[item.start : item.end] = [item.number] * item.item.tokens
        self.end = ends[-1]
        """Index behind the last item."""
        self._length = len(prompt)
        self._places = _places(items, self._length)
        """int64 ``[axes, prompt tokens]``; None: one after the other."""
        advanced = sum(item.advance - item.item.tokens for item in items)
        self._shift = advanced if self._places is not None else 0
        self._answer_shift = 0 if self._places is None else int(self._places[:, -1].amax()) + 1 - self._length

    @property
    def answers_follow_on(self) -> bool:
        """Whether an answer's tokens have the places that they would have as a part of the prompt.

        Where the prompt ends in a video that reaches further in time than in space they have not: text would go on
        behind its space, and the answer goes on behind its last token.
        """
        return self._shift == self._answer_shift

    def shift(self, index: int) -> int:
        """How much the place of a token behind all media is further on than its index."""
        return self._answer_shift if index >= self._length else self._shift

    def ready_end(self, start: int) -> int:
        """How far the tokens from an index on can be computed: up to the first item without embeddings, if any."""
        item = self.missing(start) if start < self.end else None
        return maxsize if item is None else max(start, item.start)

    def missing(self, start: int) -> PromptItem | None:
        """The first item that tokens from an index on need, and that has no embeddings."""
        needed = (item for item in self.items if item.end > start)
        return next((item for item in needed if item.item.content_hash not in self._kept), None)

    def rows(self, start: int, end: int) -> MediaRows | None:
        """What the tokens from ``start`` to ``end`` have besides their ids; None where that is nothing."""
        embeddings = []
        for item in self.items:
            first, last = max(item.start, start), min(item.end, end)
            if first < last:
                whole = self._kept.get(item.item.content_hash)
                embeddings.append((first - start, whole[first - item.start : last - item.start]))
        if self._places is None:
            return MediaRows(None, embeddings) if embeddings else None
        places = self._places[:, start:end]
        if end > self._length:
            behind = torch.arange(max(start, self._length), end) + self._answer_shift
            places = torch.cat([places, behind.expand(len(places), -1)], dim=1)
        return MediaRows(places, embeddings)


def _places(items: Sequence[PromptItem], length: int) -> Tensor | None:
    """Of all tokens of a prompt, int64 ``[axes, tokens]``."""
    axes = max((len(item.places) for item in items if item.places is not None), default=0)
    if not axes:
        return None
    parts: list[Tensor] = []
    index = place = 0
    for item in items:
        parts.append(torch.arange(place, place + item.start - index).expand(axes, -1))
        place += item.start - index
        own = torch.arange(item.item.tokens) if item.places is None else item.places
        parts.append((own + place).expand(axes, -1))
        place, index = place + item.advance, item.end
    parts.append(torch.arange(place, place + length - index).expand(axes, -1))
    return torch.cat(parts, dim=1)
