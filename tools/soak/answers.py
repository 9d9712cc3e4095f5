"""A completion as its client has it, whole or streamed, complete or broken off: its choices, or an error."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tools.load.client import Exchange, read
from tools.load.events import EventParser


@dataclass(slots=True)
class ChoiceSeen:
    """One choice, as far as it came."""

    text: str = ""
    tokens: list[str] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    tops: list[dict[str, float]] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: str | int | None = None

    @property
    def mean_logprob(self) -> float:
        """What best_of and beams rank by."""
        return sum(self.logprobs) / max(1, len(self.logprobs))


@dataclass(slots=True)
class Seen:
    """What came back for one request."""

    choices: dict[int, ChoiceSeen] = field(default_factory=dict)
    error: str | None = None
    """The code of a documented error; other failures are told in words with spaces in them."""
    complete: bool = False
    """Every choice has its finish_reason, and the answer its proper end."""


def seen(done: Exchange, *, stream: bool) -> Seen:
    """Read an exchange; one that we cut short ourselves is incomplete without an error."""
    reply = read(done)
    found = Seen()
    if reply.status == 0:
        found.error = None if done.ending == "cut" else f"no answer: {done.ending}"
        return found
    try:
        if reply.status != 200:
            found.error = str(json.loads(reply.body)["code"]) if reply.whole else f"HTTP {reply.status}, broken off"
        elif not stream:
            if reply.whole:
                _take(json.loads(reply.body), found)
                found.complete = True
        else:
            found.complete = _take_events(b"".join(data for _, data in reply.pieces), found)
    except (ValueError, LookupError, TypeError) as error:
        found.error = f"unreadable: {error!r}"
    if not found.complete and found.error is None and done.ending != "cut":
        found.error = f"broken off: {done.ending}"
    if found.complete and not all(choice.finish_reason for choice in found.choices.values()):
        found.error = "a choice without finish_reason"
    return found


def _take_events(data: bytes, found: Seen) -> bool:
    for event in EventParser().feed(data):
        if event == "[DONE]":
            return found.error is None
        _take(json.loads(event), found)
    return False


def _take(body: dict[str, Any], found: Seen) -> None:
    if "error" in body:
        found.error = str(body["error"]["code"])
        return
    for part in body["choices"]:
        choice = found.choices.setdefault(part["index"], ChoiceSeen())
        choice.text += part["text"]
        logprobs = part.get("logprobs")
        if logprobs:
            choice.tokens += logprobs["tokens"]
            choice.logprobs += logprobs["token_logprobs"]
            choice.tops += logprobs["top_logprobs"]
        if part["finish_reason"] is not None:
            choice.finish_reason, choice.stop_reason = part["finish_reason"], part["stop_reason"]
