"""Stop strings over streamed text: the rule, the hold-back, and the time it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.stops import StopStrings
from tests.cpu_cost import least_cpu_s


def feed_all(stops, pieces):
    """(text let through, stop string found) of a text that arrives in pieces."""
    matcher = StopStrings(stops).matcher()
    out = ""
    for piece in pieces:
        text, found = matcher.feed(piece)
        out += text
        if found is not None:
            return out, found
    return out + matcher.finish(), None


def first_stop(stops, text):
    """The rule in its plainest form: (end, stop string), or None."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return end, max(found, key=len)
    return None


FEW_LETTERS = st.text("abc", max_size=4)
STOPS = st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=6)
PIECES = st.lists(FEW_LETTERS, max_size=12)


@given(stops=STOPS, pieces=PIECES)
def test_pieces_make_no_difference(stops, pieces):
    """However the text is cut, it is let through up to the end of the first stop string that ends, the longest."""
    expected = first_stop(stops, "".join(pieces))
    if expected is None:
        assert feed_all(stops, pieces) == ("".join(pieces), None)
    else:
        assert feed_all(stops, pieces) == ("".join(pieces)[: expected[0]], expected[1])


@given(stops=STOPS, pieces=PIECES)
def test_only_a_tail_that_can_become_a_stop_string_is_held(stops, pieces):
    """After each piece, what is held is the longest end of the text that some stop string starts with."""
    matcher = StopStrings(stops).matcher()
    seen = out = ""
    for piece in pieces:
        text, found = matcher.feed(piece)
        if found is not None:
            return
        seen, out = seen + piece, out + text
        tails = [n for stop in stops for n in range(len(stop)) if seen.endswith(stop[:n])]
        assert len(seen) - len(out) == max(tails)


@pytest.mark.parametrize(
    ("stops", "pieces", "expected"),
    [
        (["END"], ["the E", "N", "D of"], ("the END", "END")),
        (["b", "abc"], ["xabc"], ("xab", "b")),
        (["b", "ab"], ["xab"], ("xab", "ab")),
        (["ab", "b"], ["xab"], ("xab", "ab")),
        (["aab"], ["aaab"], ("aaab", "aab")),
        (["你好", "🚀"], ["说", "你", "好吗"], ("说你好", "你好")),
        (["\n\n"], ["a\n", "b\n", "\nc"], ("a\nb\n\n", "\n\n")),
        (["abc"], ["ab", "x"], ("abx", None)),
        (["abc"], ["xab"], ("xab", None)),
    ],
)
def test_by_example(stops, pieces, expected):
    """Across pieces; earliest end first; the longest of those; order does not matter; the held tail is released."""
    assert feed_all(stops, pieces) == expected


def test_choices_share_the_strings_but_not_the_text():
    """Two matchers of one request do not see each other's text."""
    stops = StopStrings(["ab"])
    first, second = stops.matcher(), stops.matcher()
    assert first.feed("a") == ("", None)
    assert second.feed("b") == ("b", None)
    assert first.feed("b") == ("ab", "ab")


def test_an_empty_stop_string_is_refused():
    """It would end every text before it starts."""
    with pytest.raises(ValueError, match="empty"):
        StopStrings(["a", ""])


LONG = "a" * 32767
MANY = [chr(0x4E00 + index) + "bc" for index in range(10922)]


@pytest.mark.parametrize(
    ("stops", "piece"),
    [
        ([LONG + "b"], "aaaa"),
        ([LONG + "b"], "aaac"),
        ([("ab" * 16383) + "c"], "abab"),
        (MANY, "一b丁b"),
        (["a" * length + "b" for length in range(1, 255)], "aaaa"),
    ],
    ids=["almost one long", "false starts", "periodic", "many", "nested"],
)
def test_hostile_stop_strings_stay_cheap(stops, piece):
    """Stop strings of 32,768 characters in all, made to match almost: 40,000 characters take well under a second."""

    def feed():
        matcher = StopStrings(stops).matcher()
        for _ in range(10000):
            matcher.feed(piece)

    assert least_cpu_s(feed) < 1.0


def test_large_stop_lists_cost_nothing_before_their_text_comes():
    """Taking in 32,768 characters of stop strings for a request takes under 50 ms."""
    assert least_cpu_s(lambda: StopStrings(MANY).matcher().feed("plain text")) < 0.05
