"""Reads a HAR: what a browser or a proxy recorded of requests and their answers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

import jiter

from handlers import errors, strict_json
from tools.check.jsonl import headers_of
from tools.check.limits import MOST_DEPTH, MOST_HAR_ENTRIES
from tools.check.places import find, items
from tools.check.record import Record, Recorded, Unreadable

_UNBOUNDED = 2**62


def entries(source: str, raw: bytes) -> Iterator[Record | Unreadable]:
    """One record for each entry, in the file's order; what cannot be read is handed over in its place.

    Raises:
        Unreadable: the file as a whole is no HAR, or larger than is read.
    """
    try:
        limits = strict_json.JsonLimits(MOST_DEPTH, _UNBOUNDED, _UNBOUNDED, _UNBOUNDED)
        strict_json.check_shape(raw, limits)
        found = list(jiter.from_json(raw)["log"]["entries"])
        text = raw.decode("utf-8")
    except errors.Problem:
        raise Unreadable(source, None, f"it is nested more than {MOST_DEPTH} levels deep (MOST_DEPTH)") from None
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(source, None, f"it is no HAR: {error}") from None
    if len(found) > MOST_HAR_ENTRIES:
        reason = f"it has {len(found)} entries; at most {MOST_HAR_ENTRIES} are read (MOST_HAR_ENTRIES)"
        raise Unreadable(source, None, reason)
    _, start = find(text, ["log", "entries"])
    places = [place for _, place, _ in items(text, start)]
    if len(places) != len(found):
        raise Unreadable(source, None, "it is no HAR: it has its entries twice")
    line, counted = 1, 0
    for entry, place in zip(found, places, strict=True):
        line, counted = line + text.count("\n", counted, place), place
        try:
            yield _record(source, line, entry, text, place)
        except Unreadable as error:
            yield error


def _record(source: str, line: int, entry: Any, text: str, place: int) -> Record:
    request = entry.get("request") if isinstance(entry, dict) else None
    if not isinstance(request, dict) or not isinstance(request.get("url"), str):
        raise Unreadable(source, line, "the entry has no request with an url")
    sent = request.get("postData")
    sent = sent if isinstance(sent, dict) else {}
    headers = dict(headers_of(request.get("headers"), source, line))
    if sent.get("mimeType") and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = str(sent["mimeType"])
    return Record(
        source,
        line + _lines_to(text, place, ["request", "postData", "text"]),
        _content(sent, source, line) or b"",
        method=str(request.get("method") or "GET"),
        target=request["url"],
        headers=headers,
        answer=_answer(entry.get("response"), source, line, text, place),
    )


def _answer(response: Any, source: str, line: int, text: str, place: int) -> Recorded | None:
    """What was recorded of the answer; None where there was none, as for a request that was given up."""
    if not isinstance(response, dict) or not isinstance(response.get("status"), int) or response["status"] <= 0:
        return None
    content = response.get("content")
    body = _content(content, source, line) if isinstance(content, dict) else None
    headers = dict(headers_of(response.get("headers"), source, line))
    if isinstance(content, dict) and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = str(content.get("mimeType") or "")
    return Recorded(response["status"], headers, body, line + _lines_to(text, place, ["response"]))


def _content(content: Mapping[str, Any], source: str, line: int) -> bytes | None:
    """The bytes of a body; None where they were not recorded.

    Raises:
        Unreadable: they are no Base64 although they are said to be.
    """
    text = content.get("text")
    if not isinstance(text, str):
        return None
    if content.get("encoding") != "base64":
        return text.encode("utf-8", "replace")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Unreadable(source, line, "a body is said to be Base64 and is not") from None


def _lines_to(text: str, place: int, path: list[str | int]) -> int:
    """Lines between an entry and one of its members; 0 in a file of one line, which is not searched again and again."""
    if text.find("\n", place) < 0:
        return 0
    start, _ = find(text, path, place)
    return text.count("\n", place, start)
