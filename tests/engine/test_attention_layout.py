"""How the rows of a step are grouped and cut into blocks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.attention.layout import block_mask, blocks_of, gathered, group_mask, group_rows, near_lengths


def _members(groups: list) -> list[tuple[int, ...]]:
    return [group.members for group in groups]


def test_extents_at_equal_distances_are_one_group() -> None:
    """Four extents, given in any order, 32 slots apart."""
    (group,) = group_rows([96, 32, 128, 64], [20, 21, 22, 23], slots=200)
    assert group.members == (1, 3, 0, 2)
    assert (group.first_slot, group.stride, group.length) == (32, 32, 23)


def test_any_two_extents_are_a_group() -> None:
    """0 and 50 are one, 60 and 200 another: no three of them are equally far apart."""
    assert _members(group_rows([0, 50, 60, 200], [9] * 4, slots=300)) == [(0, 1), (2, 3)]


def test_a_much_shorter_context_is_not_read_as_far_as_a_long_one() -> None:
    """500 tokens beside 100."""
    assert _members(group_rows([0, 600], [500, 100], slots=1200)) == [(0,), (1,)]
    assert near_lengths([100, 500, 90]) == [[1], [0, 2]]


def test_a_view_never_ends_behind_the_pool() -> None:
    """The last extent is short and ends with the pool; read as far as the first it would pass the end."""
    assert _members(group_rows([0, 80], [40, 10], slots=100)) == [(0,), (1,)]
    assert _members(group_rows([0, 80], [20, 10], slots=100)) == [(0, 1)]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), min_size=1, max_size=12, unique_by=lambda x: x[0]))
def test_groups_hold_each_row_once_and_stay_inside(extents: list[tuple[int, int]]) -> None:
    """Whatever the places and lengths of extents of 40 slots."""
    firsts, lengths = [40 * place for place, _ in extents], [length for _, length in extents]
    slots = max(firsts) + 40
    for groups in (group_rows(firsts, lengths, slots), gathered(firsts, lengths)):
        assert sorted(row for group in groups for row in group.members) == list(range(len(extents)))
        assert all(group.length == max(lengths[row] for row in group.members) for group in groups)
    for group in group_rows(firsts, lengths, slots):
        for place, row in enumerate(group.members):
            assert firsts[row] == group.first_slot + place * group.stride
            assert firsts[row] + group.length <= slots


def test_blocks_of_a_windowed_chunk_start_with_the_oldest_visible_key() -> None:
    """Rows at positions 10..14 in blocks of two, each seeing itself and three before it."""
    blocks = [(b.first, b.last, b.first_key, b.last_key) for b in blocks_of(10, 5, window=4, block_rows=2)]
    assert blocks == [(0, 2, 7, 12), (2, 4, 9, 14), (4, 5, 11, 15)]


def test_a_block_mask_is_causal_from_the_last_key_back() -> None:
    """Two rows at the end of four keys, then with a window of two."""
    assert block_mask(2, 4, None).tolist() == [[True, True, True, False], [True, True, True, True]]
    assert block_mask(2, 4, 2).tolist() == [[False, True, True, False], [False, False, True, True]]


@pytest.mark.parametrize(("window", "hidden"), [(None, [[0, 0, 1], [0, 0, 0]]), (2, [[0, 0, 1], [1, 0, 0]])])
def test_a_group_mask_hides_what_a_row_has_not(window: int | None, hidden: list[list[int]]) -> None:
    """Contexts of 4 and 5 tokens, keys 2 to 4."""
    mask = group_mask([4, 5], 2, 5, window, torch.float32)
    assert mask.shape == (2, 1, 1, 3)
    assert (mask[:, 0, 0] == -torch.inf).int().tolist() == hidden
