"""Server-sent events: their order, and a fast way to write them.

What does not change within a choice is encoded once; for an ordinary event only the new text goes through a JSON
encoder. The bytes are those that the generated chunk models would write (tests compare them).
"""

from __future__ import annotations

import logging
import random
import string
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from pydantic_core import to_json

from engine.text.tools import CallPiece, ToolCallParser
from engine.types import ChoiceDelta, EngineError, Stats
from handlers.errors import DONE, Problem, internal
from handlers.logprobs import chat_logprobs, completion_logprobs
from handlers.running import ClientGone, Running
from handlers.usage import usage

_log = logging.getLogger(__name__)

_NULL: Final = b"null"
_ALPHANUMERIC: Final = string.ascii_letters + string.digits


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
    running: Running, first: list[ChoiceDelta], encoder: Encoder, problem_of: Callable[[EngineError], Problem]
) -> EventStream:
    """A stream of one chunk a round. ``first`` is the round that has been waited for."""
    return EventStream(running, _chunks(running, first, encoder, problem_of))


def single(event: bytes) -> EventStream:
    """The stream of a beam search: one event and the end."""

    async def chunks() -> AsyncIterator[bytes]:
        yield b"data: " + event + b"\n\n" + DONE

    return EventStream(None, chunks())


async def _chunks(
    running: Running, first: list[ChoiceDelta], encoder: Encoder, problem_of: Callable[[EngineError], Problem]
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
        yield DONE
    except EngineError as error:
        yield problem_of(error).event()
    except ClientGone:
        return
    except Exception:
        _log.exception("a stream failed")
        yield internal().event()


@dataclass(slots=True)
class _ChatChoice:
    prefix: bytes
    """Up to the new text of an ordinary event."""
    bare: bytes
    """Up to the members of the delta."""
    token_count: int = 0
    text: list[str] = field(default_factory=list)
    """Content so far, kept with full_text only."""
    parser: ToolCallParser | None = None


class ChatEncoder:
    """Events of a chat stream.

    Order within a choice: one event with the role and empty content; one for each piece of content or of a tool call;
    one with the finish_reason, the choice's usage and the last content.
    """

    def __init__(
        self,
        head: AnswerHead,
        count: int,
        stats: Stats,
        *,
        openai_form: bool,
        full_text: bool,
        tool_names: Sequence[str] | None,
    ) -> None:
        """Args:
        full_text: contents are cumulative, and the last event repeats the whole as ``full_text``.
        tool_names: tools in use, whose calls are taken out of the text; None to leave the text alone.
        """
        self._head = head.json("chat.completion.chunk")
        self._stats = stats
        self._full_text = full_text
        self._role = b"" if openai_form else b'"role":"assistant",'
        self._choices = []
        for index in range(count):
            bare = self._choice_start(index)
            parser = None if tool_names is None else ToolCallParser(tool_names)
            prefix = self._head + bare + self._role + b'"content":'
            self._choices.append(_ChatChoice(prefix, bare, parser=parser))

    def opening(self) -> bytes:
        """One event for each choice, with the role and empty content."""
        rest = b'"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n'
        return b"".join(self._head + choice.bare + rest for choice in self._choices)

    def round(self, deltas: Sequence[ChoiceDelta]) -> bytes:
        """The events of one round."""
        return b"".join(map(self._delta, deltas))

    def _delta(self, delta: ChoiceDelta) -> bytes:
        choice = self._choices[delta.index]
        choice.token_count += delta.token_count
        if choice.parser is not None:
            return self._with_tools(choice, choice.parser, delta)
        if delta.finish_reason is None and not delta.tokens:
            if not delta.text:
                return b""
            text = self._content(choice, delta.text)
            return choice.prefix + to_json(text) + b'},"logprobs":null,"finish_reason":null}]}\n\n'
        logprobs = chat_logprobs(delta.tokens).wire_json().encode() if delta.tokens else _NULL
        if delta.finish_reason is None:
            text = self._content(choice, delta.text)
            return choice.prefix + to_json(text) + b'},"logprobs":' + logprobs + b',"finish_reason":null}]}\n\n'
        return self._last(choice, self._content(choice, delta.text), logprobs, delta.finish_reason)

    def _with_tools(self, choice: _ChatChoice, parser: ToolCallParser, delta: ChoiceDelta) -> bytes:
        pieces = parser.feed(delta.text)
        if delta.finish_reason is not None:
            pieces += parser.finish()
        written = []
        for piece in pieces:
            if isinstance(piece, CallPiece):
                member = b'"tool_calls":[' + _call_delta(piece) + b"]"
            else:
                member = b'"content":' + to_json(self._content(choice, piece))
            written += [self._head, choice.bare, self._role, member, b'},"logprobs":null,"finish_reason":null}]}\n\n']
        if delta.finish_reason is not None:
            reason = "tool_calls" if parser.calls and not parser.cut_short else delta.finish_reason
            written.append(self._last(choice, self._content(choice, ""), _NULL, reason))
        return b"".join(written)

    def _last(self, choice: _ChatChoice, text: str, logprobs: bytes, reason: str) -> bytes:
        members = [self._head]
        if self._full_text:
            members += [b',"full_text":', to_json(text)]
        counted = usage(self._stats, choice.token_count, choice.token_count)
        members += [b',"usage":', counted.wire_json().encode(), choice.bare, self._role, b'"content":', to_json(text)]
        members += [b'},"logprobs":', logprobs, b',"finish_reason":', to_json(reason), b"}]}\n\n"]
        return b"".join(members)

    def _content(self, choice: _ChatChoice, new: str) -> str:
        if not self._full_text:
            return new
        choice.text.append(new)
        return "".join(choice.text)

    @staticmethod
    def _choice_start(index: int) -> bytes:
        return b',"choices":[{"index":%d,"delta":{' % index


class CompletionEncoder:
    """Events of a completions stream: one for each new text, usage in each choice's last."""

    def __init__(self, head: AnswerHead, count: int, stats: Stats) -> None:
        begin = head.json("text_completion")
        self._stats = stats
        self._prefixes = [begin + b',"choices":[{"index":%d,"text":' % index for index in range(count)]
        self._token_counts = [0] * count

    def opening(self) -> bytes:
        """Nothing: a completions stream begins with text."""
        return b""

    def round(self, deltas: Sequence[ChoiceDelta]) -> bytes:
        """The events of one round."""
        return b"".join(map(self._delta, deltas))

    def _delta(self, delta: ChoiceDelta) -> bytes:
        self._token_counts[delta.index] += delta.token_count
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
            count = self._token_counts[delta.index]
            members += [b',"usage":', usage(self._stats, count, count).wire_json().encode()]
        members.append(b"}\n\n")
        return b"".join(members)


def new_call_id() -> str:
    """An id for a tool call: "call_" and eight letters or digits."""
    return "call_" + "".join(random.choices(_ALPHANUMERIC, k=8))


def _call_delta(piece: CallPiece) -> bytes:
    if piece.name is None:
        return to_json({"index": piece.index, "function": {"arguments": piece.arguments}})
    function = {"name": piece.name, "arguments": piece.arguments}
    return to_json({"index": piece.index, "id": new_call_id(), "type": "function", "function": function})
