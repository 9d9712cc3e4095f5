"""The header ``X-Mock``: its directives, and what is wrong with one that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from generated.problems import shown
from handlers.errors import Problem, refused
from tools.mock.faults import FAULTS
from tools.mock.wishes import DURATION, FINISHES, TOKENS, BadWish, Failure, Wish, seconds, token_count

HEADER: Final = "X-Mock"
MAX_HEADER_BYTES: Final = 1024
"""Of all X-Mock headers of a request."""


@dataclass(frozen=True, slots=True)
class Directive:
    """One thing that the header may ask for."""

    allowed: str | None
    """Its values, in words; None where it has none."""
    effect: str
    read: Callable[[str], Mapping[str, Any]]
    """From its value to members of ``Wish``. Raises BadWish."""


def _status(text: str) -> Mapping[str, Any]:
    number, _, code = text.partition("/")
    codes = FAULTS.get(int(number)) if number.isascii() and number.isdecimal() and len(number) == 3 else None
    if codes is None:
        raise BadWish(f"one of {', '.join(map(str, FAULTS))}, also with a code, such as 503/loading")
    if code and code not in codes:
        raise BadWish(f"{number} alone, or with one of its codes: {', '.join(codes)}")
    return {"failure": Failure(int(number), code or None)}


def _finish(text: str) -> Mapping[str, Any]:
    if text not in FINISHES:
        raise BadWish(", ".join(FINISHES))
    return {"finish": text}


DIRECTIVES: Final[Mapping[str, Directive]] = MappingProxyType(
    {
        "status": Directive("a documented error status", "answers with that error", _status),
        "ttft": Directive(
            DURATION, "waits before the first token, or the error", lambda text: {"ttft_s": seconds(text)}
        ),
        "slow-token": Directive(DURATION, "waits between two tokens", lambda text: {"slow_token_s": seconds(text)}),
        "tokens": Directive(
            TOKENS, "makes every choice so long, its last token included", lambda text: {"tokens": token_count(text)}
        ),
        "finish": Directive(", ".join(FINISHES), "ends every choice for this reason", _finish),
        "disconnect-after": Directive(
            TOKENS,
            "cuts the connection after so many tokens of each choice",
            lambda text: {"disconnect_after": token_count(text)},
        ),
        "error-after": Directive(
            TOKENS, "lets the engine fail after so many tokens", lambda text: {"error_after": token_count(text)}
        ),
        "seed-ignored": Directive(None, "draws otherwise for each request", lambda _: {"seed_ignored": True}),
    }
)


def read_header(values: Iterable[bytes]) -> Wish | None:
    """What the X-Mock headers of a request ask for; None where there are none.

    Raises:
        Problem: 422, which names the directive that cannot be read.
    """
    given = list(values)
    if not given:
        return None
    if sum(map(len, given)) > MAX_HEADER_BYTES:
        raise refused("too_long", f"{HEADER} is longer than {MAX_HEADER_BYTES} bytes, the most that is read", HEADER)
    wanted: dict[str, Any] = {}
    seen: set[str] = set()
    for text in b",".join(given).decode("latin-1").replace(";", ",").split(","):
        if not text.strip():
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        directive = DIRECTIVES.get(name)
        if directive is None:
            raise refused("unknown_field", f"{HEADER} has the directive {shown(name)}; there are {_all()}", HEADER)
        if name in seen:
            raise refused("out_of_range", f"{HEADER} has {name} twice; say it once", HEADER)
        seen.add(name)
        if directive.allowed is None and equals:
            raise refused("out_of_range", f"{HEADER}: {name} takes no value; write it alone", HEADER)
        try:
            wanted |= directive.read(value)
        except BadWish as error:
            raise _bad(name, value, str(error)) from None
    if {"disconnect-after", "error-after"} <= seen:
        raise refused("out_of_range", f"{HEADER} has disconnect-after and error-after; an answer ends once", HEADER)
    return replace(Wish(), **wanted)


def _bad(name: str, value: str, allowed: str) -> Problem:
    return refused("out_of_range", f"{HEADER}: {name} was given {shown(value)}; it must be {allowed}", HEADER)


def _all() -> str:
    return ", ".join(name if directive.allowed is None else f"{name}=..." for name, directive in DIRECTIVES.items())
