"""The laws of a choice that has ended, whole or streamed: its text, its tool calls, and why it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from generated.problems import shown
from tools.laws.asked import Asked
from tools.laws.breach import Breach
from tools.laws.table import broken


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Said:
    """A choice that has ended."""

    where: str
    """Its path, such as ``choices[0]``."""
    text: str | None
    """Its content or text; None where it is too long to be kept."""
    calls: Sequence[Call]
    finish: str
    stop_reason: Any = None


def breaches(said: Said, asked: Asked) -> list[Breach]:
    """Every law that the choice breaks."""
    return [*_finish(said, asked), *_calls(said, asked), *_stop(said, asked), *_json(said, asked)]


def _finish(said: Said, asked: Asked) -> Iterator[Breach]:
    field = f"{said.where}.finish_reason"
    if said.finish == "tool_calls" and not said.calls:
        yield broken("finish-fits", field, f"{field} is tool_calls, but the choice has none")
    if said.finish == "stop" and said.calls:
        yield broken("finish-fits", field, f"{field} is stop, but the choice calls tools; it must be tool_calls")


def _calls(said: Said, asked: Asked) -> Iterator[Breach]:
    field = f"{said.where}.tool_calls"
    if asked.sure:
        unasked = next((call.name for call in said.calls if call.name not in asked.tools), None)
        if unasked is not None:
            listed = f"the request lists {', '.join(sorted(asked.tools))}" if asked.tools else "no tools are in use"
            yield broken("tool-call-asked", field, f"{field} calls {shown(unasked)}, but {listed}")
    ids = [call.id for call in said.calls]
    if len(set(ids)) < len(ids) or "" in ids:
        yield broken("tool-call-ids", field, f"{field} has an id that is empty or there twice")
    if said.finish == "tool_calls":
        for call in said.calls:
            if not isinstance(_parsed(call.arguments), dict):
                message = f"{field} has the arguments {shown(call.arguments)}; they must be a JSON object"
                yield broken("tool-call-arguments", field, message)
                break


def _stop(said: Said, asked: Asked) -> Iterator[Breach]:
    reason, field = said.stop_reason, f"{said.where}.stop_reason"
    if reason is not None:
        known = reason in asked.stop if isinstance(reason, str) else reason in asked.stop_token_ids
        if said.finish != "stop" or (asked.sure and not known):
            message = f"{field} is {shown(reason)}; it must be a stop of the request, with finish_reason stop, or null"
            yield broken("stop-reason-fits", field, message)
            return
    if said.text is None:
        return
    field = f"{said.where}.message.content" if asked.chat else f"{said.where}.text"
    for stop in asked.stop:
        place = said.text.find(stop)
        if place >= 0 and not (asked.include_stop and place + len(stop) == len(said.text)):
            wanted = "the text must end with it" if asked.include_stop else "it must be cut off"
            yield broken("stop-text-absent", field, f"{field} has the stop text {shown(stop, 40)}; {wanted}")
            return
    if asked.include_stop and isinstance(reason, str) and not said.text.endswith(reason):
        yield broken("stop-text-absent", field, f"{field} does not end with the stop text that was to be included")


def _json(said: Said, asked: Asked) -> Iterator[Breach]:
    by_itself = said.finish == "stop" and not asked.stop and not asked.stop_token_ids and not said.calls
    if asked.json_answer and by_itself and said.text is not None and _parsed(said.text) is None:
        field = f"{said.where}.message.content" if asked.chat else f"{said.where}.text"
        yield broken("json-answer-parses", field, f"{field} is {shown(said.text)}, which is no JSON")


def _parsed(text: str) -> Any:
    """The value of a JSON text other than null; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
