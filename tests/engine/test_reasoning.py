"""Thinking told apart from the answer, whole and in pieces, beside tools, and counted in tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parser_play import cut

from engine.text.answer import AnswerReader, Parts
from engine.text.reasoning import (
    THINKING_FAMILIES,
    ThinkingCount,
    ThinkingFamily,
    thinking_family,
    thinking_family_seen_in,
)
from engine.types import AnswerForm

QWEN3, R1, MISTRAL = THINKING_FAMILIES
CALL = '<tool_call>\n{"name": "get", "arguments": {"a": 1}}\n</tool_call>'


def read(
    pieces: Iterable[str],
    family: ThinkingFamily = QWEN3,
    prompt_open: bool | None = None,
    *,
    tools: bool = False,
    hidden: tuple[str, ...] = (),
) -> tuple[str, str, str]:
    """Thinking, content, and the arguments of the calls joined."""
    form = AnswerForm(
        tools="hermes" if tools else None, tool_names=("get",), thinking=family.name, thinking_open=prompt_open
    )
    reader = AnswerReader(form)
    parts = Parts()
    for piece in pieces:
        parts.add(reader.feed(piece, hidden=piece in hidden))
    parts.add(reader.finish())
    return parts.reasoning, parts.content, "".join(piece.arguments for piece in parts.calls)


@dataclass(frozen=True)
class Case:
    """One output of a model that thinks."""

    about: str
    output: str
    reasoning: str = ""
    content: str = ""
    family: ThinkingFamily = QWEN3
    prompt_open: bool | None = None
    """Whether the prompt ends inside thinking, behind it, or shows neither."""
    tools: bool = False
    arguments: str = ""


CASES = [
    Case("thinking and answer", "<think>\nHm.\n</think>\n\nParis.", "Hm.", "Paris."),
    Case("without line breaks", "<think>Hm.</think>Paris.", "Hm.", "Paris."),
    Case("line breaks and spaces inside stay", "<think>\n a\n\nb \n</think>\n  c\n", " a\n\nb ", "  c\n"),
    Case("white space before the mark", " \n<think>a</think>b", "a", "b"),
    Case("no thinking", "Paris.", "", "Paris."),
    Case("no thinking, white space kept", "\n Paris.", "", "\n Paris."),
    Case("empty thinking", "<think>\n\n</think>\n\nParis.", "", "Paris."),
    Case("unfinished", "<think>\nFirst, the", "First, the"),
    Case("unfinished, with the beginning of a mark", "<think>a</thi", "a</thi"),
    Case("nothing after the opening mark", "<think>", ""),
    Case("nothing after the closing mark", "<think>a</think>\n\n", "a"),
    Case("the beginning of an opening mark", "<thi", "", "<thi"),
    Case("what only looks like a mark", "<thinking>a</thinking>", "", "<thinking>a</thinking>"),
    Case("a mark later on is content", "a <think>b</think>", "", "a <think>b</think>"),
    Case("a second thought is content", "<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
    Case("an opening mark inside thinking", "<think>a<think>b</think>c", "a<think>b", "c"),
    Case("a closing mark without thinking", "a</think>b", "", "a</think>b"),
    Case("opened by the prompt", "\nHm.\n</think>\n\nParis.", "Hm.", "Paris.", prompt_open=True),
    Case("opened by the prompt and again", "<think>\nHm.</think>Paris.", "Hm.", "Paris.", prompt_open=True),
    Case("opened by the prompt, unfinished", "Hm", "Hm", prompt_open=True),
    Case("closed by the prompt", "Paris.", "", "Paris.", prompt_open=False),
    Case("always thinking, no opening mark", "Hm.\n</think>\n\nParis.", "Hm.", "Paris.", family=R1),
    Case("always thinking, unfinished", "Hm.", "Hm.", family=R1),
    Case("always thinking, closed by the prompt", "Paris.", "", "Paris.", family=R1, prompt_open=False),
    Case("Mistral's marks", "[THINK]Hm.[/THINK]Paris.", "Hm.", "Paris.", family=MISTRAL),
    Case("a call after thinking", f"<think>\na\n</think>\n\n{CALL}", "a", "", tools=True, arguments='{"a": 1}'),
    Case("a call inside thinking is thinking", f"<think>{CALL}</think>b", CALL, "b", tools=True),
    Case("a call inside unfinished thinking", f"<think>{CALL}", CALL, "", tools=True),
    Case(
        "thinking, text and a call",
        f"<think>a</think>\nLet me look.\n{CALL}",
        "a",
        "Let me look.",
        tools=True,
        arguments='{"a": 1}',
    ),
    Case("a call without thinking", CALL, "", "", tools=True, arguments='{"a": 1}'),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_an_output_means_the_same_whole_and_in_pieces(case: Case) -> None:
    """Thinking, content and calls are those of the table, wherever the text is cut."""
    expected = (case.reasoning, case.content, case.arguments)
    text = case.output
    for pieces in ([text], list(text), *([text[:at], text[at:]] for at in range(1, len(text)))):
        assert read(pieces, case.family, case.prompt_open, tools=case.tools) == expected
    for end in range(len(text)):
        kind = (case.family, case.prompt_open)
        assert read(text[:end], *kind, tools=case.tools) == read([text[:end]], *kind, tools=case.tools)


SCRAPS = st.sampled_from(["a", " ", "\n", "<", "</", "think>", "<think>", "</think>", "\n\n", CALL, "<tool_call>"])


@settings(max_examples=300, deadline=None)
@given(
    text=st.lists(SCRAPS, max_size=8).map("".join),
    family=st.sampled_from([QWEN3, R1]),
    prompt_open=st.sampled_from([None, True, False]),
    tools=st.booleans(),
    data=st.data(),
)
def test_any_text_means_the_same_in_any_pieces(
    text: str, family: ThinkingFamily, prompt_open: bool | None, tools: bool, data: st.DataObject
) -> None:
    """Whatever a model writes, the pieces do not matter; only marks and white space beside them are no text."""
    found = read([text], family, prompt_open, tools=tools)
    assert read(cut(text, data), family, prompt_open, tools=tools) == found
    if not tools:
        lost = len("".join(text.split())) - len("".join("".join(found[:2]).split()))
        assert lost in (0, len("<think>"), len("</think>"), len("<think></think>"))


def test_marks_that_are_hidden_special_tokens_are_read() -> None:
    """They are no text; others of the kind vanish, inside thinking and after it."""
    pieces = ["<think>", "\n", "a", "<|other|>", "b", "\n", "</think>", "\n\n", "c", "<|other|>", "d"]

    assert read(pieces, hidden=("<think>", "</think>", "<|other|>")) == ("ab", "cd", "")


def test_hidden_marks_in_other_places_are_nothing() -> None:
    """An opening mark inside thinking and a closing one after it leave no trace."""
    pieces = ["<think>", "a", "<think>", "b", "</think>", "c", "</think>", "d"]

    assert read(pieces, hidden=("<think>", "</think>")) == ("ab", "cd", "")


@pytest.mark.parametrize(
    ("tail", "leaves"),
    [
        ("<|im_start|>assistant\n<think>\n", True),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("<|im_start|>assistant\n", None),
        ("what does <think> mean?<|im_end|>\n<|im_start|>assistant\n", None),
    ],
)
def test_the_end_of_the_prompt_tells_whether_thinking_is_open(tail: str, leaves: bool | None) -> None:
    """Only a mark at the very end, with white space after it at most, counts."""
    assert QWEN3.prompt_leaves(tail) is leaves


def count(tokens: list[str], prompt_open: bool | None = None, family: ThinkingFamily = QWEN3) -> int:
    """Tokens of thinking."""
    counter = ThinkingCount(family, prompt_open)
    for token in tokens:
        counter.push(token)
    return counter.tokens


@pytest.mark.parametrize(
    ("tokens", "prompt_open", "expected"),
    [
        (["<think>", "\n", "Hm", ".", "\n", "</think>", "\n\n", "Paris"], None, 5),
        (["\n", "Hm", ".", "\n", "</think>", "\n\n", "Paris"], True, 4),
        (["<think>", "\n\n", "</think>", "\n\n", "Paris"], None, 2),
        (["Hm", ".</", "think", ">\n\n", "Paris"], True, 2),
        (["Hm", "</", "think", ">\n\n", "Paris"], True, 1),
        (["Hm", ".", "and"], True, 3),
        (["Hm", "</", "thin", "g"], True, 4),
        (["Paris", "</think>", "x"], None, 0),
        (["Paris", "."], False, 0),
        ([" ", "<thi", "nk>", "a", "", "b"], None, 6),
        ([], True, 0),
    ],
)
def test_tokens_that_begin_before_the_closing_mark_are_thinking(
    tokens: list[str], prompt_open: bool | None, expected: int
) -> None:
    """The opening mark's own tokens count, those of the closing mark do not, wherever the vocabulary cuts it."""
    assert count(tokens, prompt_open) == expected


@settings(max_examples=200, deadline=None)
@given(before=st.text("ab<>/\n", max_size=30), after=st.text("ab\n", max_size=9), data=st.data())
def test_the_count_is_the_position_of_the_closing_mark_in_tokens(before: str, after: str, data: st.DataObject) -> None:
    """However the text is cut into tokens: those that begin before the mark."""
    text = f"{before}</think>{after}"
    pieces = [piece for piece in cut(text, data) if piece]
    starts = [sum(map(len, pieces[:index])) for index in range(len(pieces))]

    assert count(pieces, True, R1) == sum(start < text.index("</think>") for start in starts)


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ '<think>\\n\\n</think>' }}", "qwen3"),
        ("{{ '[THINK]' + block + '[/THINK]' }}", "mistral"),
        ("{{ message.content }}", None),
        (None, None),
    ],
)
def test_a_template_shows_its_models_marks(template: str | None, name: str | None) -> None:
    """The closing mark in the template's text decides."""
    found = thinking_family_seen_in(template)
    assert (None if found is None else found.name) == name


def test_families_are_found_by_name_and_alias() -> None:
    """deepseek_v31 marks its thinking as Qwen3 does; an unknown name is none."""
    assert thinking_family("deepseek_v31") is QWEN3
    assert thinking_family("nobody") is None


def test_a_form_that_names_no_family_is_refused() -> None:
    """The reader says so instead of leaving marks in the text."""
    with pytest.raises(ValueError, match="names no family"):
        AnswerReader(AnswerForm(thinking=json.dumps("nobody")))
