"""How log lines look: text or JSON, one event a line, whatever strings of clients stand in it."""

from __future__ import annotations

import json
import logging
import re
import time
import traceback
from typing import Final

TEXT_MOST: Final = 4096
"""Characters of a message."""
FIELD_MOST: Final = 256
"""Characters of a field's value, unless the field is one of ``LONG_FIELDS``."""
TRACE_MOST: Final = 16384
"""Characters of a stack trace, of which the end is kept."""
PRIVATE: Final = {"private": True}
"""Given as ``extra`` to a line about an exception whose text may hold what a client has sent."""
LONG_FIELDS: Final = frozenset({"prompt", "answer"})

_BARE: Final = re.compile(r"[!#-<>-\[\]-~]+")
"""Values that need no quotes: visible ASCII without the quote, the equals sign and the backslash."""


def clean(text: str, most: int = TEXT_MOST) -> str:
    """``text`` on one line: what is not printable is escaped, what is beyond ``most`` characters is cut."""
    if len(text) > most:
        text = text[:most] + "..."
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


class LogForm(logging.Formatter):
    """What both forms share. A record's own fields are a dict at its attribute ``fields``."""

    def __init__(self, source: str, *, prompts: bool = False) -> None:
        """Args:
        source: the process that writes, "server" or "engine".
        prompts: whether lines may show what clients have sent.
        """
        super().__init__()
        self._source = source
        self._prompts = prompts

    def trace(self, record: logging.LogRecord) -> str | None:
        """The stack trace of a record, if it has one; of a private one only where from it came and its type."""
        if not record.exc_info:
            return None
        kind, error, frames = record.exc_info
        if kind is not None and getattr(record, "private", False) and not self._prompts:
            text = "".join(traceback.format_tb(frames)) + kind.__name__
        else:
            text = "".join(traceback.format_exception(kind, error, frames)).rstrip()
        return text if len(text) <= TRACE_MOST else "..." + text[-TRACE_MOST:]


class TextForm(LogForm):
    """``time LEVEL source logger: message key=value ...``; a stack trace follows on indented lines."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, without its end."""
        parts = [_time(record.created), f"{record.levelname:<7}", self._source]
        parts.append(f"{record.name}: {clean(record.getMessage())}")
        fields: dict[str, object] = getattr(record, "fields", None) or {}
        parts += [f"{key}={_value(key, value)}" for key, value in fields.items() if value is not None]
        line = " ".join(parts)
        trace = self.trace(record)
        if trace is None:
            return line
        return "\n    ".join([line, *(clean(row) for row in trace.split("\n"))])


class JsonForm(LogForm):
    """One object a line: time, level, source, logger, event, then the record's own fields, and ``trace``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of ASCII, without its end."""
        members: dict[str, object] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "source": self._source,
            "logger": record.name,
            "event": _cut(record.getMessage(), TEXT_MOST),
        }
        fields: dict[str, object] = getattr(record, "fields", None) or {}
        for key, value in fields.items():
            if value is not None:
                members[key] = _cut(value, _most(key)) if isinstance(value, str) else value
        trace = self.trace(record)
        if trace is not None:
            members["trace"] = trace
        return json.dumps(members).replace("\x7f", "\\u007f")


LOG_FORMS: Final = {"text": TextForm, "json": JsonForm}


def _time(at_s: float) -> str:
    """UTC with milliseconds, in ISO 8601."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at_s))}.{int(at_s % 1 * 1000):03d}Z"


def _most(key: str) -> int:
    return TEXT_MOST if key in LONG_FIELDS else FIELD_MOST


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "..."


def _value(key: str, value: object) -> str:
    if not isinstance(value, str):
        return str(value)
    if _BARE.fullmatch(value) and len(value) <= FIELD_MOST:
        return value
    # JSON's escapes: a quote or an equals sign in a client's string cannot look like a field of ours.
    return json.dumps(_cut(value, _most(key))).replace("\x7f", "\\u007f")
