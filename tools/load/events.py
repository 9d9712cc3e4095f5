"""Server-sent events, and what a stream of OpenAI-style completion events says about tokens and time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tools.load.client import Exchange, read


class EventParser:
    """Cuts a byte stream into the data of its events, wherever the pieces were cut.

    Lines end with LF, CRLF or CR, several data lines make one event, everything but data is passed over: the
    event-stream format of the HTML standard.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """Add bytes; returns the data of the events that are complete now."""
        if self._after_cr and piece:
            # The second half of a CRLF that was cut in two is no line of its own.
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        text = self._rest + piece
        self._after_cr = text.endswith(b"\r")
        *lines, self._rest = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        events = []
        for line in lines:
            if line:
                name, _, value = line.partition(b":")
                if name == b"data":
                    self._data.append(value.removeprefix(b" "))
            elif self._data:
                events.append(b"\n".join(self._data).decode("utf-8", "replace"))
                self._data = []
        return events


@dataclass(slots=True)
class StreamedAnswer:
    """One streamed completion with one choice, as its client saw it. Times are seconds since the request was sent."""

    failure: str | None = None
    """What went wrong, in a few words; the figures then mean nothing."""
    first_s: float = 0.0
    """The first token's text."""
    last_s: float = 0.0
    """The last token's text."""
    ended_s: float = 0.0
    output_tokens: int = 0
    counted: bool = False
    """The server said how many tokens there were; otherwise events with text were counted."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    text: str = ""
    sent_s: float = 0.0
    """When it was asked for, on a clock that all answers of a load share."""
    times_s: list[float] = field(default_factory=list)
    """Of the events with text."""

    @property
    def gaps_s(self) -> list[float]:
        """Between events with text."""
        return [later - earlier for earlier, later in pairwise(self.times_s)]


def streamed_answer(done: Exchange) -> StreamedAnswer:
    """The figures of one exchange."""
    reply = read(done)
    answer = StreamedAnswer(ended_s=done.ended_s - done.sent_s, sent_s=done.sent_s)
    if reply.status != 200:
        shown = reply.body.decode("utf-8", "replace")[:300]
        answer.failure = f"HTTP {reply.status}: {shown}" if reply.status else f"no answer ({done.ending})"
        return answer
    if not reply.whole:
        answer.failure = f"the stream broke off ({done.ending})"
        return answer
    parser, times, texts = EventParser(), list[float](), list[str]()
    for arrived_s, piece in reply.pieces:
        for data in parser.feed(piece):
            if data == "[DONE]":
                continue
            try:
                text = _take(json.loads(data), answer)
            except (ValueError, TypeError, AttributeError):
                answer.failure = f"an event that is no completion: {data[:200]}"
                return answer
            if answer.failure is not None:
                return answer
            if text:
                times.append(arrived_s - done.sent_s)
                texts.append(text)
    if not times:
        answer.failure = "the stream held no text"
        return answer
    answer.first_s, answer.last_s, answer.text = times[0], times[-1], "".join(texts)
    answer.times_s = times
    if not answer.counted:
        answer.output_tokens = len(times)
    return answer


def _take(event: Any, answer: StreamedAnswer) -> str:
    """Add one event's counts to the answer; returns its text."""
    if event.get("error"):
        answer.failure = f"an error event: {json.dumps(event['error'])[:300]}"
        return ""
    usage = event.get("usage")
    if usage:
        answer.output_tokens, answer.counted = int(usage["completion_tokens"]), True
        answer.prompt_tokens = usage.get("prompt_tokens")
        answer.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    return "".join(choice.get("text") or "" for choice in event.get("choices") or [])
