"""Reads answers of any server into one form, whole or streamed; what is missing is None and never a crash."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tools.conform.law import Finding, Unanswered
from tools.conform.wire import Exchange

Json = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A token that could have come at a position."""

    text: str
    logprob: float
    raw: bytes | None = None


@dataclass(frozen=True)
class Token:
    """A generated token and its candidates."""

    text: str
    logprob: float
    top: tuple[Candidate, ...] = ()
    raw: bytes | None = None
    """Chat only: its bytes."""
    offset: int | None = None
    """Completions only: where its text begins."""


@dataclass
class Call:
    """A tool call."""

    name: str = ""
    arguments: str = ""
    id: str = ""


@dataclass
class Choice:
    """One choice, with what its events said joined."""

    index: Any
    text: str = ""
    finish: str | None = None
    stop_reason: Any = None
    tokens: list[Token] = field(default_factory=list)
    has_logprobs: bool = False
    calls: list[Call] = field(default_factory=list)
    usage: Json | None = None
    """Of a stream: that of its last event."""


@dataclass
class Reply:
    """An answer of 200."""

    exchange: Exchange
    id: Any
    model: Any
    choices: list[Choice]
    usage: Json | None
    """Of a stream: the sum over its choices, or what an event without choices said."""
    events: list[Any] = field(default_factory=list)
    """Of a stream: the parsed events, without the end mark."""

    @property
    def texts(self) -> list[str]:
        """Of all choices, in order."""
        return [choice.text for choice in self.choices]

    @property
    def only(self) -> Choice:
        """The one choice. Raises Unanswered where there is another number."""
        if len(self.choices) != 1:
            raise self.wrong(f"one choice was asked for, {len(self.choices)} came")
        return self.choices[0]

    @property
    def completion_tokens(self) -> int:
        """Of all choices together."""
        return self._count("completion_tokens")

    @property
    def prompt_tokens(self) -> int:
        """Of the prompt."""
        return self._count("prompt_tokens")

    def _count(self, name: str) -> int:
        found = (self.usage or {}).get(name)
        if type(found) is not int:
            raise self.wrong(f"usage.{name} is missing or no integer")
        return found

    def wrong(self, message: str) -> Unanswered:
        """An exception that makes the law fail with this message."""
        return Unanswered(Finding(message, (self.exchange,)))


def event_data(body: bytes) -> list[bytes]:
    """The data of each event of a stream, in order; what is no data line is passed over."""
    blocks = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n")
    found = []
    for block in blocks:
        lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
        if lines:
            found.append(b"\n".join(lines))
    return found


def read(exchange: Exchange) -> Reply:
    """An answer of either kind. Raises Unanswered where it cannot be one."""
    got = exchange.got
    if got.fault:
        raise Unanswered(Finding(f"no whole answer came: {got.fault}", (exchange,)))
    if got.status != 200:
        raise Unanswered(Finding(f"the answer is {got.status}, not 200: {shown(got.body)}", (exchange,)))
    try:
        if got.kind == "text/event-stream":
            return _stream(exchange)
        return _whole(exchange, json.loads(got.body))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        message = f"the answer has no form that can be read ({type(error).__name__}: {error}): {shown(got.body)}"
        raise Unanswered(Finding(message[:400], (exchange,))) from None


def _whole(exchange: Exchange, answer: Json) -> Reply:
    choices = []
    for found in answer["choices"]:
        choice = Choice(found.get("index"))
        message = found.get("message") or {}
        _take_text(choice, found.get("text") if "text" in found else message.get("content"))
        for call in message.get("tool_calls") or []:
            function = call["function"]
            choice.calls.append(Call(function["name"], function["arguments"], call.get("id") or ""))
        _take(choice, found)
        choices.append(choice)
    return Reply(exchange, answer.get("id"), answer.get("model"), choices, answer.get("usage"))


def _stream(exchange: Exchange) -> Reply:
    events = [json.loads(data) for data in event_data(exchange.got.body) if data != b"[DONE]"]
    choices: dict[Any, Choice] = {}
    total: Json | None = None
    for event in events:
        if "choices" not in event:
            raise Unanswered(Finding(f"the stream failed: {shown(json.dumps(event).encode())}", (exchange,)))
        if not event["choices"] and event.get("usage"):
            total = event["usage"]
        for found in event["choices"]:
            choice = choices.setdefault(found.get("index"), Choice(found.get("index")))
            delta = found.get("delta") or {}
            _take_text(choice, found.get("text") if "text" in found else delta.get("content"))
            for piece in delta.get("tool_calls") or []:
                _take_call(choice, piece)
            _take(choice, found)
            if event.get("usage"):
                choice.usage = event["usage"]
                total = event["usage"] if len(event["choices"]) > 1 else total
    ordered = list(choices.values())
    ids = {event.get("id") for event in events}
    one = ids.pop() if len(ids) == 1 else None
    return Reply(exchange, one, events[0].get("model") if events else None, ordered, total or _sum(ordered), events)


def _sum(choices: list[Choice]) -> Json | None:
    usages = [choice.usage for choice in choices if choice.usage is not None]
    if not usages or len(usages) < len(choices):
        return None
    made = dict(usages[0])
    made["completion_tokens"] = sum(usage["completion_tokens"] for usage in usages)
    return made


def _take_text(choice: Choice, text: Any) -> None:
    if text is not None and not isinstance(text, str):
        raise TypeError("a choice's text is no string")
    choice.text += text or ""


def _take_call(choice: Choice, piece: Json) -> None:
    index = piece.get("index")
    if type(index) is not int or not 0 <= index <= len(choice.calls):
        raise ValueError(f"a piece of a tool call has the index {index!r}")
    if index == len(choice.calls):
        choice.calls.append(Call())
    call, function = choice.calls[index], piece.get("function") or {}
    call.name += function.get("name") or ""
    call.arguments += function.get("arguments") or ""
    call.id += piece.get("id") or ""


def _take(choice: Choice, found: Json) -> None:
    choice.finish = found.get("finish_reason") or choice.finish
    if found.get("stop_reason") is not None:
        choice.stop_reason = found["stop_reason"]
    logprobs = found.get("logprobs")
    if logprobs is not None:
        choice.has_logprobs = True
        choice.tokens += _chat_tokens(logprobs) if "content" in logprobs else _completion_tokens(logprobs)


def _chat_tokens(logprobs: Json) -> list[Token]:
    return [
        Token(
            entry["token"],
            float(entry["logprob"]),
            tuple(Candidate(one["token"], float(one["logprob"]), _raw(one)) for one in entry.get("top_logprobs") or []),
            _raw(entry),
        )
        for entry in logprobs["content"] or []
    ]


def _completion_tokens(logprobs: Json) -> list[Token]:
    tops = logprobs.get("top_logprobs") or [{}] * len(logprobs["tokens"])
    offsets = logprobs.get("text_offset") or [None] * len(logprobs["tokens"])
    return [
        Token(
            token, float(value), tuple(Candidate(text, float(one)) for text, one in (top or {}).items()), None, offset
        )
        for token, value, top, offset in zip(logprobs["tokens"], logprobs["token_logprobs"], tops, offsets, strict=True)
    ]


def _raw(entry: Json) -> bytes | None:
    return None if entry.get("bytes") is None else bytes(entry["bytes"])


def shown(body: bytes, most: int = 200) -> str:
    """A body for a message, cut."""
    text = body[: most * 4].decode("utf-8", "replace")
    return text if len(text) <= most and len(body) <= most * 4 else text[:most] + "..."
