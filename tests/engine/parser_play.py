"""Reads model outputs with a family's parser, whole and in pieces, for the tables of the families."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from engine.text.answer import AnswerReader, Parts
from engine.text.parsers.family import ToolFamily
from engine.types import AnswerForm

NAMES = ("get_weather", "get_time", "get", "查天气")

Call = tuple[str, str]
"""(name, text of the arguments)."""


@dataclass(frozen=True)
class Case:
    """One output of a model and what it means."""

    about: str
    output: str
    content: str = ""
    calls: tuple[Call, ...] = ()
    whole: bool = True
    """The calls are whole; else the output ends inside the last one."""

    @property
    def expected(self) -> tuple[str, list[Call], bool]:
        """As ``read`` returns it."""
        return self.content, list(self.calls), self.whole and bool(self.calls)


def read(
    family: ToolFamily, pieces: Iterable[str], *, hidden: Sequence[str] = (), names: Sequence[str] = NAMES
) -> tuple[str, list[Call], bool]:
    """Content, calls, and whether there are calls and all of them are whole. ``hidden`` texts are special tokens."""
    reader = AnswerReader(AnswerForm(tools=family.name, tool_names=tuple(names)))
    parts = Parts()
    for piece in pieces:
        parts.add(reader.feed(piece, hidden=piece in hidden))
    parts.add(reader.finish())
    calls: list[tuple[str, list[str]]] = []
    for news in parts.calls:
        if news.name is not None:
            assert news.index == len(calls), "calls are numbered in their order"
            calls.append((news.name, []))
        calls[news.index][1].append(news.arguments)
    return parts.content, [(name, "".join(texts)) for name, texts in calls], reader.calls_whole


def check(family: ToolFamily, case: Case) -> None:
    """The output whole, character by character, and in two pieces wherever it is cut, means what the case says."""
    text = case.output
    assert read(family, [text]) == case.expected
    assert read(family, text) == case.expected
    for cut in range(1, len(text)):
        assert read(family, [text[:cut], text[cut:]]) == case.expected, f"cut at {cut}"


def check_every_beginning(family: ToolFamily, case: Case) -> None:
    """An output that breaks off anywhere means the same whole and streamed, and loses no text."""
    for end in range(len(case.output)):
        text = case.output[:end]
        found = read(family, [text])
        assert read(family, text) == found, f"ends at {end}"
        content, calls, whole = found
        if not calls:
            assert (content, whole) == (text, False), f"ends at {end}"
        kept = list(case.calls)[: len(calls)]
        assert [name for name, _ in calls] == [name for name, _ in kept], f"ends at {end}"
        assert all(full.startswith(part) for (_, part), (_, full) in zip(calls, kept, strict=True)), f"ends at {end}"


def check_hidden(family: ToolFamily, case: Case) -> None:
    """With the family's markers as hidden special tokens the calls are the same, and no marker is text."""
    markers = [marker for marker in family.markers if marker in case.output]
    if not markers:
        return
    pattern = "(" + "|".join(map(re.escape, markers)) + ")"
    pieces = [piece for piece in re.split(pattern, case.output) if piece]
    letters = [letter for piece in pieces for letter in ([piece] if piece in markers else piece)]
    calls = [(name, re.sub(pattern, "", arguments)) for name, arguments in case.calls]
    expected = (re.sub(pattern, "", case.content), calls, case.expected[2])
    assert read(family, pieces, hidden=markers) == expected
    assert read(family, letters, hidden=markers) == expected


def check_pieces(family: ToolFamily, text: str, pieces: Sequence[str]) -> None:
    """A text means the same whole and in these pieces, and one without calls is all content."""
    found = read(family, [text])
    assert read(family, pieces) == found
    if not found[1]:
        assert found[0] == text


def parts_of(family: ToolFamily, cases: Sequence[Case]) -> st.SearchStrategy[str]:
    """Texts put together from a family's markers, calls and pieces of JSON, in any order."""
    scraps = [
        "Hi",
        " ",
        "\n",
        "{",
        "}",
        '"',
        "\\",
        "[",
        "]",
        ",",
        ";",
        "get",
        "get_time\n",
        '{"a": "}{"}',
        "function",
        "```",
    ]
    opening = [marker[: len(marker) // 2] for marker in family.markers]
    whole = [case.output for case in cases]
    return st.lists(st.sampled_from([*scraps, *family.markers, *opening, *whole]), max_size=6).map("".join)


def cut(text: str, data: st.DataObject) -> list[str]:
    """The text in pieces of any lengths."""
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
