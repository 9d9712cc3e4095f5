"""Rows on tools, tool_choice, function.strict, and tool calls in messages."""

from __future__ import annotations

from typing import Any

from hand.messages import CALL, USER, answered
from wire import DROP, Row, bad, changed, chat, missing, ok, said, wrong_type

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "A city."}},
            "required": ["city"],
        },
    },
}


def tool(**function: Any) -> dict[str, Any]:
    """A change that offers one tool of this function."""
    return {"tools": [{"type": "function", "function": function}]}


def named(name: str) -> dict[str, Any]:
    """A change that offers one tool of this name."""
    return tool(name=name)


NAME = "tools[0].function.name"

TOOLS: list[Row] = [
    chat("tools-one", {"tools": [WEATHER]}, ok()),
    chat("tools-null", {"tools": None}, ok()),
    chat("tools-empty", {"tools": []}, ok()),
    chat("tools-number", {"tools": 5}, wrong_type("tools")),
    chat("tools-object", {"tools": WEATHER}, wrong_type("tools")),
    chat("tools-string", {"tools": "get_weather"}, wrong_type("tools")),
    chat("tool-number", {"tools": [5]}, wrong_type("tools[0]")),
    chat("tool-null", {"tools": [WEATHER, None]}, bad("tools[1]")),
    chat("tool-type-missing", {"tools": [{"function": {"name": "f"}}]}, missing("tools[0].type")),
    chat("tool-type-unknown", {"tools": [{"type": "retrieval", "function": {"name": "f"}}]}, bad("tools[0].type")),
    chat("tool-type-number", {"tools": [{"type": 5, "function": {"name": "f"}}]}, bad("tools[0].type")),
    chat("tool-function-missing", {"tools": [{"type": "function"}]}, missing("tools[0].function")),
    chat(
        "tool-function-null",
        {"tools": [{"type": "function", "function": None}]},
        bad("tools[0].function", ("missing", "wrong_type")),
    ),
    chat("tool-function-string", {"tools": [{"type": "function", "function": "f"}]}, wrong_type("tools[0].function")),
    chat("tool-name-missing", tool(description="nameless"), missing(NAME)),
    chat("tool-name-null", tool(name=None), bad(NAME, ("missing", "wrong_type"))),
    chat("tool-name-number", tool(name=5), wrong_type(NAME)),
    chat("tool-name-only", named("f"), ok()),
    chat("tool-name-all-kinds", named("Get_weather-2"), ok()),
    chat("tool-name-chinese", named("查询天气"), ok()),
    chat("tool-name-first-chinese", named("一"), ok()),
    chat("tool-name-last-chinese", named("\u9fa5"), ok()),
    chat("tool-name-after-last-chinese", named("\u9fa6"), bad(NAME)),
    chat("tool-name-before-first-chinese", named("\u4dff"), bad(NAME)),
    chat("tool-name-longest", named("n" * 64), ok()),
    chat("tool-name-longest-chinese", named("天" * 64), ok()),
    chat("tool-name-too-long", named("n" * 65), bad(NAME)),
    chat("tool-name-too-long-chinese", named("天" * 65), bad(NAME)),
    chat("tool-name-empty", named(""), bad(NAME)),
    chat("tool-name-space", named("get weather"), bad(NAME)),
    chat("tool-name-dot", named("weather.get"), bad(NAME)),
    chat("tool-name-accent", named("météo"), bad(NAME)),
    chat("tool-name-full-width", named("ｇｅｔ"), bad(NAME)),
    chat("tool-name-arabic-digit", named("f\u0661"), bad(NAME)),
    chat("tool-name-trailing-newline", named("get\n"), bad(NAME)),
    chat("tool-name-leading-newline", named("\nget"), bad(NAME)),
    chat(
        "tool-names-twice",
        {"tools": [WEATHER, WEATHER]},
        bad("tools*", "tool-names-unique"),
    ),
    chat(
        "tool-names-twice-apart",
        {"tools": [*named("a")["tools"], *named("b")["tools"], *named("a")["tools"]]},
        bad("tools*", "tool-names-unique"),
    ),
    chat("tool-names-differ-in-case", {"tools": [*named("a")["tools"], *named("A")["tools"]]}, ok()),
    chat("tools-many", {"tools": [named(f"f{index}")["tools"][0] for index in range(64)]}, ok()),
    chat("tool-description-null", tool(name="f", description=None), ok()),
    chat("tool-description-empty", tool(name="f", description=""), ok()),
    chat("tool-description-number", tool(name="f", description=5), wrong_type("tools[0].function.description")),
    chat("tool-strict-true", {"tools": [{**WEATHER, "function": {**WEATHER["function"], "strict": True}}]}, ok()),
    chat("tool-strict-false", tool(name="f", strict=False), ok()),
    chat("tool-strict-null", tool(name="f", strict=None), ok()),
    chat("tool-strict-string", tool(name="f", strict="true"), wrong_type("tools[0].function.strict")),
    chat("tool-strict-one", tool(name="f", strict=1), wrong_type("tools[0].function.strict")),
    chat("tool-parameters-empty", tool(name="f", parameters={}), ok()),
    chat("tool-parameters-null", tool(name="f", parameters=None), ok()),
    chat(
        "tool-parameters-free-form",
        tool(name="f", parameters={"type": "object", "properties": {"x": {"default": None}}, "x-mine": [None, 1e300]}),
        ok(),
    ),
    chat("tool-parameters-string", tool(name="f", parameters="{}"), wrong_type("tools[0].function.parameters")),
    chat("tool-parameters-list", tool(name="f", parameters=[]), wrong_type("tools[0].function.parameters")),
    chat("tool-parameters-number", tool(name="f", parameters=5), wrong_type("tools[0].function.parameters")),
    chat(
        "tools-with-part-list-content",
        {"tools": [WEATHER], "messages": said([{"type": "text", "text": "Hi"}])},
        ok(),
    ),
    chat("tools-with-custom-role", {"tools": [WEATHER], "messages": [*said("Be brief.", "critic"), USER]}, ok()),
    chat("tools-with-empty-content", {"tools": [WEATHER], "messages": said("")}, bad("messages[0].content")),
]


def choose(value: Any) -> dict[str, Any]:
    """A change that offers the weather tool and makes this choice."""
    return {"tools": [WEATHER], "tool_choice": value}


NEEDS_TOOLS = bad("tool_choice*", "tool-choice-needs-tools")

CHOICE: list[Row] = [
    chat("choice-none", choose("none"), ok()),
    chat("choice-auto", choose("auto"), ok()),
    chat("choice-required", choose("required"), ok()),
    chat("choice-null", choose(None), ok()),
    chat("choice-named", choose({"type": "function", "function": {"name": "get_weather"}}), ok()),
    chat(
        "choice-named-unknown",
        choose({"type": "function", "function": {"name": "get_time"}}),
        bad("tool_choice*", "tool-choice-names-a-tool"),
    ),
    chat(
        "choice-named-other-case",
        choose({"type": "function", "function": {"name": "GET_WEATHER"}}),
        bad("tool_choice*", "tool-choice-names-a-tool"),
    ),
    chat("choice-unknown-word", choose("sometimes"), bad("tool_choice")),
    chat("choice-other-case", choose("Auto"), bad("tool_choice")),
    chat("choice-empty", choose(""), bad("tool_choice")),
    chat("choice-number", choose(5), wrong_type("tool_choice")),
    chat("choice-boolean", choose(True), wrong_type("tool_choice")),
    chat("choice-list", choose(["auto"]), wrong_type("tool_choice")),
    chat("choice-object-empty", choose({}), bad("tool_choice*")),
    chat("choice-type-missing", choose({"function": {"name": "get_weather"}}), missing("tool_choice.type")),
    chat("choice-function-missing", choose({"type": "function"}), missing("tool_choice.function")),
    chat("choice-function-string", choose({"type": "function", "function": "f"}), wrong_type("tool_choice.function")),
    chat("choice-name-missing", choose({"type": "function", "function": {}}), missing("tool_choice.function.name")),
    chat(
        "choice-name-number",
        choose({"type": "function", "function": {"name": 5}}),
        wrong_type("tool_choice.function.name"),
    ),
    chat(
        "choice-type-unknown",
        choose({"type": "tool", "function": {"name": "get_weather"}}),
        bad(("tool_choice", "tool_choice.type")),
    ),
    chat("choice-required-without-tools", {"tool_choice": "required"}, NEEDS_TOOLS),
    chat("choice-required-with-empty-tools", {"tools": [], "tool_choice": "required"}, NEEDS_TOOLS),
    chat("choice-required-with-null-tools", {"tools": None, "tool_choice": "required"}, NEEDS_TOOLS),
    chat(
        "choice-named-without-tools",
        {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
        bad("tool_choice*", ("tool-choice-needs-tools", "tool-choice-names-a-tool")),
    ),
    chat("choice-none-without-tools", {"tool_choice": "none"}, ok()),
    chat("choice-auto-without-tools", {"tool_choice": "auto"}, ok()),
]

AT = "messages[1].tool_calls[0]"


def calls(**changes: Any) -> dict[str, Any]:
    """A conversation whose assistant called a tool, the call changed or, with DROP, reduced."""
    return answered(tool_calls=[changed(CALL, changes)])


def function(**changes: Any) -> dict[str, Any]:
    """A conversation whose assistant called a tool, the call's function changed or reduced."""
    return calls(function=changed(CALL["function"], changes))


CALLS: list[Row] = [
    chat("calls-two", answered(tool_calls=[CALL, {**CALL, "id": "call_2"}]), ok()),
    chat("calls-string", answered(content="x", tool_calls="get_weather"), wrong_type("messages[1].tool_calls")),
    chat("calls-object", answered(content="x", tool_calls=CALL), wrong_type("messages[1].tool_calls")),
    chat("call-number", answered(tool_calls=[5]), wrong_type(AT)),
    chat("call-null", answered(tool_calls=[None]), bad(AT)),
    chat("call-id-missing", calls(id=DROP), missing(f"{AT}.id")),
    chat("call-id-null", calls(id=None), bad(f"{AT}.id", ("missing", "wrong_type"))),
    chat("call-id-number", calls(id=5), wrong_type(f"{AT}.id")),
    chat("call-type-missing", calls(type=DROP), missing(f"{AT}.type")),
    chat("call-type-unknown", calls(type="retrieval"), bad(f"{AT}.type")),
    chat("call-function-missing", calls(function=DROP), missing(f"{AT}.function")),
    chat("call-function-string", calls(function="get_weather"), wrong_type(f"{AT}.function")),
    chat("call-name-missing", function(name=DROP), missing(f"{AT}.function.name")),
    chat("call-name-number", function(name=5), wrong_type(f"{AT}.function.name")),
    chat("call-arguments-missing", function(arguments=DROP), missing(f"{AT}.function.arguments")),
    chat("call-arguments-null", function(arguments=None), bad(f"{AT}.function.arguments", ("missing", "wrong_type"))),
    chat("call-arguments-object", function(arguments={"city": "Paris"}), wrong_type(f"{AT}.function.arguments")),
    chat("call-arguments-empty", function(arguments=""), ok()),
    chat("call-arguments-empty-object", function(arguments="{}"), ok()),
    chat("call-arguments-no-json", function(arguments="Paris"), ok()),
    chat(
        "second-call-id-missing",
        answered(tool_calls=[CALL, changed(CALL, {"id": DROP})]),
        missing("messages[1].tool_calls[1].id"),
    ),
    chat("call-index-is-unknown", calls(index=0), ok(f"{AT}.index")),
]

ROWS: list[Row] = [*TOOLS, *CHOICE, *CALLS]
