"""What somebody wants of one answer, whoever says it: the header ``X-Mock`` or a rule of a script."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

Finish = Literal["stop", "length", "tool_calls"]
FINISHES: Final = ("stop", "length", "tool_calls")

MAX_DELAY_S: Final = 600.0
"""The longest delay that may be asked for, in seconds."""
MAX_TOKENS: Final = 1_000_000
"""The most tokens that may be asked for, or counted to."""

DURATION: Final = f"a time such as 200ms or 1.5s, at most {MAX_DELAY_S:g}s"
TOKENS: Final = f"a whole number from 1 to {MAX_TOKENS}"
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|s)")


class BadWish(ValueError):
    """A value that cannot be had; the message says what is allowed."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call to write."""

    name: str
    arguments: dict[str, Any] | str
    """An object, or the text as the model writes it, which may be wrong."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error answer."""

    status: int
    code: str | None = None
    """One of the codes that this status has; the commonest if None."""
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """Everything that may be wanted; None, and False, ask for nothing."""

    failure: Failure | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[Call, ...] | None = None
    finish: Finish | None = None
    tokens: int | None = None
    """Of each choice, the token that ends it included."""
    cached_tokens: int | None = None
    ttft_s: float | None = None
    """Until the first token, or the error answer."""
    slow_token_s: float | None = None
    """Between two tokens."""
    disconnect_after: int | None = None
    """Tokens of each choice, after which the connection is cut."""
    error_after: int | None = None
    """The same, after which the engine fails."""
    seed_ignored: bool = False

    def over(self, other: Wish) -> Wish:
        """Both, where this one wins."""
        plain = Wish()
        wanted = {
            field.name: value
            for field in fields(Wish)
            if (value := getattr(self, field.name)) != getattr(plain, field.name)
        }
        return replace(other, **wanted)

    @property
    def writes(self) -> bool:
        """It says something of the text."""
        return any(part is not None for part in (self.content, self.reasoning_content, self.tool_calls))


def seconds(text: str) -> float:
    """A time in seconds. Raises BadWish."""
    found = _DURATION.fullmatch(text)
    value = math.nan if found is None else float(found[1]) / (1000 if found[2] == "ms" else 1)
    if not value <= MAX_DELAY_S:
        raise BadWish(DURATION)
    return value


def token_count(text: str) -> int:
    """A number of tokens. Raises BadWish."""
    if not re.fullmatch(r"[0-9]{1,7}", text) or not 1 <= int(text) <= MAX_TOKENS:
        raise BadWish(TOKENS)
    return int(text)
