"""The Jinja of chat templates: the sandbox, its filters and functions, and what went wrong in a render, in words.

The environment gives what templates of published models expect (transformers' ``apply_chat_template`` is the measure):
trimmed blocks, loop controls, plain JSON, ``raise_exception``, ``strftime_now``, ``{% generation %}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError, TemplateRuntimeError, TemplateSyntaxError, UndefinedError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

FaultKind = Literal["refused", "syntax", "undefined", "type", "unsafe", "depth", "memory", "output", "other"]
SPENT: Final[tuple[FaultKind, ...]] = ("memory", "output", "depth")
"""Faults after which a process that rendered somebody else's template ends."""
_FILE: Final = "<template>"
_WORDS_SHOWN: Final = 200
_VALUE_ERRORS: Final = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


class Fault(NamedTuple):
    """Why a template gave no text."""

    kind: FaultKind
    words: str = ""
    """The template's own words ("refused"), or Jinja's and Python's, which name the variable or the types."""
    line: int | None = None
    """Line of the template, from 1, where it is known."""


class GenerationTag(Extension):
    """``{% generation %}`` marks assistant text for training; here it is only its contents."""

    tags = {"generation"}  # noqa: RUF012 - the name and kind that Jinja asks for

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Take the tag's body in its place."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class PlainNamespace(Namespace):
    """Jinja's namespace without names that lead into Python's insides."""

    def __init__(*args: Any, **names: Any) -> None:
        """As Jinja's: mappings and keywords."""
        self = args[0]
        start = dict(*args[1:], **names)
        for name in start:
            _check_name(name)
        Namespace.__init__(self, start)

    def __setitem__(self, name: str, value: Any) -> None:
        """``{% set ns.name = value %}``"""
        _check_name(name)
        super().__setitem__(name, value)


def environment() -> ImmutableSandboxedEnvironment:
    """A sandbox with the filters and functions that chat templates expect."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols], cache_size=0
    )
    made.filters["tojson"] = to_json
    made.globals.update(raise_exception=_raise, strftime_now=_now, namespace=PlainNamespace, dict=_dict)
    return made


def compiled(made: ImmutableSandboxedEnvironment, source: str) -> jinja2.Template | Fault:
    """The template, or why it is none."""
    try:
        return made.from_string(source)
    except Exception as error:
        return fault_of(error)


def run(template: jinja2.Template, variables: Mapping[str, Any], max_bytes: int) -> str | Fault:
    """The rendered text, at most ``max_bytes`` of UTF-8, or why there is none."""
    left = max_bytes
    pieces: list[str] = []
    try:
        for piece in template.generate(variables):
            left -= len(piece.encode("utf-8", "surrogatepass"))
            if left < 0:
                return Fault("output")
            pieces.append(piece)
    except Exception as error:
        return fault_of(error)
    return "".join(pieces)


def fault_of(error: Exception) -> Fault:
    """A failure in words that a client or an operator can act on; never a path or an object's address."""
    if isinstance(error, TemplateSyntaxError):
        return Fault("syntax", _words(error.message or ""), error.lineno)
    line = _line(error)
    if type(error) is TemplateError:
        return Fault("refused", str(error), line)
    if isinstance(error, MemoryError):
        return Fault("memory", line=line)
    if isinstance(error, RecursionError):
        return Fault("depth", line=line)
    if isinstance(error, UndefinedError):
        return Fault("undefined", _words(error.message or ""), line)
    if isinstance(error, SecurityError):
        return Fault("unsafe", _words(error.message or ""), line)
    if isinstance(error, KeyError):  # its text is the key alone
        return Fault("undefined", _words(f"there is no {error}"), line)
    if isinstance(error, (*_VALUE_ERRORS, TemplateRuntimeError)):
        return Fault("type", _words(str(error)), line)
    return Fault("other", line=line)


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON text; Jinja's own filter writes <, > and & as escapes for HTML, which would change the prompt."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _words(text: str) -> str:
    # Python shows values without a text of their own by their address, which is nobody's business.
    if " at 0x" in text:
        return ""
    return text if len(text) <= _WORDS_SHOWN else text[:_WORDS_SHOWN] + "..."


def _line(error: Exception) -> int | None:
    """The innermost line of the template; Jinja has rewritten the traceback to it."""
    line, entry = None, error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == _FILE:
            line = entry.tb_lineno
        entry = entry.tb_next
    return line


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError("a namespace takes no name that begins with an underscore")


def _raise(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _now(layout: str) -> str:
    return datetime.now().strftime(layout)


def _dict(*args: Any, **names: Any) -> dict[Any, Any]:
    return dict(*args, **names)
