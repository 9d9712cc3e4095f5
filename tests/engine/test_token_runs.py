"""Rows of tokens by what they begin with: matches against a plain comparison, whatever is put, moved and discarded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.token_runs import NEWEST_COMPARED, TokenRuns

TOKENS = st.lists(st.sampled_from([0, 1, 2**31 - 1]), max_size=9)
BEFORE = st.sampled_from([b"a", b"b"])
HOLDERS = st.integers(0, 4)
CHANGES = st.one_of(
    st.tuples(st.just("put"), HOLDERS, BEFORE, TOKENS),
    st.tuples(st.just("discard"), HOLDERS),
    st.tuples(st.just("move"), HOLDERS, HOLDERS),
)


def common(first, second):
    """Tokens that are the same from the first one on."""
    return next(
        (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(map(len, (first, second)))
    )


@given(st.integers(1, 3), st.lists(CHANGES, max_size=30), BEFORE, TOKENS)
def test_matches_are_those_of_a_plain_comparison(shortest, changes, before, wanted):
    """Every holder behind the same beginning that shares the first tokens, and how many it shares: no other one."""
    runs, plain = TokenRuns(shortest), {}
    for name, *values in changes:
        if name == "put":
            runs.put(*values)
            plain[values[0]] = tuple(values[1:])
        elif name == "discard":
            runs.discard(*values)
            plain.pop(values[0], None)
        elif values[0] in plain and values[0] != values[1]:
            runs.move(*values)
            plain[values[1]] = plain.pop(values[0])
        runs.check()
    assert {holder: runs.tokens_of(holder) for holder in runs.holders} == {h: row for h, (_, row) in plain.items()}
    expected = {
        (holder, common(row, wanted), len(row))
        for holder, (behind, row) in plain.items()
        if behind == before and row[:shortest] == wanted[:shortest]
    }
    assert set(runs.matches(before, wanted)) == expected


def test_only_the_newest_rows_are_compared():
    """Of twenty alike the last sixteen, the newest first; a holder that says more of its row keeps its place."""
    runs = TokenRuns(2)
    for holder in range(20):
        runs.put(holder, b"", [1, 2, holder])
    runs.put(0, b"", [1, 2, 0, 0])
    assert [match.holder for match in runs.matches(b"", [1, 2, 3])] == list(range(19, 19 - NEWEST_COMPARED, -1))


def test_the_check_finds_a_row_in_the_wrong_place():
    """The checker itself."""
    runs = TokenRuns(2)
    runs.put("one", b"", [1, 2, 3])
    runs._places.clear()
    with pytest.raises(ValueError, match="do not agree"):
        runs.check()
