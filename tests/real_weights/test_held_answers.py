"""Answers of the default model held to schemas: calls that end and validate, JSON, streams as whole answers."""

from __future__ import annotations

import json
import os
from typing import Any

import jsonschema
import pytest
from real_server import CHAT, RealServer, joined

pytestmark = pytest.mark.weights

CALLS = int(os.environ.get("MINDSPEC_HELD_CALLS", "16"))
"""Sampled calls; 200 take some minutes."""
MOST_UNFINISHED = max(2, CALLS // 20)
MAX_TOKENS = 512
COMPANY = 8


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


SHORT = {"type": "string", "maxLength": 24}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_weather": (
        "What will the weather be like in Paris for the next three days?",
        _object(
            city=SHORT, unit={"enum": ["celsius", "fahrenheit"]}, days={"type": "integer", "minimum": 1, "maximum": 7}
        ),
    ),
    "send_mail": (
        "Tell Anna and Bob that the meeting is at ten.",
        _object(
            to={"type": "array", "items": SHORT, "minItems": 1, "maxItems": 3},
            subject=SHORT,
            urgent={"type": "boolean"},
        ),
    ),
    "find_flight": (
        "I want to fly from Rome to Oslo on the second of May.",
        _object(
            start={"type": "string", "pattern": "^[A-Z]{3}$"},
            end={"type": "string", "pattern": "^[A-Z]{3}$"},
            day={"type": "string", "format": "date"},
        ),
    ),
    "set_light": (
        "Make the kitchen half as bright, and warm.",
        _object(
            room={"enum": ["kitchen", "bath", "hall"]},
            level={"type": "number", "minimum": 0, "maximum": 1},
            color={"anyOf": [{"const": None}, SHORT]},
        ),
    ),
    "book_table": (
        "A table for four at Luigi's tonight, please.",
        _object(
            place=SHORT,
            guest=_object(name=SHORT, age={"type": ["integer", "null"], "minimum": 0, "maximum": 120}),
            seats={"type": "integer", "exclusiveMinimum": 0, "maximum": 12},
        ),
    ),
}


def _body(number: int) -> dict[str, Any]:
    """The body of one of the sampled requests: a question, and a strict tool that has to be called."""
    name, (question, parameters) = list(TOOLS.items())[number % len(TOOLS)]
    function = {"name": name, "description": question, "parameters": parameters, "strict": True}
    return {
        "messages": [{"role": "user", "content": question}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "max_tokens": MAX_TOKENS,
        "seed": number,
    }


def _check_calls(choice: dict[str, Any]) -> None:
    """At least one call; the arguments of each validate under their function's schema."""
    calls = choice["message"]["tool_calls"]
    assert calls
    assert choice["message"]["content"] == ""
    for call in calls:
        arguments = json.loads(call["function"]["arguments"])
        _, parameters = TOOLS[call["function"]["name"]]
        jsonschema.validate(arguments, {**parameters, "additionalProperties": False})


def test_sampled_calls_end_by_themselves_and_validate(server: RealServer) -> None:
    """At temperature 1: 19 of 20 end within the budget, and each of these validates."""
    ended = 0
    for first in range(0, CALLS, COMPANY):
        bodies = [(CHAT, _body(number)) for number in range(first, min(CALLS, first + COMPANY))]
        for answer in server.together(bodies):
            (choice,) = answer["choices"]
            if choice["finish_reason"] == "tool_calls":
                _check_calls(choice)
                ended += 1
            else:
                assert choice["finish_reason"] == "length"
    print(f"{ended} of {CALLS} calls ended by themselves; all of these validate")
    assert ended >= CALLS - MOST_UNFINISHED


def test_a_streamed_call_is_the_whole_one(server: RealServer) -> None:
    """Same seed: name and arguments joined from the events are those of the whole answer."""
    for number in range(3):
        (choice,) = server.whole(CHAT, **_body(number), parallel_tool_calls=False)["choices"]
        (call,) = choice["message"]["tool_calls"]
        events = server.events(CHAT, **_body(number), parallel_tool_calls=False)
        pieces = [piece for event in events for piece in event["choices"][0]["delta"].get("tool_calls") or []]
        assert pieces[0]["function"]["name"] == call["function"]["name"]
        assert "".join(piece["function"]["arguments"] for piece in pieces) == call["function"]["arguments"]
        assert events[-1]["choices"][0]["finish_reason"] == choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_json_validates_on_both_endpoints_with_penalties_and_choices(server: RealServer, path: str) -> None:
    """Three choices, a repetition penalty, logprobs and top_p beside the schema; streamed as whole."""
    _, schema = TOOLS["send_mail"]
    question = (
        {"messages": [{"role": "user", "content": "Write to Anna."}]} if path == CHAT else {"prompt": "To Anna: "}
    )
    asked = {"response_format": {"type": "json_schema", "json_schema": {"name": "mail", "schema": schema}}}
    body = {**question, **asked, "n": 3, "seed": 4, "max_tokens": 256, "repetition_penalty": 1.2, "top_p": 0.9}
    whole = server.whole(path, **body, logprobs=True if path == CHAT else 1)
    streamed = joined(server.events(path, **body))
    for choice in whole["choices"]:
        text = choice["text"] if "text" in choice else choice["message"]["content"]
        assert streamed[choice["index"]]["text"] == text
        assert choice["finish_reason"] == "stop"
        jsonschema.validate(json.loads(text), schema)


def test_a_strict_tool_is_held_when_the_model_calls_by_itself(server: RealServer) -> None:
    """With auto, text is free and a call is not: whatever calls there are validate."""
    bodies = [(CHAT, {**_body(number), "tool_choice": "auto", "max_tokens": 120}) for number in range(COMPANY)]
    for answer in server.together(bodies):
        for call in answer["choices"][0]["message"]["tool_calls"]:
            if answer["choices"][0]["finish_reason"] != "length":
                _, parameters = TOOLS[call["function"]["name"]]
                jsonschema.validate(json.loads(call["function"]["arguments"]), parameters)
