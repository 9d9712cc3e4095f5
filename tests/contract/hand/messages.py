"""Rows on messages: roles, content and its emptiness per role, tool results, extras, lengths."""

from __future__ import annotations

from typing import Any

from wire import DROP, Row, bad, chat, missing, ok, refused, said, too_long, wrong_type

MIB4 = 4194304
USER: dict[str, Any] = {"role": "user", "content": "Hi"}
CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}


def talk(*messages: Any) -> dict[str, Any]:
    """A change that sets the conversation."""
    return {"messages": list(messages)}


def answered(**assistant: Any) -> dict[str, Any]:
    """A user's question, an assistant's message with these fields, a user's next question."""
    return talk(USER, {"role": "assistant", **assistant}, USER)


def called(tool: dict[str, Any]) -> dict[str, Any]:
    """A question, an assistant's tool call, and this tool message."""
    return talk(USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, tool)


LIST: list[Row] = [
    chat("messages-missing", {"messages": DROP}, missing("messages")),
    chat("messages-null", {"messages": None}, bad("messages", ("missing", "wrong_type"))),
    chat("messages-empty", talk(), bad("messages")),
    chat("messages-string", {"messages": "Hi"}, wrong_type("messages")),
    chat("messages-object", {"messages": USER}, wrong_type("messages")),
    chat("messages-number", {"messages": 5}, wrong_type("messages")),
    chat("message-number", talk(5), wrong_type("messages[0]")),
    chat("message-string", talk("Hi"), wrong_type("messages[0]")),
    chat("message-list", talk([USER]), wrong_type("messages[0]")),
    chat("message-null", talk(None), bad("messages[0]")),
    chat("second-message-null", talk(USER, None), bad("messages[1]")),
    chat("messages-hundred", talk(*[USER] * 100), ok()),
]

ROLES: list[Row] = [
    chat("role-missing", talk({"content": "Hi"}), missing("messages[0].role")),
    chat("role-null", talk({"role": None, "content": "Hi"}), bad("messages[0].role", ("missing", "wrong_type"))),
    chat("role-empty", {"messages": said("Hi", "")}, bad("messages[0].role")),
    chat("role-number", talk({"role": 5, "content": "Hi"}), wrong_type("messages[0].role")),
    chat("role-list", talk({"role": ["user"], "content": "Hi"}), wrong_type("messages[0].role")),
    chat("role-system", talk({"role": "system", "content": "Be brief."}, USER), ok()),
    chat("role-assistant", answered(content="Hello"), ok()),
    chat("role-developer", talk({"role": "developer", "content": "Be brief."}, USER), ok()),
    chat("role-custom", talk({"role": "critic", "content": "Too long."}, USER), ok()),
    chat("role-longest", talk({"role": "r" * 64, "content": "Hi"}, USER), ok()),
    chat("role-too-long", talk({"role": "r" * 65, "content": "Hi"}, USER), too_long("messages[0].role")),
    chat("role-too-long-later", talk(USER, {"role": "r" * 65, "content": "Hi"}), too_long("messages[1].role")),
]

EMPTY = bad("messages[0].content", "content-required")
EMPTY_ASSISTANT = bad(("messages[1].content", "messages[1].tool_calls"), "assistant-content-or-tool-calls")

CONTENT: list[Row] = [
    chat("content-blank", {"messages": said(" ")}, ok()),
    chat("content-chinese", {"messages": said("你好")}, ok()),
    chat("content-part-list", {"messages": said([{"type": "text", "text": "Hi"}])}, ok()),
    chat("content-number", {"messages": said(5)}, wrong_type("messages[0].content")),
    chat("content-boolean", {"messages": said(True)}, wrong_type("messages[0].content")),
    chat("content-object", {"messages": said({"text": "Hi"})}, wrong_type("messages[0].content")),
    chat("content-string-part", {"messages": said(["Hi"])}, wrong_type("messages[0].content[0]")),
    chat("content-null-part", {"messages": said([None])}, bad("messages[0].content[0]")),
    chat("content-list-part", {"messages": said([[]])}, wrong_type("messages[0].content[0]")),
    chat("user-content-empty", {"messages": said("")}, EMPTY),
    chat("user-content-empty-list", {"messages": said([])}, EMPTY),
    chat("user-content-null", {"messages": said(None)}, EMPTY),
    chat("user-content-absent", talk({"role": "user"}), EMPTY),
    chat("system-content-empty", talk({"role": "system", "content": ""}, USER), EMPTY),
    chat("system-content-empty-list", talk({"role": "system", "content": []}, USER), EMPTY),
    chat("system-content-null", talk({"role": "system", "content": None}, USER), EMPTY),
    chat("system-content-absent", talk({"role": "system"}, USER), EMPTY),
    chat("custom-role-content-empty", talk({"role": "critic", "content": ""}, USER), EMPTY),
    chat("developer-content-empty", talk({"role": "developer", "content": ""}, USER), EMPTY),
    chat(
        "later-content-empty",
        talk(USER, {"role": "user", "content": ""}),
        bad("messages[1].content", "content-required"),
    ),
    chat("assistant-content-list", answered(content=[{"type": "text", "text": "Hello"}]), ok()),
    chat("assistant-content-empty", answered(content=""), EMPTY_ASSISTANT),
    chat("assistant-content-empty-list", answered(content=[]), EMPTY_ASSISTANT),
    chat("assistant-content-null", answered(content=None), EMPTY_ASSISTANT),
    chat("assistant-content-absent", answered(), EMPTY_ASSISTANT),
    chat("assistant-content-empty-calls-null", answered(content="", tool_calls=None), EMPTY_ASSISTANT),
    chat("assistant-content-empty-calls-empty", answered(content="", tool_calls=[]), bad("messages[1]*")),
    chat("assistant-content-with-calls-empty", answered(content="Hello", tool_calls=[]), ok()),
    chat("assistant-calls-and-content", answered(content="Let me see.", tool_calls=[CALL]), ok()),
    chat("assistant-calls-content-empty", answered(content="", tool_calls=[CALL]), ok()),
    chat("assistant-calls-content-empty-list", answered(content=[], tool_calls=[CALL]), ok()),
    chat("assistant-calls-content-null", answered(content=None, tool_calls=[CALL]), ok()),
    chat("assistant-calls-content-absent", answered(tool_calls=[CALL]), ok()),
]

NEEDS_ID = bad("messages[2].tool_call_id", "tool-message-needs-call-id")

TOOL_ROLE: list[Row] = [
    chat("tool-result", called({"role": "tool", "tool_call_id": "call_1", "content": "sunny"}), ok()),
    chat(
        "tool-result-parts",
        called({"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "sunny"}]}),
        ok(),
    ),
    chat("tool-result-empty", called({"role": "tool", "tool_call_id": "call_1", "content": ""}), ok()),
    chat("tool-result-empty-list", called({"role": "tool", "tool_call_id": "call_1", "content": []}), ok()),
    chat("tool-result-null", called({"role": "tool", "tool_call_id": "call_1", "content": None}), ok()),
    chat("tool-result-absent", called({"role": "tool", "tool_call_id": "call_1"}), ok()),
    chat("tool-result-without-id", called({"role": "tool", "content": "sunny"}), NEEDS_ID),
    chat("tool-result-id-null", called({"role": "tool", "tool_call_id": None, "content": "sunny"}), NEEDS_ID),
    chat(
        "tool-result-id-number",
        called({"role": "tool", "tool_call_id": 1, "content": "sunny"}),
        wrong_type("messages[2].tool_call_id"),
    ),
    chat("user-with-tool-call-id", talk({**USER, "tool_call_id": "call_1"}), ok()),
    chat("user-with-tool-call-id-null", talk({**USER, "tool_call_id": None}), ok()),
    chat("user-with-tool-call-id-number", talk({**USER, "tool_call_id": 7}), wrong_type("messages[0].tool_call_id")),
]

EXTRAS: list[Row] = [
    chat("assistant-reasoning", answered(content="4", reasoning_content="2 + 2"), ok()),
    chat("assistant-reasoning-null", answered(content="4", reasoning_content=None), ok()),
    chat("assistant-reasoning-empty", answered(content="4", reasoning_content=""), ok()),
    chat(
        "assistant-reasoning-number",
        answered(content="4", reasoning_content=4),
        wrong_type("messages[1].reasoning_content"),
    ),
    chat("assistant-name", answered(content="4", name="bob"), ok()),
    chat("assistant-refusal-null", answered(content="4", refusal=None), ok()),
    chat("assistant-refusal", answered(content="4", refusal="I would rather not."), ok()),
    chat("user-name", talk({**USER, "name": "alice"}), ok()),
]

TOO_MUCH = bad("messages*", "messages-total-length")
TOO_MANY_TOKENS = refused(424, "prompt_too_long")


def _half(extra: int) -> dict[str, Any]:
    """Two messages and two parts which hold 4194304 + extra code points together."""
    quarter = MIB4 // 4
    parts = [{"type": "text", "text": "b" * quarter}, {"type": "text", "text": "c" * (quarter + extra)}]
    return talk({"role": "system", "content": "a" * (2 * quarter)}, {"role": "user", "content": parts})


LENGTHS: list[Row] = [
    chat("messages-longest-is-too-many-tokens", _half(0), TOO_MANY_TOKENS),
    chat("messages-one-code-point-too-long", _half(1), TOO_MUCH),
    chat("message-one-code-point-too-long", {"messages": said("a" * (MIB4 + 1))}, TOO_MUCH),
    chat("chinese-counted-in-code-points", {"messages": said("字" * (MIB4 // 3 + 8))}, TOO_MANY_TOKENS),
    chat("prompt-too-long-for-deployment", {"messages": said("word " * 400)}, TOO_MANY_TOKENS, max_input_token_len=64),
    chat("prompt-fits-deployment", {"messages": said("Hi")}, ok(), max_input_token_len=2000),
]

ROWS: list[Row] = [*LIST, *ROLES, *CONTENT, *TOOL_ROLE, *EXTRAS, *LENGTHS]
