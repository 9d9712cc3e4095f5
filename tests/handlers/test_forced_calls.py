"""The smallest arguments of a forced call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from engine.text.parsers import TOOL_FAMILIES, tool_family
from engine.text.parsers.hermes import HERMES
from generated.models import ChatCompletionRequest
from handlers.errors import Problem
from handlers.forced_calls import forced_text, smallest


def required(parameters: dict[str, Any]) -> ChatCompletionRequest:
    """A request that must call the second of two tools, which has these parameters."""
    tools = [
        {"type": "function", "function": {"name": "other"}},
        {"type": "function", "function": {"name": "f", "parameters": parameters}},
    ]
    choice = {"type": "function", "function": {"name": "f"}}
    messages = [{"role": "user", "content": "x"}]
    return ChatCompletionRequest.model_validate(
        {"model": "m", "messages": messages, "tools": tools, "tool_choice": choice}
    )


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        ({"type": "object", "properties": {"a": {"const": "é"}}, "required": ["a"]}, '{"a": "é"}'),
        ({"type": "object", "properties": {"a": {"enum": [5, 6]}}, "required": ["a"]}, '{"a": 5}'),
        ({"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a", 3]}, '{"a": []}'),
        ({"type": "object", "properties": {"a": {"type": ["null"]}}}, "{}"),
        ({"const": [1]}, "{}"),
    ],
)
def test_required_properties_get_their_plainest_value(parameters: dict[str, Any], arguments: str) -> None:
    """const, the first of enum, or the empty value of the type; arguments are always an object."""
    wanted = f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
    assert forced_text(required(parameters), HERMES, True) == wanted


class CountingSchema(Mapping[str, Any]):
    """A schema of strings that counts how often it is read."""

    def __init__(self) -> None:
        self.reads = 0

    def __getitem__(self, key: str) -> Any:
        self.reads += key == "type"
        return {"type": "string"}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["type"])

    def __len__(self) -> int:
        return 1


def test_a_name_that_is_required_many_times_is_made_once() -> None:
    """Else eight levels of a thousand equal names would be made 1000 to the power of eight times."""
    inner = CountingSchema()

    made = smallest({"type": "object", "properties": {"a": inner}, "required": ["a"] * 1000})

    assert (made, inner.reads) == ({"a": ""}, 1)


def test_arguments_that_json_cannot_write_are_refused() -> None:
    """1e400 is infinite as a double; the schema that asks for it is named."""
    with pytest.raises(Problem) as caught:
        forced_text(required({"properties": {"a": {"const": float("inf")}}, "required": ["a"]}), HERMES, True)

    assert (caught.value.code, caught.value.param) == ("out_of_range", "tools[1].function.parameters")
