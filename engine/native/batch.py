"""A plan as the arrays that the native step reads, with every index checked: the C++ side trusts them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.native.library import CBatch
from engine.plan import Plan

_Array = NDArray[Any]


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

    token_ids: _Array
    positions: _Array
    sequences: _Array
    page_begins: _Array
    pages: _Array
    wanted_rows: _Array

    def as_c(self) -> CBatch:
        """The addresses; valid as long as this object is."""
        return CBatch(
            rows=len(self.token_ids),
            wanted=len(self.wanted_rows),
            token_ids=self.token_ids.ctypes.data,
            positions=self.positions.ctypes.data,
            sequences=self.sequences.ctypes.data,
            page_begins=self.page_begins.ctypes.data,
            pages=self.pages.ctypes.data,
            wanted_rows=self.wanted_rows.ctypes.data,
        )


def batch_arrays(plan: Plan, bounds: Bounds) -> BatchArrays:
    """Lay out a plan with at least one span.

    Raises:
        ValueError: a span without tokens or with too few pages, or a token, position or page out of bounds.
    """
    spans = plan.spans
    counts = _integers("count of tokens in a span", (len(span.token_ids) for span in spans))
    starts = _integers("position", (span.start for span in spans))
    ends = starts + counts
    _within("count of tokens in a span", counts, 1, bounds.positions + 1)
    _within("position", starts, 0, bounds.positions)
    _within("position", ends - 1, 0, bounds.positions)
    needed = -(-ends // bounds.page_size)
    held = _integers("count of pages of a span", (len(span.pages) for span in spans))
    short = np.flatnonzero(held < needed)
    if len(short):
        span = int(short[0])
        raise ValueError(f"span {span} has {held[span]} pages where its {ends[span]} positions need {needed[span]}")
    token_ids = _integers("token id", chain.from_iterable(span.token_ids for span in spans))
    _within("token id", token_ids, 0, bounds.vocab)
    used = (islice(span.pages, count) for span, count in zip(spans, needed.tolist(), strict=True))
    pages = _integers("page", chain.from_iterable(used))
    _within("page", pages, 0, bounds.num_pages)
    last_rows = np.cumsum(counts)
    first_rows = last_rows - counts
    positions = np.arange(len(token_ids)) - np.repeat(first_rows - starts, counts)
    wanted = np.fromiter((span.wanted for span in spans), dtype=bool, count=len(spans))
    return BatchArrays(
        _narrow(token_ids),
        _narrow(positions),
        _narrow(np.repeat(np.arange(len(spans)), counts)),
        _narrow(np.cumsum(needed) - needed),
        _narrow(pages),
        _narrow((last_rows - 1)[wanted]),
    )


def checked_pages(pages: Any, num_pages: int) -> _Array:
    """Page ids as int32.

    Raises:
        ValueError: one of them is out of bounds.
    """
    found = _integers("page", pages)
    _within("page", found, 0, num_pages)
    return _narrow(found)


def _integers(name: str, values: Any) -> _Array:
    try:
        return np.fromiter(values, dtype=np.int64)
    except OverflowError:
        raise ValueError(f"a {name} is far out of bounds: it does not fit into 64 bits") from None


def _within(name: str, values: _Array, least: int, end: int) -> None:
    if len(values) and (values.min() < least or values.max() >= end):
        wrong = values[(values < least) | (values >= end)][0]
        raise ValueError(f"a {name} is {wrong}, outside of {least}..{end - 1}")


def _narrow(values: _Array) -> _Array:
    return np.ascontiguousarray(values, dtype=np.int32)
