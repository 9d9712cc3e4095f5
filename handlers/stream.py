"""Server-sent events: their order, and a fast way to write them.

What does not change within a choice is encoded once; for an ordinary event only the new text goes through a JSON
encoder. The bytes are those that the generated chunk models would write (tests compare them).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from pydantic_core import to_json

from engine.log_form import PRIVATE
from engine.types import CallPiece, ChoiceDelta, EngineError, Stats
from handlers.errors import DONE, Problem, internal
from handlers.logprobs import chat_logprobs, completion_logprobs
from handlers.record import Record
from handlers.running import ClientGone, Running
from handlers.usage import usage

_log = logging.getLogger(__name__)

_NULL: Final = b"null"
_OPEN: Final = b'},"logprobs":null,"finish_reason":null}]}\n\n'
"""The end of an event that is not a choice's last."""


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What every event of an answer begins with."""

    id: str
    created: int
    """Seconds since 1970."""
    model: str

    def json(self, kind: str) -> bytes:
        """The first four members, without the object's closing brace."""
        members = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return b"data: " + to_json(members)[:-1]


class Encoder(Protocol):
    """Writes the events of one round."""

    def opening(self) -> bytes:
        """The events before the first round's."""
        ...

    def round(self, deltas: Sequence[ChoiceDelta]) -> bytes:
        """The events of one round; may be empty."""
        ...

    def closing(self) -> bytes:
        """What comes after the last round's events; may be empty."""
        ...


class EventStream:
    """The events of a running answer as chunks of bytes, ``[DONE]`` last; iterate it once and close it always."""

    def __init__(self, running: Running | None, chunks: AsyncIterator[bytes]) -> None:
        self._running = running
        self._chunks = chunks

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks

    async def __anext__(self) -> bytes:
        return await anext(self._chunks)

    def close(self) -> None:
        """Give the request up where it still runs."""
        if self._running is not None:
            self._running.close()


def live(
    running: Running,
    first: list[ChoiceDelta],
    encoder: Encoder,
    problem_of: Callable[[EngineError], Problem],
    record: Record,
) -> EventStream:
    """A stream of one chunk a round. ``first`` is the round that has been waited for; ``record`` is told of its end."""
    return EventStream(running, _chunks(running, first, encoder, problem_of, record))


def single(event: bytes) -> EventStream:
    """The stream of a beam search: one event and the end."""

    async def chunks() -> AsyncIterator[bytes]:
        yield b"data: " + event + b"\n\n" + DONE

    return EventStream(None, chunks())


async def _chunks(
    running: Running,
    first: list[ChoiceDelta],
    encoder: Encoder,
    problem_of: Callable[[EngineError], Problem],
    record: Record,
) -> AsyncIterator[bytes]:
    """A failure becomes an error event; a stream whose client has gone just ends."""
    deltas: list[ChoiceDelta] | None = first
    opening = encoder.opening()
    try:
        while deltas is not None:
            chunk = opening + encoder.round(deltas)
            opening = b""
            if chunk:
                yield chunk
            deltas = await running.next_round()
        yield encoder.closing() + DONE
    except EngineError as error:
        record.problem = problem_of(error)
        yield record.problem.event()
    except ClientGone:
        record.gone = True
    except Exception:
        _log.exception("a stream failed", extra=PRIVATE)
        record.problem = internal()
        yield record.problem.event()


class _Tally:
    """Counts the tokens of a stream's choices, for the usage in each choice's last event or in an event of its own."""

    def __init__(self, count: int, stats: Stats, *, apart: bool) -> None:
        self._stats = stats
        self._apart = apart
        self._tokens = [0] * count
        self._reasoning: int | None = None

    def add(self, delta: ChoiceDelta) -> None:
        """Count a delta's tokens."""
        self._tokens[delta.index] += delta.token_count
        if delta.reasoning_tokens is not None:
            self._reasoning = (self._reasoning or 0) + delta.reasoning_tokens

    def of_choice(self, delta: ChoiceDelta) -> bytes:
        """The member with the usage of the choice that this delta ends; empty where usage comes apart."""
        if self._apart:
            return b""
        count = self._tokens[delta.index]
        return b',"usage":' + usage(self._stats, count, count, delta.reasoning_tokens).wire_json().encode()

    def of_all(self) -> bytes:
        """The member with the usage of all choices; empty unless it comes apart."""
        if not self._apart:
            return b""
        made = usage(self._stats, sum(self._tokens), max(self._tokens), self._reasoning)
        return b',"usage":' + made.wire_json().encode()


@dataclass(slots=True)
class _ChatChoice:
    prefix: bytes
    """Up to the new text of an ordinary event."""
    bare: bytes
    """Up to the members of the delta."""
    text: list[str] = field(default_factory=list)
    """Content so far, kept with full_text only."""


class ChatEncoder:
    """Events of a chat stream.

    Order within a choice: one event with the role and empty content; one for each piece of thinking, of content or of
    a tool call; one with the finish_reason, the choice's usage and the last content.
    """

    def __init__(
        self,
        head: AnswerHead,
        count: int,
        stats: Stats,
        *,
        openai_form: bool,
        full_text: bool,
        new_call_id: Callable[[], str],
        usage_apart: bool = False,
    ) -> None:
        """Args:
        full_text: contents are cumulative, and the last event repeats the whole as ``full_text``.
        new_call_id: makes ids for tool calls.
        usage_apart: one event for the usage of all choices, none with each choice's.
        """
        self._head = head.json("chat.completion.chunk")
        self._tally = _Tally(count, stats, apart=usage_apart)
        self._full_text = full_text
        self._new_call_id = new_call_id
        self._role = b"" if openai_form else b'"role":"assistant",'
        self._choices = []
        for index in range(count):
            bare = self._choice_start(index)
            self._choices.append(_ChatChoice(self._head + bare + self._role + b'"content":', bare))

    def opening(self) -> bytes:
        """One event for each choice, with the role and empty content."""
        rest = b'"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n'
        return b"".join(self._head + choice.bare + rest for choice in self._choices)

    def round(self, deltas: Sequence[ChoiceDelta]) -> bytes:
        """The events of one round."""
        return b"".join(map(self._delta, deltas))

    def closing(self) -> bytes:
        """The usage of all choices, where it comes apart."""
        counted = self._tally.of_all()
        return self._head + counted + b',"choices":[]}\n\n' if counted else b""

    def _delta(self, delta: ChoiceDelta) -> bytes:
        choice = self._choices[delta.index]
        self._tally.add(delta)
        if delta.finish_reason is None and not (delta.tokens or delta.reasoning or delta.calls):
            if not delta.text:
                return b""
            return choice.prefix + to_json(self._content(choice, delta.text)) + _OPEN
        return self._several(choice, delta)

    def _several(self, choice: _ChatChoice, delta: ChoiceDelta) -> bytes:
        """The events of a delta that has more than content: the log probabilities stand in the last of them."""
        members = []
        if delta.reasoning:
            members.append(b'"reasoning_content":' + to_json(delta.reasoning))
        if delta.finish_reason is None and (delta.text or (delta.tokens and not members)):
            members.append(b'"content":' + to_json(self._content(choice, delta.text)))
        elif delta.calls and delta.text:
            members.append(b'"content":' + to_json(self._content(choice, delta.text)))
            delta = replace(delta, text="")
        members += [b'"tool_calls":[' + self._call(piece) + b"]" for piece in delta.calls]
        logprobs = chat_logprobs(delta.tokens).wire_json().encode() if delta.tokens else _NULL
        start = self._head + choice.bare + self._role
        if delta.finish_reason is not None:
            events = [start + member + _OPEN for member in members]
            return b"".join([*events, self._last(choice, delta, logprobs)])
        events = [start + member + _OPEN for member in members[:-1]]
        return b"".join([*events, start, members[-1], b'},"logprobs":', logprobs, b',"finish_reason":null}]}\n\n'])

    def _last(self, choice: _ChatChoice, delta: ChoiceDelta, logprobs: bytes) -> bytes:
        text = self._content(choice, delta.text)
        members = [self._head]
        if self._full_text:
            members += [b',"full_text":', to_json(text)]
        members += [self._tally.of_choice(delta), choice.bare, self._role, b'"content":', to_json(text)]
        members += [b'},"logprobs":', logprobs, b',"finish_reason":', to_json(delta.finish_reason), b"}]}\n\n"]
        return b"".join(members)

    def _content(self, choice: _ChatChoice, new: str) -> str:
        if not self._full_text:
            return new
        choice.text.append(new)
        return "".join(choice.text)

    def _call(self, piece: CallPiece) -> bytes:
        if piece.name is None:
            return to_json({"index": piece.index, "function": {"arguments": piece.arguments}})
        function = {"name": piece.name, "arguments": piece.arguments}
        return to_json({"index": piece.index, "id": self._new_call_id(), "type": "function", "function": function})

    @staticmethod
    def _choice_start(index: int) -> bytes:
        return b',"choices":[{"index":%d,"delta":{' % index


class CompletionEncoder:
    """Events of a completions stream: one for each new text, usage in each choice's last or in one of its own."""

    def __init__(self, head: AnswerHead, count: int, stats: Stats, *, usage_apart: bool = False) -> None:
        """``usage_apart``: see ``ChatEncoder``."""
        begin = head.json("text_completion")
        self._head = begin
        self._tally = _Tally(count, stats, apart=usage_apart)
        self._prefixes = [begin + b',"choices":[{"index":%d,"text":' % index for index in range(count)]

    def opening(self) -> bytes:
        """Nothing: a completions stream begins with text."""
        return b""

    def round(self, deltas: Sequence[ChoiceDelta]) -> bytes:
        """The events of one round."""
        return b"".join(map(self._delta, deltas))

    def closing(self) -> bytes:
        """The usage of all choices, where it comes apart."""
        counted = self._tally.of_all()
        return self._head + b',"choices":[]' + counted + b"}\n\n" if counted else b""

    def _delta(self, delta: ChoiceDelta) -> bytes:
        self._tally.add(delta)
        prefix = self._prefixes[delta.index]
        if delta.finish_reason is None and not delta.tokens:
            if not delta.text:
                return b""
            end = b',"logprobs":null,"stop_reason":null,"finish_reason":null}]}\n\n'
            return prefix + to_json(delta.text) + end
        logprobs = completion_logprobs(delta.tokens, 0).wire_json().encode() if delta.tokens else _NULL
        members = [prefix, to_json(delta.text), b',"logprobs":', logprobs]
        members += [b',"stop_reason":', to_json(delta.stop_reason)]
        members += [b',"finish_reason":', to_json(delta.finish_reason), b"}]"]
        if delta.finish_reason is not None:
            members.append(self._tally.of_choice(delta))
        members.append(b"}\n\n")
        return b"".join(members)
