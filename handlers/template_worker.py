"""The process that renders chat templates sent in requests: a script of its own, started by template_pool.py.

It imports nothing of ours and runs isolated (``python -I``), so that a template that broke out of Jinja's sandbox would
find a process with little memory, no file it can write, no request of anybody else, and a few seconds to live.

On its pipes each message is a 4-byte big-endian length and that many bytes of JSON. In: ``{"template", "variables",
"max_bytes"}``. Out: ``{"text"}``, ``{"refused": words}`` for the template's own raise_exception, ``{"syntax": line}``
or ``{"failed": "memory" | "output" | "error"}``.
"""

import json
import resource
import struct
import sys
from datetime import datetime
from typing import Any, BinaryIO, NoReturn

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

READY = b"ready"
SPENT = ("memory", "output")
"""Failures after which a process ends."""


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
    made.filters["tojson"] = _to_json
    made.globals.update(raise_exception=_raise, strftime_now=_now, namespace=PlainNamespace)
    return made


def render(made: ImmutableSandboxedEnvironment, request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; a template that is at fault is an answer too."""
    try:
        template = made.from_string(request["template"])
        left: int = request["max_bytes"]
        pieces: list[str] = []
        for piece in template.generate(**request["variables"]):
            left -= len(piece.encode())
            if left < 0:
                return {"failed": "output"}
            pieces.append(piece)
        return {"text": "".join(pieces)}
    except TemplateSyntaxError as error:
        return {"syntax": error.lineno}
    except MemoryError:
        return {"failed": "memory"}
    except TemplateError as error:
        return {"refused": str(error)} if type(error) is TemplateError else {"failed": "error"}
    except Exception:
        return {"failed": "error"}


def main() -> None:
    """Serve requests from stdin until it closes. Argument: the memory limit in bytes."""
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    made = environment()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sink.write(READY)
    sink.flush()
    while (request := _read(source)) is not None:
        answer = render(made, request)
        data = json.dumps(answer).encode()
        sink.write(struct.pack(">I", len(data)) + data)
        sink.flush()
        if answer.get("failed") in SPENT:
            return  # the next request gets a fresh process


def _read(source: BinaryIO) -> dict[str, Any] | None:
    header = source.read(4)
    if len(header) < 4:
        return None
    request: dict[str, Any] = json.loads(source.read(struct.unpack(">I", header)[0]))
    return request


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError("a namespace takes no name that begins with an underscore")


def _raise(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _now(layout: str) -> str:
    return datetime.now().strftime(layout)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter writes <, > and & as escapes for HTML, which would change the prompt.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


if __name__ == "__main__":
    main()
