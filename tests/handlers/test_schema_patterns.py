"""Regular expressions of schemas: what the grammar's dialect lets through, Python's finds as well."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.schema_patterns import PatternRefused, rewritten
from tests.grammar_walk import Walker

pytestmark = pytest.mark.filterwarnings("ignore:Possible .* at position:FutureWarning")

WALKER = Walker()
ATOMS = st.sampled_from(
    [
        "a",
        "é",
        "天",
        ".",
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"\.",
        r"\/",
        r"\-",
        r"\x41",
        r"\u00e9",
        r"\t",
        " ",
        "/",
        "[a-c]",
        "[^a-c]",
        r"[\w.-]",
        r"[^\w]",
        r"[\W]",
        r"[^\W\d]",
        r"[^\s@]",
        "[[&&-]",
        "[a~~b]",
        r"[\b\]]",
        "[-a]",
        "[é-ü]",
    ]
)
REPEATS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?"])


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """A few atoms in a row or in choice, anchored or not."""
    parts = ["".join(draw(st.tuples(ATOMS, REPEATS))) for _ in range(draw(st.integers(1, 3)))]
    inner = draw(st.sampled_from(["", "|"])).join(parts)
    return draw(st.sampled_from(["^{}$", "^(?:{})$", "{}", "^({})", "({})$"])).format(inner)


@settings(max_examples=200, deadline=None)
@given(pattern=patterns(), seed=st.integers(0, 2**32))
def test_whatever_the_grammar_lets_through_python_finds(pattern: str, seed: int) -> None:
    """Shorthands, dots and brackets mean the narrower of what the dialects say."""
    schema = {"type": "string", "pattern": rewritten(pattern), "maxLength": 12}
    text = WALKER.walk("start: %json " + json.dumps(schema), seed, most_tokens=200)
    if text is not None:
        assert re.search(pattern, json.loads(text))


@pytest.mark.parametrize(
    ("pattern", "accepted", "refused"),
    [
        (r"^\d+$", "12", "٣"),
        (r"^\W$", "-", "é"),
        (r"^[^\w]$", "-", "é"),
        ("^.$", "é", "\r"),
        ("^[[a]$", "[", "b"),
        ("^[a&&b]$", "&", "c"),
        (r"^\<$", "<", "a"),
        (r"^\S+@\S+$", "a@b", "a b@c"),
        ("b", "abc", "ac"),
    ],
)
def test_dialects_differ_in_nothing_that_is_let_through(pattern: str, accepted: str, refused: str) -> None:
    """By example."""
    grammar = "start: %json " + json.dumps({"type": "string", "pattern": rewritten(pattern)})
    assert WALKER.accepts(grammar, json.dumps(accepted, ensure_ascii=False))
    assert not WALKER.accepts(grammar, json.dumps(refused, ensure_ascii=False))


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)a",
        "(?=a)",
        "(?<n>a)",
        "(?P<n>a)",
        r"(a)\1",
        r"\bfoo",
        r"\Bx",
        r"\Aa",
        r"a\Z",
        r"\p{L}",
        r"\cA",
        r"\ud800",
        "a++",
        "a**",
        "a{2}{3}",
        "*a",
        "a{,3}",
        "a{b",
        "a}",
        "[]a]",
        "[^]a]",
        r"[\w-.]",
        "[b-a]",
        "(",
        "a)",
        "[",
        "\\",
    ],
)
def test_what_dialects_read_differently_is_refused(pattern: str) -> None:
    """Look-around, flags, names, back references, possessive repeats, and what only one of them can read."""
    with pytest.raises(PatternRefused):
        rewritten(pattern)
