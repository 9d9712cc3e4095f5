"""Rows on what the server takes beyond MindIE's tables: OpenAI's newer members, and a bound on thinking."""

from __future__ import annotations

from typing import Any

from wire import Row, bad, both, chat, missing, ok, out_of_range, wrong_type


def form(kind: str, schema: Any = None, **members: Any) -> dict[str, Any]:
    """A change that sets response_format, with a named schema where one is given."""
    named = {} if schema is None else {"json_schema": {"name": "answer", "schema": schema, **members}}
    return {"response_format": {"type": kind, **named}}


TOOL = {"type": "function", "function": {"name": "f"}}
OBJECT = {"type": "object"}
SCHEMA = "response_format.json_schema"
BUDGET = "chat_template_kwargs.thinking_budget"

TOKENS: list[Row] = [
    chat("completion-tokens", {"max_completion_tokens": 3, "max_tokens": None}, ok()),
    chat("completion-tokens-null", {"max_completion_tokens": None}, ok()),
    chat("completion-tokens-equal", {"max_completion_tokens": 3, "max_tokens": 3}, ok()),
    chat(
        "completion-tokens-differ",
        {"max_completion_tokens": 3, "max_tokens": 4},
        bad("max_completion_tokens", "max-tokens-agree"),
    ),
    chat("completion-tokens-most", {"max_completion_tokens": 2147483647, "max_tokens": None}, ok(), max_iter_times=2),
    chat("completion-tokens-zero", {"max_completion_tokens": 0}, out_of_range("max_completion_tokens")),
    chat("completion-tokens-too-many", {"max_completion_tokens": 2147483648}, out_of_range("max_completion_tokens")),
    chat("completion-tokens-text", {"max_completion_tokens": "3"}, wrong_type("max_completion_tokens")),
]

STREAM_OPTIONS: list[Row] = [
    *both("stream-options", {"stream_options": {"include_usage": True}}, ok()),
    *both("stream-options-null", {"stream_options": None}, ok()),
    *both("stream-options-empty", {"stream_options": {}}, ok()),
    *both("stream-options-null-member", {"stream_options": {"include_usage": None}}, ok()),
    *both("stream-options-unknown", {"stream_options": {"pace": 1}}, ok("stream_options.pace")),
    *both("stream-options-true", {"stream_options": True}, wrong_type("stream_options")),
    *both(
        "stream-options-text", {"stream_options": {"include_usage": "yes"}}, wrong_type("stream_options.include_usage")
    ),
]

PARALLEL: list[Row] = [
    chat("parallel-false", {"parallel_tool_calls": False}, ok()),
    chat("parallel-true-with-tools", {"parallel_tool_calls": True, "tools": [TOOL]}, ok()),
    chat("parallel-null", {"parallel_tool_calls": None}, ok()),
    chat("parallel-number", {"parallel_tool_calls": 0}, wrong_type("parallel_tool_calls")),
]

FORMAT: list[Row] = [
    *both("format-null", {"response_format": None}, ok()),
    *both("format-text", form("text"), ok()),
    *both("format-text-null-schema", {"response_format": {"type": "text", "json_schema": None}}, ok()),
    *both("format-unknown-member", {"response_format": {"type": "text", "mood": 1}}, ok("response_format.mood")),
    *both("format-no-type", {"response_format": {}}, missing("response_format.type")),
    *both("format-other-type", form("xml"), bad("response_format.type")),
    *both("format-string", {"response_format": "json_object"}, wrong_type("response_format")),
    *both("format-schema-missing", form("json_schema"), bad(SCHEMA, "json-schema-needs-its-type")),
    *both("format-schema-with-object", form("json_object", OBJECT), bad(SCHEMA, "json-schema-needs-its-type")),
    *both("format-schema-with-text", form("text", OBJECT), bad(SCHEMA, "json-schema-needs-its-type")),
    *both(
        "format-schema-no-name",
        {"response_format": {"type": "json_schema", "json_schema": {"schema": OBJECT}}},
        missing(SCHEMA + ".name"),
    ),
    *both(
        "format-schema-no-schema",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
        missing(SCHEMA + ".schema"),
    ),
    *both("format-schema-list", form("json_schema", []), wrong_type(SCHEMA + ".schema")),
    *both("format-schema-strict-number", form("json_schema", OBJECT, strict=1), wrong_type(SCHEMA + ".strict")),
    *both("format-schema-name-long", form("json_schema", OBJECT, name="a" * 65), bad(SCHEMA + ".name", "too_long")),
    *both("format-mtp", form("json_object"), bad("response_format", "mtp-excludes-response-format"), profile=["mtp"]),
]

THINKING: list[Row] = [
    chat("budget-zero", {"chat_template_kwargs": {"thinking_budget": 0}}, out_of_range(BUDGET)),
    chat("budget-too-many", {"chat_template_kwargs": {"thinking_budget": 2147483648}}, out_of_range(BUDGET)),
    chat("budget-text", {"chat_template_kwargs": {"thinking_budget": "9"}}, wrong_type(BUDGET)),
    chat("budget-null", {"chat_template_kwargs": {"thinking_budget": None}}, bad(BUDGET)),
    chat(
        "budget-without-thinking",
        {"chat_template_kwargs": {"thinking_budget": 9, "enable_thinking": False}},
        bad(BUDGET, "thinking-budget-needs-thinking"),
    ),
]

ROWS: list[Row] = [*TOKENS, *STREAM_OPTIONS, *PARALLEL, *FORMAT, *THINKING]
