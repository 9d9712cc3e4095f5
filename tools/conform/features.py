"""What a server offers: each feature is one small request that it must accept; laws name the features they need."""

from __future__ import annotations

from typing import Any, Final

from tools.conform.sides import CHAT, Side

TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "set_light",
        "description": "Turns a light on or off",
        "parameters": {
            "type": "object",
            "properties": {"on": {"type": "boolean"}},
            "required": ["on"],
            "additionalProperties": False,
        },
    },
}
OTHER_TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "set_colour",
        "description": "Chooses the colour of a light",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "green", "blue"]}},
            "required": ["colour"],
            "additionalProperties": False,
        },
    },
}
NAMED: Final[dict[str, Any]] = {"type": "function", "function": {"name": "set_light"}}
FORM: Final[dict[str, Any]] = {
    "type": "json_schema",
    "json_schema": {
        "name": "state",
        "schema": {
            "type": "object",
            "properties": {"on": {"type": "boolean"}, "colour": {"enum": ["red", "green"]}},
            "required": ["on", "colour"],
            "additionalProperties": False,
        },
    },
}

BASIC: Final = "basic"
"""The endpoint itself; whether it answers the smallest request is a law."""

FIELDS: Final[dict[str, dict[str, Any]]] = {
    BASIC: {},
    "stream": {"stream": True},
    "n": {"n": 2, "temperature": 1.0},
    "best_of": {"best_of": 2, "temperature": 1.0},
    "beams": {"use_beam_search": True, "n": 2},
    "temperature": {"temperature": 0.7},
    "greedy": {"temperature": 0},
    "top_k": {"top_k": 5},
    "top_p": {"top_p": 0.9},
    "seed": {"seed": 7},
    "stop": {"stop": ["zqzq"]},
    "stop_token_ids": {"stop_token_ids": [1]},
    "include_stop": {"stop": ["zqzq"], "include_stop_str_in_output": True},
    "ignore_eos": {"ignore_eos": True},
    "skip_special_tokens": {"skip_special_tokens": False},
    "presence_penalty": {"presence_penalty": 1.0},
    "frequency_penalty": {"frequency_penalty": 1.0},
    "repetition_penalty": {"repetition_penalty": 1.2},
    "tools": {"tools": [TOOL]},
    "named_tool": {"tools": [TOOL], "tool_choice": NAMED},
    "required_tool": {"tools": [TOOL], "tool_choice": "required"},
    "max_completion_tokens": {"max_completion_tokens": 1, "max_tokens": None},
    "response_format": {"response_format": FORM},
    "chat_template": {"chat_template": "{{ messages[0].content }}"},
}
"""What the probe of each feature has beside the smallest request."""

OWN_SEED: Final = "own_seed"
"""The server picks a seed where none is sent. A mock takes the same one always; only a server that says it is one is a
mock (``model_instance_type`` StandardMock)."""
FAULTS: Final = "faults"
"""Failures on demand, by the header ``X-Mock``: of a mock alone."""
MOCK_HEADER: Final = "X-Mock"
TOKENIZER: Final = "tokenizer"
"""POST /v1/tokenizer."""
REFUSES: Final = "refuses"
"""Values outside small bounds are refused, so that huge ones can be sent without being worked on."""


def probe_body(side: Side, feature: str, model: str) -> dict[str, Any]:
    """The request that a feature is known by."""
    if feature == "logprobs":
        fields = side.logprobs(2)
    elif feature == "prompt_ids":
        fields = {"prompt": [5, 6, 7]}
    else:
        fields = FIELDS[feature]
    return {**side.body(model, "hello"), "max_tokens": 1, **fields}


def offered_on(side: Side, feature: str) -> bool:
    """Whether the endpoint has the feature at all."""
    only_chat = {"tools", "named_tool", "required_tool", "max_completion_tokens", "chat_template"}
    return feature != "prompt_ids" if side is CHAT else feature not in only_chat
