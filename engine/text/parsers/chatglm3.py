"""ChatGLM3: a line with the function's name, then Python: ``tool_call(...)`` with the arguments as keywords, fenced."""

from __future__ import annotations

import ast
import json
from typing import Final

from engine.text.parsers.family import ToolFamily
from engine.text.parsers.glm4 import ASSISTANT, read_name_line
from engine.text.parsers.source import SPACE, NotACall, Reading, Source

_FENCE: Final = "```"
_CALL: Final = "tool_call("
_JSON_NAMES: Final = {"true": True, "false": False, "null": None}
_LONGEST: Final = 65_536
"""Characters of arguments at most: Python's own parser reads them, and it is not made for endless text."""


def _read(source: Source) -> Reading[None]:
    name = yield from read_name_line(source)
    fenced = yield from source.maybe(_FENCE)
    if fenced:
        yield from source.maybe("python")
        yield from source.skip(SPACE)
    yield from source.literal(_CALL)
    arguments = _arguments(source.shown((yield from _to_closing_parenthesis(source)), source.at - 1))
    source.begin_call(name)
    source.add_arguments(arguments)
    source.end_call()
    yield from source.skip(SPACE)
    if fenced and (yield from source.maybe(_FENCE)):
        source.keep()
    else:
        source.at = source.kept


def _to_closing_parenthesis(source: Source) -> Reading[int]:
    """Go past the parenthesis that closes the one just read; returns where the text between them starts."""
    start = source.at
    depth = 1
    quote = ""
    while True:
        character = yield from source.peek()
        if not character or source.at - start > _LONGEST:
            raise NotACall
        source.at += 1
        if quote:
            if character == "\\":
                if not (yield from source.peek()):
                    raise NotACall
                source.at += 1
            elif character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth == 0:
                return start


def _arguments(text: str) -> str:
    """The keywords of a Python call as JSON text. NotACall where they are no plain values.

    Only values written out are read; nothing is run.
    """
    try:
        call = ast.parse(f"f({text}\n)", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise NotACall
        values: dict[str, object] = {}
        for keyword in call.keywords:
            value = ast.literal_eval(_Spelled().visit(keyword.value))
            if keyword.arg is not None:
                values[keyword.arg] = value
            elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
                values |= value
            else:
                raise NotACall
        made = json.dumps(values, ensure_ascii=False, allow_nan=False)
        made.encode()
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise NotACall from None
    return made


class _Spelled(ast.NodeTransformer):
    """Models mix JSON's spelling of true, false and null into their Python."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """The constant that the name means in JSON."""
        return ast.copy_location(ast.Constant(_JSON_NAMES[node.id]), node) if node.id in _JSON_NAMES else node


def _keywords(arguments: dict[str, object]) -> str:
    """Arguments as the text between the parentheses of a call."""
    plain = all(key.isidentifier() for key in arguments)
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items()) if plain else f"**{arguments!r}"


CHATGLM3: Final = ToolFamily(
    name="chatglm3",
    read=_read,
    seen_in=lambda template: "[gMASK]sop" in template,
    openings=(ASSISTANT,),
    at_start=True,
    markers=(ASSISTANT,),
    head=f"{{name}}\n {_FENCE}python\n{_CALL}",
    tail=f")\n{_FENCE}",
    between=ASSISTANT,
    arguments_as=_keywords,
    json_arguments=False,
)
