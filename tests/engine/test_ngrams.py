"""Guesses from a sequence's own text: which occurrence counts, how far they go, and when they stop."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import ngrams
from engine.ngrams import NgramDrafts

TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=60)


def by_searching(tokens: list[int], most: int) -> list[int]:
    """The same guess, from a search through the whole text."""
    for size in (3, 2):
        for place in range(len(tokens) - 1, size - 1, -1):
            if tokens[place - size : place] == tokens[-size:]:
                endless = tokens[place:] * most
                return endless[:most]
    return []


@pytest.mark.parametrize(
    ("tokens", "guessed"),
    [
        ([5, 6, 7, 8, 9, 5, 6], [7, 8, 9]),
        ([1, 5, 6, 7, 2, 5, 6, 8, 1, 5, 6], [7, 2, 5]),
        ([5, 6, 7, 2, 5, 6, 8, 3, 5, 6], [8, 3, 5]),
        ([1, 2, 2, 2], [2, 2, 2]),
        ([1, 2, 3, 4, 3, 4], [3, 4, 3]),
        ([1, 2, 3, 4, 5, 3], []),
        ([1], []),
    ],
)
def test_what_followed_the_latest_occurrence_is_guessed(tokens: list[int], guessed: list[int]) -> None:
    """Three equal tokens count before two, later before earlier, and a single one does not."""
    assert NgramDrafts().guess(tokens, 3) == guessed


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.data())
def test_guesses_while_it_grows_are_those_of_a_search(tokens: list[int], data: st.DataObject) -> None:
    """However many tokens come between two questions."""
    drafts = NgramDrafts()
    length = 0
    while length < len(tokens):
        length = data.draw(st.integers(length + 1, len(tokens)))
        most = data.draw(st.integers(1, 4))
        assert drafts.guess(tokens[:length], most) == by_searching(tokens[:length], most)


def test_what_lies_far_back_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a text of any length at most two windows are kept, and at least one is."""
    monkeypatch.setattr(ngrams, "WINDOW", 10)
    drafts = NgramDrafts()
    tokens = list(range(100))
    for length in range(1, 101):
        assert drafts.guess(tokens[:length], 1) == []
        assert max(map(len, drafts._ends)) <= 20
    assert drafts.guess([*tokens, 90, 91], 1) == [92]
    assert drafts.guess([*tokens, 90, 91, 10, 11], 1) == []


def test_guesses_that_do_not_come_true_pause() -> None:
    """Credit for one token's time is lost, then one guess is tried after every 32 tokens, until one comes true."""
    drafts = NgramDrafts()
    tokens: list[int] = []
    tried = []
    for length in range(1, 200):
        tokens = [*tokens, length % 3]
        if drafts.guess(tokens, 3):
            tried.append(length)
            drafts.note(length, 0, 0.3)
    assert tried == [5, 6, 7, 8, 40, 72, 104, 136, 168]


def test_guesses_that_come_true_go_on() -> None:
    """One in ten is enough where it costs less than a tenth of a token."""
    drafts = NgramDrafts()
    tokens = [1, 1]
    for length in range(3, 300):
        tokens = [*tokens, 1]
        assert drafts.guess(tokens, 1) == [1]
        drafts.note(length, length % 10 == 0, 0.09)
