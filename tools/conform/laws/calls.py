"""Tool calls and answers held to a schema: who is called, with which arguments, and when nobody is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from jsonschema import Draft202012Validator

from tools.conform.asking import Ask
from tools.conform.features import FORM, NAMED, OTHER_TOOL, TOOL
from tools.conform.law import Finding, Law, Skip, both
from tools.conform.replies import Reply
from tools.conform.sides import CHAT, Side

_MOST: Final = 160
"""Tokens: enough for any call of the two tools."""
_SCHEMAS: Final = {tool["function"]["name"]: tool["function"]["parameters"] for tool in (TOOL, OTHER_TOOL)}


def _called(reply: Reply) -> str | None:
    """What is wrong with the calls of an answer that has to call; None where nothing is."""
    choice = reply.only
    if choice.finish == "length":
        raise Skip(f"the call was not whole after {_MOST} tokens")
    if not choice.calls:
        return f"no tool was called; the answer is {choice.text[:80]!r} with {choice.finish!r}"
    if choice.finish != "tool_calls":
        return f"an answer that calls a tool has finish_reason {choice.finish!r}"
    for call in choice.calls:
        if call.name not in _SCHEMAS:
            return f"{call.name!r} is none of the tools"
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            return f"the arguments {call.arguments[:80]!r} are no JSON"
        if not Draft202012Validator(_SCHEMAS[call.name]).is_valid(arguments):
            return f"the arguments {call.arguments[:80]!r} do not validate under the tool's parameters"
    ids = [call.id for call in choice.calls]
    return "calls need ids of their own" if not all(ids) or len(set(ids)) < len(ids) else None


def _named(ask: Ask, side: Side) -> Iterator[Finding]:
    for tool in (TOOL, OTHER_TOOL):
        name = tool["function"]["name"]
        wanted = {**NAMED, "function": {"name": name}}
        for fields in ({}, {"stream": True}, {"temperature": 1.0, "seed": 3}):
            reply = _ask(ask, wanted, **fields)
            wrong = _called(reply)
            if wrong is None and {call.name for call in reply.only.calls} != {name}:
                wrong = f"{name} had to be called, not {[call.name for call in reply.only.calls]}"
            if wrong is not None:
                yield Finding(wrong, (reply.exchange,))


def _required(ask: Ask, side: Side) -> Iterator[Finding]:
    for fields in ({}, {"stream": True}, {"temperature": 1.0, "seed": 4}):
        reply = _ask(ask, "required", **fields)
        if (wrong := _called(reply)) is not None:
            yield Finding(wrong, (reply.exchange,))


def _ask(ask: Ask, choice: Any, **fields: Any) -> Reply:
    given: dict[str, Any] = {"temperature": 0, "max_tokens": _MOST, "parallel_tool_calls": False}
    body = CHAT.body(ask.target.model, "Turn on the red light.")
    return ask.reply(CHAT, **body, **{**given, "tools": [TOOL, OTHER_TOOL], "tool_choice": choice, **fields})


def _none(ask: Ask, side: Side) -> Iterator[Finding]:
    for fields in ({}, {"stream": True}):
        reply = _ask(ask, "none", max_tokens=40, **fields)
        if reply.only.calls or reply.only.finish == "tool_calls":
            yield Finding("with tool_choice none a tool is called", (reply.exchange,))


def _single(ask: Ask, side: Side) -> Iterator[Finding]:
    for fields in ({}, {"stream": True}):
        reply = _ask(ask, "required", **fields)
        if len(reply.only.calls) > 1:
            yield Finding(f"parallel_tool_calls false gave {len(reply.only.calls)} calls", (reply.exchange,))


def _no_calls(ask: Ask, side: Side) -> Iterator[Finding]:
    reply = ask.reply(CHAT, temperature=0, max_tokens=4)
    found = json.loads(reply.exchange.got.body)["choices"][0].get("message", {}).get("tool_calls", "absent")
    if found != []:
        yield Finding(f"tool_calls of an answer without calls is {found!r}, not []", (reply.exchange,))


def _schema(ask: Ask, side: Side) -> Iterator[Finding]:
    validator = Draft202012Validator(FORM["json_schema"]["schema"])
    for fields in ({}, {"stream": True}, {"temperature": 1.0, "seed": 5}):
        reply = ask.reply(side, **{"temperature": 0, "max_tokens": _MOST, "response_format": FORM, **fields})
        choice = reply.only
        if choice.finish == "length":
            raise Skip(f"the answer was not whole after {_MOST} tokens")
        try:
            valid = validator.is_valid(json.loads(choice.text))
        except ValueError:
            valid = False
        if not valid:
            yield Finding(f"{choice.text[:100]!r} does not validate under the schema", (reply.exchange,))


LAWS: Final[list[Law]] = [
    Law("calls.named", "A named tool is called, with arguments that validate.", "tool_choice", _named,
        ("named_tool", "greedy", "stream")),
    Law("calls.required", "With required a tool is called, with arguments that validate.", "tool_choice", _required,
        ("required_tool", "greedy", "stream")),
    Law("calls.none", "With none no tool is called.", "tool_choice", _none, ("tools", "greedy", "stream")),
    Law("calls.single", "parallel_tool_calls false allows one call.", "parallel_tool_calls", _single,
        ("required_tool", "greedy", "stream")),
    Law("calls.empty", "An answer without calls has an empty list of them.", "tool_calls", _no_calls, ("greedy",)),
    *both("calls.schema", "An answer that is held to a schema validates.", "response_format", _schema,
          ("response_format", "greedy", "stream")),
]  # fmt: skip
