"""Drafts in one step: which decode rows get any, how many, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.batching import Part
from engine.ngrams import NgramDrafts

MAX_RUNNING: Final = 4
"""Decode rows of a step beside which there are no drafts."""
MAX_ROWS: Final = 8
"""Decode rows and drafts of one step. The default model on one core: 8.5 ms a step of one row, 10.1 of 4, 13 of 8,
18 of 12, 24 of 16."""
COST: Final = 0.06
"""What a draft costs in a step of one row, as a share of the step; of more rows, each adds as much, since what is
saved then is a smaller part of a step. Measured with the steps above."""


class Drafting:
    """Lengthens decode spans by what may follow, and counts.

    A draft never takes a page: it must fit in those that its sequence has. Nor does it go beyond what the sequence may
    need at all, so that neither ``max_tokens`` nor the model's positions are passed. Beams, choices that have not
    parted, and rows that are held to a grammar have none.
    """

    def __init__(self, most: int, page_size: int) -> None:
        """``most``: drafts of one row; ``page_size``: tokens of a page."""
        self._most = most
        self._page_size = page_size
        self._cost = 0.0
        self.drafted = 0
        self.accepted = 0

    def add(self, parts: Sequence[Part], decode_count: int) -> None:
        """Put drafts behind the first ``decode_count`` of a step's parts, each of which has one token."""
        if not 0 < decode_count <= MAX_RUNNING or self._most == 0:
            return
        self._cost = COST * decode_count
        guessed = [(part, drafts) for part in parts[:decode_count] if (drafts := self._guess(part))]
        for part, drafts in guessed:
            part.drafts = tuple(drafts[: (MAX_ROWS - decode_count) // len(guessed)])
            part.span.token_ids += part.drafts
            part.span.wanted += len(part.drafts)
            self.drafted += len(part.drafts)

    def accept(self, part: Part) -> bool:
        """Whether the token that the choice was given last is its next draft: then that one's row may be drawn from.

        The sequence counts as computed as far as that.
        """
        sequence = part.sequence
        if (
            part.accepted < len(part.drafts)
            and part.group.choices[0] in part.group.state.rows
            and sequence.tokens[-1] == part.drafts[part.accepted]
        ):
            part.accepted += 1
            sequence.computed += 1
            self.accepted += 1
            return True
        if sequence.drafts is not None:
            sequence.drafts.note(len(sequence.tokens), part.accepted, self._cost * len(part.drafts))
        return False

    def undo(self, part: Part) -> None:
        """A row of this part is no number: forget what its sequence got from the step, and draft no more for it.

        The drafts may be the reason, and what they left in the page would reach the rows after them. So the sequence
        must go on in another page.
        """
        part.sequence.computed = part.span.start
        part.group.state.drafts = False

    def _guess(self, part: Part) -> list[int]:
        group, sequence = part.group, part.sequence
        state = group.state
        if not state.drafts or state.beam is not None or len(group.choices) != 1:
            return []
        if state.rows[group.choices[0]].constraint is not None:
            return []
        tokens = sequence.tokens
        room = min(len(sequence.pages) * self._page_size, sequence.limit) - len(tokens)
        if room <= 0:
            return []
        if sequence.drafts is None:
            sequence.drafts = NgramDrafts()
        return sequence.drafts.guess(tokens, min(self._most, room))
