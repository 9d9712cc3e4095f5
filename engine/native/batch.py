"""A plan as the arrays that the native step reads, with every index checked: the C++ side trusts them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from engine.native.library import CBatch
from engine.plan import Plan


@dataclass(frozen=True, slots=True)
class Bounds:
    """What indices must stay below."""

    page_size: int
    num_pages: int
    vocab: int
    positions: int


@dataclass(frozen=True, slots=True)
class BatchArrays:
    """The rows of one step, int32; see ``Batch`` of src/model.h."""

    token_ids: array[int]
    positions: array[int]
    sequences: array[int]
    page_begins: array[int]
    pages: array[int]
    wanted_rows: array[int]

    def as_c(self) -> CBatch:
        """The addresses; valid as long as this object is."""
        return CBatch(
            rows=len(self.token_ids),
            wanted=len(self.wanted_rows),
            token_ids=self.token_ids.buffer_info()[0],
            positions=self.positions.buffer_info()[0],
            sequences=self.sequences.buffer_info()[0],
            page_begins=self.page_begins.buffer_info()[0],
            pages=self.pages.buffer_info()[0],
            wanted_rows=self.wanted_rows.buffer_info()[0],
        )


def batch_arrays(plan: Plan, bounds: Bounds) -> BatchArrays:
    """Lay out a plan with at least one span.

    Plain loops: most steps have a few spans of one token, for which vectorised checks would cost a quarter of a
    millisecond, and those of long ones take 40 ns a token.

    Raises:
        ValueError: a span without tokens or with too few pages, or that wants logits of more tokens than it has; a
            token, position or page out of bounds.
    """
    token_ids, positions, sequences = array("i"), array("i"), array("i")
    page_begins, pages, wanted_rows = array("i"), array("i"), array("i")
    for number, span in enumerate(plan.spans):
        count, start = len(span.token_ids), span.start
        end = start + count
        if not 1 <= count <= bounds.positions:
            raise ValueError(f"a count of tokens in a span is {count}, outside of 1..{bounds.positions}")
        if start < 0 or end > bounds.positions:
            raise ValueError(f"a position is {start if start < 0 else end - 1}, outside of 0..{bounds.positions - 1}")
        needed = -(-end // bounds.page_size)
        if len(span.pages) < needed:
            raise ValueError(f"span {number} has {len(span.pages)} pages where its {end} positions need {needed}")
        if not 0 <= span.wanted <= count:
            raise ValueError(f"span {number} wants the logits of {span.wanted} of its {count} tokens")
        page_begins.append(len(pages))
        _extend(token_ids, "token id", span.token_ids, bounds.vocab)
        _extend(pages, "page", span.pages[:needed], bounds.num_pages)
        positions.extend(range(start, end))
        sequences.extend((number,) * count)
        rows = len(token_ids)
        wanted_rows.extend(range(rows - span.wanted, rows))
    return BatchArrays(token_ids, positions, sequences, page_begins, pages, wanted_rows)


def checked_pages(pages: Sequence[int], num_pages: int) -> array[int]:
    """Page ids as int32.

    Raises:
        ValueError: one of them is out of bounds.
    """
    found = array("i")
    _extend(found, "page", pages, num_pages)
    return found


def _extend(target: array[int], name: str, values: Sequence[int], end: int) -> None:
    """Append ``values``, each of which must be in ``0..end-1``."""
    if not values:
        return
    least, most = min(values), max(values)
    if least < 0 or most >= end:
        wrong = next(value for value in values if not 0 <= value < end)
        raise ValueError(f"a {name} is {wrong}, outside of 0..{end - 1}")
    target.extend(values)
