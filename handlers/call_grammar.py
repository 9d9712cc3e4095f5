"""The rules that an answer is held to, in llguidance's dialect of Lark: thinking, then calls, a JSON value, or text.

``schema_0``, ``schema_1`` and so on stand for the JSON schemas, whose rules ``schema_worker.py`` adds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.text.parsers.family import ToolFamily
from engine.text.reasoning import ThinkingFamily

_ANY: Final = "(?s:.*)"
_BREAKS: Final = "BREAKS: /[\\r\\n]{1,4}/"


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls that an answer may, or must, have."""

    family: ToolFamily
    """One with ``json_arguments``."""
    schemas: Mapping[str, int]
    """Function name -> number of the schema of its arguments."""
    required: bool
    """The answer is calls; otherwise they may stand in or behind free text."""
    single: bool
    """At most one."""


@dataclass(frozen=True, slots=True)
class Thought:
    """The chain of thought before the answer."""

    family: ThinkingFamily
    begun: bool
    """It goes on from the first token; otherwise the opening mark may come first."""


def rules(
    *,
    calls: Calls | None = None,
    json_schema: int | None = None,
    thought: Thought | None = None,
    special: Mapping[str, int] | None = None,
) -> str:
    """The rules of an answer, ``start`` first.

    Args:
        calls: tool calls that the answer may or must have.
        json_schema: number of the schema that the answer is JSON under, unless it is calls.
        thought: what may stand before.
        special: the marks that are one special token each, and their ids.
    """
    marks = special or {}
    lines = [f"TEXT: /{_ANY}/"]
    alternatives = []
    if calls is not None and (calls.required or json_schema is not None):
        alternatives.append("section")
        lines += _section(calls, marks)
    elif calls is not None:
        alternatives.append("free")
        lines += _free(calls, marks)
    if json_schema is not None and not (calls is not None and calls.required):
        alternatives.append(f"schema_{json_schema}")
    body = " | ".join(alternatives)
    if thought is None:
        start = body
    else:
        start = "thought body" if thought.begun else f"body | {_literal(thought.family.opening, marks)} thought body"
        lines += [f"body: {body}", *_thought(thought.family.closing, marks)]
    return "\n".join([f"start: {start}", *lines])


def _thought(closing: str, marks: Mapping[str, int]) -> list[str]:
    return [*_up_to("thinking", "TEXT", closing, marks), "thought: thinking BREAKS?", _BREAKS]


def _up_to(rule: str, text: str, mark: str, marks: Mapping[str, int]) -> list[str]:
    """A rule for text that ends with the first of a mark."""
    if mark in marks:
        return [f"{rule}: {text} {_literal(mark, marks)}"]
    return [f"{rule}[lazy]: {text} {_literal(mark, marks)}"]


def _section(calls: Calls, marks: Mapping[str, int]) -> list[str]:
    """``section``: calls alone, from what opens them to what closes them."""
    family = calls.family
    heads = {name: family.head_of(name) for name in calls.schemas}
    return [
        f"section: {_literal(family.opens, marks)} call{_more(calls)} {_literal(family.closes, marks)}",
        *_calls(calls, "call", heads, marks),
        *_next_calls(calls, marks),
    ]


def _free(calls: Calls, marks: Mapping[str, int]) -> list[str]:
    """``free``: any text, in which whatever begins like a call is one."""
    family = calls.family
    heads = {name: family.opens + family.head_of(name) for name in calls.schemas}
    opening = next((mark for mark in family.openings if all(head.startswith(mark) for head in heads.values())), None)
    # A special token that no rule names does not come; a mark that is ordinary text has to be kept out of the text.
    others = [mark for mark in family.openings if mark != opening and mark not in marks]
    closes = _literal(family.closes, marks)
    if opening is None or family.at_start:
        begins = r"[\s\x{feff}]*(?:\{|" + "|".join(f"{_escaped(name)}\\s*\\n" for name in calls.schemas) + ")"
        plain = [f"/{begins}{_ANY}/", *(f"/{_ANY}{_escaped(mark)}{_ANY}/" for mark in others)]
        return ["free: section | PLAIN", _text_without("PLAIN", plain), *_section(calls, marks)]
    rests = {name: head[len(opening) :] for name, head in heads.items()}
    lines = [
        _text_without("FREE", [f"/{_ANY}{_escaped(mark)}{_ANY}/" for mark in others]),
        *_up_to("lead", "FREE", opening, marks),
        *_calls(calls, "first", rests, marks),
        f"begun: lead first{_more(calls)} {closes}",
    ]
    if calls.single:
        return ["free: FREE | begun", *lines]
    own_heads = {name: family.head_of(name) for name in calls.schemas}
    return ["free: begun* FREE", *lines, *_calls(calls, "call", own_heads, marks), *_next_calls(calls, marks)]


def _more(calls: Calls) -> str:
    return "" if calls.single else " next*"


def _next_calls(calls: Calls, marks: Mapping[str, int]) -> list[str]:
    return [] if calls.single else [f"next: {_literal(calls.family.between, marks)} call"]


def _calls(calls: Calls, rule: str, heads: Mapping[str, str], marks: Mapping[str, int]) -> list[str]:
    tail = _literal(calls.family.tail, marks)
    options = [f"{_literal(heads[name], marks)} schema_{number} {tail}" for name, number in calls.schemas.items()]
    return [f"{rule}: " + " | ".join(options)]


def _text_without(name: str, without: Sequence[str]) -> str:
    """A terminal for any text but the texts of these regular expressions."""
    return f"{name}: " + " & ".join(["TEXT", *(f"~{pattern}" for pattern in without)])


def _literal(text: str, marks: Mapping[str, int]) -> str:
    """A text as it stands, its special tokens by their ids."""
    for mark, token_id in marks.items():
        before, found, after = text.partition(mark)
        if found:
            return f"{_literal(before, marks)} <[{token_id}]> {_literal(after, marks)}".strip()
    return json.dumps(text, ensure_ascii=False) if text else ""


def _escaped(text: str) -> str:
    """A text as a regular expression."""
    return "".join(letter if letter.isascii() and letter.isalnum() else f"\\x{{{ord(letter):x}}}" for letter in text)
