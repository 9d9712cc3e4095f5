"""The text of a tool call that an engine is told to write, for tool_choice required or a named tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engine.text.parsers.family import ToolFamily
from generated.models import ChatCompletionRequest, NamedToolChoice
from handlers.errors import refused
from handlers.messages import tools_in_use

_MAX_DEPTH: Final = 8
_EMPTY: Final[Mapping[str, Any]] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "array": [],
    "object": {},
    "null": None,
}


def forced_text(body: ChatCompletionRequest, family: ToolFamily | None, engine_can: bool) -> str | None:
    """The call that tool_choice asks for: the named tool, or with "required" the first one; None where it asks none.

    It is written as models of ``family`` write it.

    The arguments are the smallest that the tool's schema plainly allows.

    Raises:
        Problem: 422 unsupported, naming tool_choice, where the engine cannot be held to a call; 422 out_of_range for
            arguments that JSON cannot write.
    """
    choice = body.tool_choice
    if not tools_in_use(body) or not body.tools or choice is None or choice == "auto":
        return None
    if not engine_can or family is None:
        reason = "this engine cannot be held to a tool call" if family else "this deployment reads no tool calls"
        raise refused("unsupported", f"tool_choice can be none or auto here: {reason}", "tool_choice")
    wanted = choice.function.name if isinstance(choice, NamedToolChoice) else body.tools[0].function.name
    index, tool = next((index, tool) for index, tool in enumerate(body.tools) if tool.function.name == wanted)
    arguments = smallest(tool.function.parameters or {"type": "object"})
    try:
        return family.write(wanted, arguments if isinstance(arguments, dict) else {})
    except ValueError:  # such as 1e400, which is infinite as a double
        param = f"tools[{index}].function.parameters"
        raise refused("out_of_range", f"{param} asks for a number beyond the range of a double", param) from None


def refuse_strict(body: ChatCompletionRequest, engine_can: bool) -> None:
    """Refuse ``function.strict`` where nothing holds the arguments to their schema.

    Raises:
        Problem: 422 unsupported, naming the tool.
    """
    if engine_can or not tools_in_use(body):
        return
    for index, tool in enumerate(body.tools or ()):
        if tool.function.strict:
            param = f"tools[{index}].function.strict"
            message = f"{param} must be false or absent here: this engine cannot hold arguments to a schema"
            raise refused("unsupported", message, param)


def smallest(schema: Any, depth: int = 0) -> Any:
    """A small value for a JSON schema: its const, first enum value, default or minimum, else an empty value.

    Only required properties are filled in. Good for a mock; it is no schema solver.
    """
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return {}
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[0]
    kind = schema.get("type", "object")
    if isinstance(kind, list):
        kind = kind[0] if kind else "object"
    if kind in ("integer", "number") and isinstance(schema.get("minimum"), int | float):
        return schema["minimum"]
    if kind == "object":
        properties = schema.get("properties")
        required = schema.get("required")
        if isinstance(properties, Mapping) and isinstance(required, list):
            names = dict.fromkeys(name for name in required if isinstance(name, str))
            return {name: smallest(properties.get(name, {}), depth + 1) for name in names}
    return _EMPTY.get(kind, {}) if isinstance(kind, str) else {}
