"""A template's faults as answers: which field, what is wrong, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from handlers.chat_jinja import Fault, FaultKind
from handlers.errors import Problem, refused
from handlers.template_forms import Conversation, Rendered

_WORDS_SHOWN = 300
_PLAIN: Final[dict[FaultKind, str]] = {
    "syntax": "is not valid Jinja",
    "undefined": "uses a name that these messages, tools and chat_template_kwargs do not define",
    "type": "cannot work with a value of these messages, tools and chat_template_kwargs",
    "unsafe": "asks for something that templates may not reach",
    "depth": "calls itself too often, or is nested too deeply",
    "other": "cannot be rendered with these messages, tools and chat_template_kwargs",
}


@dataclass(frozen=True, slots=True)
class Source:
    """Whose template it is, which decides what a client is told."""

    subject: str
    """How a sentence that begins with it calls it."""
    mention: str
    """How any other sentence calls it."""
    param: str | None
    """The member to blame for its faults."""
    memory_bytes: int
    output_bytes: int


def text_of(made: Rendered, given: Conversation, source: Source) -> str:
    """The rendered text.

    Raises:
        Problem: 422 template_error - a complaint of the template in its words, its fault with the name or the types
            and the line, arguments that are no object, or a role that it left out.
    """
    if made.needs_object is not None:
        index, place = made.needs_object
        path = f"messages[{index}].tool_calls[{place}].function.arguments"
        message = f"{path} must be the text of a JSON object, since {source.mention} reads it as one"
        raise refused("template_error", message, path)
    if made.fault is not None:
        raise _problem(made.fault, source)
    if made.left_out is not None:
        path = f"messages[{made.left_out}].role"
        shown = given.messages[made.left_out]["role"]
        raise refused("template_error", f"{path} is {shown!r}, a role that {source.mention} leaves out", path)
    return made.text


def _problem(fault: Fault, source: Source) -> Problem:
    if fault.kind == "refused":
        return complaint(fault.words)
    if fault.kind == "memory":
        return _broken(source, f"needs more than the {source.memory_bytes} bytes of memory allowed")
    if fault.kind == "output":
        return _broken(source, f"writes more than the {source.output_bytes} bytes allowed")
    where = "" if fault.line is None else f" (line {fault.line})"
    words = f": {_printable(fault.words)}" if fault.words else ""
    return _broken(source, _PLAIN[fault.kind] + where + words)


def complaint(words: str) -> Problem:
    """The 422 for a template's own raise_exception, in its words."""
    shown = words if len(words) <= _WORDS_SHOWN else words[:_WORDS_SHOWN] + "..."
    message = f"The chat template refuses these messages: {_printable(shown)}"
    return refused("template_error", message, "messages")


def _broken(source: Source, what: str) -> Problem:
    return refused("template_error", f"{source.subject} {what}", source.param)


def _printable(text: str) -> str:
    # A template can write half of a surrogate pair, which JSON cannot.
    return text.encode("utf-8", "replace").decode()
