"""Embeddings that are kept: which go when there is no room, and that what is needed stays."""

from __future__ import annotations

import pytest
import torch

from engine.multimodal.embeddings import Embeddings

SIZE = 8
"""Bytes of an item: two numbers."""


def holding(*names: bytes, limit_bytes: int = 3 * SIZE) -> Embeddings:
    """Room for three items, with these put in one after the other."""
    kept = Embeddings(limit_bytes)
    for number, name in enumerate(names):
        kept.put(name, torch.full((1, 2), float(number)))
    return kept


def left(kept: Embeddings) -> list[bytes]:
    """Which of a, b and c are still there."""
    return [name for name in (b"a", b"b", b"c") if name in kept]


def test_what_just_fits_takes_nobodys_place() -> None:
    """The limit is the last good number."""
    kept = holding(b"a", b"b")
    kept.make_room(SIZE, set())
    assert (left(kept), kept.used_bytes) == ([b"a", b"b"], 2 * SIZE)


def test_the_one_that_was_used_longest_ago_goes_first() -> None:
    """A use counts, and not only when it was put there."""
    kept = holding(b"a", b"b", b"c")
    assert kept.get(b"a").tolist() == [[0.0, 0.0]]
    kept.make_room(SIZE, set())
    assert (left(kept), kept.used_bytes) == ([b"a", b"c"], 2 * SIZE)


def test_what_is_needed_stays() -> None:
    """Also where that leaves too little room: one item may take more than the limit."""
    kept = holding(b"a", b"b", b"c")
    kept.make_room(9 * SIZE, {b"a", b"c"})
    assert (left(kept), kept.used_bytes) == ([b"a", b"c"], 2 * SIZE)


def test_nothing_is_left_of_what_was_cleared() -> None:
    """And its bytes are free."""
    kept = holding(b"a")
    kept.clear()
    assert (left(kept), kept.used_bytes) == ([], 0)
    with pytest.raises(KeyError):
        kept.get(b"a")
