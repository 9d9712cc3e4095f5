"""The rules of an answer: calls as each family writes them, JSON, thinking before, and free text around."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.text.parsers import TOOL_FAMILIES
from engine.text.parsers.family import ToolFamily
from engine.text.parsers.hermes import HERMES
from engine.text.reasoning import thinking_family
from handlers.call_grammar import Calls, Thought, rules
from tests.grammar_walk import Walker

WALKER = Walker()
FAMILIES = [family for family in TOOL_FAMILIES if family.json_arguments]
SPECIAL = {"<|im_start|>": WALKER.tokenizer.encode("<|im_start|>", add_special_tokens=False)[0]}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"]}
ZONE = {"type": "object", "properties": {"z": {"enum": ["a", "b"]}}, "required": ["z"]}


def grammar(**parts: Any) -> str:
    """The rules with two schemas: of f's arguments and of g's, both closed; the second is also the answer's."""
    layout = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
    schemas = [
        f"schema_{index}: %json " + json.dumps({**schema, "additionalProperties": False, "x-guidance": layout})
        for index, schema in enumerate((NUMBER, ZONE))
    ]
    return "\n".join([rules(**parts), *schemas])


def calls(family: ToolFamily, *, required: bool = True, single: bool = False) -> Calls:
    """Two functions that may be called."""
    return Calls(family, {"f": 0, "g": 1}, required, single)


def two(family: ToolFamily) -> str:
    """An answer of two calls."""
    parts = [f'{family.head_of("f")}{{"n": 3}}{family.tail}', f'{family.head_of("g")}{{"z": "a"}}{family.tail}']
    return family.opens + family.between.join(parts) + family.closes


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_required_calls_are_written_as_the_family_writes_them(family: ToolFamily) -> None:
    """One or several of the listed functions with valid arguments, and nothing else."""
    required = grammar(calls=calls(family))
    one = family.write("f", {"n": 3})
    assert WALKER.accepts(required, one)
    assert WALKER.accepts(required, two(family))
    for wrong in ("", "Hello", one + " and", family.write("h", {"n": 3}), family.write("f", {"n": "3"})):
        assert not WALKER.accepts(required, wrong)
    single = grammar(calls=calls(family, single=True))
    assert WALKER.accepts(single, one)
    assert not WALKER.accepts(single, two(family))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_free_text_may_have_calls_and_they_are_held(family: ToolFamily) -> None:
    """Any text; but what begins like a call is one of the listed functions with valid arguments."""
    free = grammar(calls=calls(family, required=False))
    one = family.write("f", {"n": 3})
    for accepted in ("", "Hello {there}\nyou", "f is a name", one, two(family)):
        assert WALKER.accepts(free, accepted), accepted
    for wrong in (family.write("f", {"n": "3"}), family.write("f", {})):
        assert not WALKER.accepts(free, wrong), wrong
    if not family.at_start:
        assert WALKER.accepts(free, f"Let me see. {one}")
        assert not WALKER.accepts(free, f"Let me see. {family.write('f', {'m': 1})}")
        assert not WALKER.accepts(free, f"Let me see. {family.openings[0]} now")


def test_calls_or_json() -> None:
    """With response_format the text is JSON, or the answer is calls."""
    either = grammar(calls=calls(HERMES, required=False), json_schema=1)
    assert WALKER.accepts(either, '{"z": "b"}')
    assert WALKER.accepts(either, HERMES.write("f", {"n": 0}))
    assert not WALKER.accepts(either, "Hello")
    alone = grammar(json_schema=1)
    assert WALKER.accepts(alone, '{"z":"a"}')
    assert not WALKER.accepts(alone, '{"z": "c"}')
    assert not WALKER.accepts(alone, '{ "z": "a"}')


@pytest.mark.parametrize("name", ["qwen3", "mistral"])
def test_the_grammar_begins_after_thinking(name: str) -> None:
    """Thinking is free up to its closing mark; without an opening one it is allowed to be left out."""
    family = thinking_family(name)
    assert family is not None
    answer = '{"z": "b"}'
    begun = grammar(json_schema=1, thought=Thought(family, begun=True))
    assert WALKER.accepts(begun, f"I think {{ so.\n{family.closing}\n\n{answer}")
    assert not WALKER.accepts(begun, answer)
    assert not WALKER.accepts(begun, f"I think{family.closing}Hello")
    optional = grammar(json_schema=1, thought=Thought(family, begun=False))
    assert WALKER.accepts(optional, f"{family.opening}\nI think.{family.closing}{answer}")
    assert WALKER.accepts(optional, answer)
    assert not WALKER.accepts(optional, f"{family.opening}{answer}")


def test_special_tokens_are_named_by_their_ids() -> None:
    """A mark that is one token of the vocabulary's own is not spelled with others."""
    marked = ToolFamily(
        name="marked",
        read=HERMES.read,
        seen_in=HERMES.seen_in,
        openings=("<|im_start|>",),
        head="<|im_start|>{name}:",
        tail=";",
    )
    for required in (True, False):
        text = grammar(calls=calls(marked, required=required), special=SPECIAL)
        assert f"<[{SPECIAL['<|im_start|>']}]>" in text
        assert WALKER.accepts(text, '<|im_start|>f:{"n": 1};')
        assert not WALKER.accepts(text, '<|im_start|>f:{"n": "1"};')
