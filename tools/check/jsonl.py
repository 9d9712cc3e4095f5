"""Reads JSON Lines: a body in each line, or a record of a request with its body and perhaps its answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import jiter

from tools.check.limits import MOST_LINE_BYTES
from tools.check.places import value_text
from tools.check.record import Record, Recorded, Unreadable

_AROUND: Final = frozenset({"path", "url", "method", "headers", "answer", "response", "custom_id", "status"})
"""Members that a record has beside ``body``."""
_BODIES: Final = frozenset({"messages", "prompt", "model"})


def records(source: str, lines: Iterable[bytes]) -> Iterator[Record | Unreadable]:
    """One record for each line that is not empty; what cannot be read is handed over in its place."""
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped:
            continue
        if len(line) > MOST_LINE_BYTES:
            yield Unreadable(source, number, f"the line is longer than {MOST_LINE_BYTES} bytes (MOST_LINE_BYTES)")
            continue
        try:
            yield record(source, number, stripped)
        except Unreadable as error:
            yield error


def is_record(value: Any) -> bool:
    """Whether an object is a request with a body in it, and not a body itself."""
    return isinstance(value, dict) and "body" in value and bool(_AROUND & set(value)) and not _BODIES & set(value)


def record(source: str, number: int, raw: bytes) -> Record:
    """The record in a line, or in a file that holds nothing else.

    Raises:
        Unreadable: a member of a record has another type than it needs.
    """
    try:
        value = jiter.from_json(raw, allow_inf_nan=True)
    except ValueError:
        return Record(source, number, raw, in_place=True)  # its client sent no JSON, which the judge will say
    if not is_record(value):
        return Record(source, number, raw, in_place=True)
    text = raw.decode("utf-8")
    target = value.get("path") or value.get("url")
    if target is not None and not isinstance(target, str):
        raise Unreadable(source, number, "path or url of the record is no text")
    return Record(
        source,
        number,
        _bytes_of(value["body"], text, ["body"]),
        method=str(value.get("method") or "POST"),
        target=target,
        headers=headers_of(value.get("headers"), source, number),
        answer=_answer(value, text, source, number),
    )


def headers_of(value: Any, source: str, line: int) -> Mapping[str, str]:
    """Headers given as an object or as a list of objects with name and value; those of HTTP/2 itself are left out.

    Raises:
        Unreadable: they are something else.
    """
    if value is None:
        return {}
    if isinstance(value, dict):
        pairs = [(str(name), given) for name, given in value.items()]
    elif isinstance(value, list) and all(isinstance(one, dict) and "name" in one for one in value):
        pairs = [(str(one["name"]), one.get("value", "")) for one in value]
    else:
        raise Unreadable(source, line, "headers are neither an object nor a list of name and value")
    return {name: str(given) for name, given in pairs if not name.startswith(":")}


def _answer(value: dict[str, Any], text: str, source: str, number: int) -> Recorded | None:
    """``answer`` or ``response``: an object of status, headers and body; without them the body of a 200."""
    name = "answer" if "answer" in value else "response"
    given = value.get(name)
    if given is None:
        return None
    if isinstance(given, dict) and ("body" in given or "status" in given or "status_code" in given):
        status = _status(given.get("status", given.get("status_code", 200)), name, source, number)
        headers = headers_of(given.get("headers"), source, number)
        body = _bytes_of(given["body"], text, [name, "body"]) if given.get("body") is not None else None
    else:
        status = _status(value.get("status") or 200, name, source, number)
        headers, body = {}, _bytes_of(given, text, [name])
    if not any(key.lower() == "content-type" for key in headers):
        events = body is not None and body.lstrip().startswith((b"data:", b"event:", b":"))
        kind = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"} if events else {}
        headers = {**headers, **kind, "Content-Type": "text/event-stream" if events else "application/json"}
    return Recorded(status, headers, body, number)


def _status(given: Any, name: str, source: str, number: int) -> int:
    """A status as a number, or as its three digits in text."""
    if isinstance(given, str) and len(given) == 3 and given.isascii() and given.isdigit():
        return int(given)
    if isinstance(given, bool) or not isinstance(given, int):
        raise Unreadable(source, number, f"the status of the {name} is no number")
    return given


def _bytes_of(value: Any, text: str, path: list[str | int]) -> bytes:
    """A body: text as it is, anything else as it was written in the record."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    try:
        written = value_text(text, path)
    except (ValueError, RecursionError):
        written = json.dumps(value, ensure_ascii=False)
    return written.encode("utf-8", "replace")
