"""Messages between the front and an engine process, and how they cross a socket: a length, then a pickle.

Both ends are this program, one the parent of the other; nothing else can reach the socket.
"""

from __future__ import annotations

import contextlib
import pickle
import select
import socket
import struct
from dataclasses import dataclass
from typing import Any

from engine.stats import EngineStats, ExecutorStats, MediaStats, MemoryStats
from engine.types import BeamHypothesis, LoadFailureCause, ModelInfo, Request, RequestFailure, StepOutput, StepToken

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Submit:
    """To the engine: queue this request. ``submitted_ns`` is CLOCK_MONOTONIC, which all processes share."""

    request: Request
    submitted_ns: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """To the engine: forget this request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class RemoveChoice:
    """To the engine: a stop string ended this choice."""

    request_id: str
    choice: int


@dataclass(frozen=True, slots=True)
class LoadAdapter:
    """To the engine: read this adapter and keep it under ``number``, which requests name; it answers AdapterLoaded."""

    number: int
    name: str
    folder: str
    max_rank: int | None


@dataclass(frozen=True, slots=True)
class UnloadAdapter:
    """To the engine: forget this adapter, which no request uses any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Ping:
    """To the engine: answer with a ``Round``, also if there is nothing to tell."""


@dataclass(frozen=True, slots=True)
class SetLogLevel:
    """To the engine: log from this level on, a number of ``logging``'s."""

    level: int


@dataclass(frozen=True, slots=True)
class Quit:
    """To the engine: end."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """From the engine: what it is doing while it loads."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Ready:
    """From the engine: requests may come."""

    info: ModelInfo
    stats: EngineStats


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """From the engine: it cannot start, and why; it ends."""

    sentence: str
    cause: LoadFailureCause = "other"


@dataclass(frozen=True, slots=True)
class Round:
    """From the engine: everything that one round did; sent after every round, also when there is nothing to tell.

    It is sent without a round when commands alone have changed the engine's state, and when the front asks.
    """

    outputs: list[StepOutput | RequestFailure]
    stats: EngineStats | None = None
    """The state after it; None: the same as before."""


@dataclass(frozen=True, slots=True)
class LongStep:
    """From the engine: the step that begins now may be expected to use so much processor time."""

    expected_s: float


@dataclass(frozen=True, slots=True)
class AdapterLoaded:
    """From the engine: requests may use this adapter; or, with ``failure``, why they cannot."""

    number: int
    failure: str | None


EngineCommand = Submit | Cancel | RemoveChoice | LoadAdapter | UnloadAdapter | Ping | SetLogLevel | Quit
EngineMessage = LoadProgress | Ready | LoadFailed | Round | LongStep | AdapterLoaded


def encode(message: EngineCommand | EngineMessage) -> bytes:
    """A message as length and payload."""
    # Pickling a round's token objects one by one takes ten times as long as plain tuples.
    value: object = message
    if isinstance(message, Round):
        value = [_pack_stats(message.stats), *map(_pack, message.outputs)]
    payload = pickle.dumps(value, protocol=5)
    return _LENGTH.pack(len(payload)) + payload


def decode(payload: bytes | bytearray | memoryview) -> EngineCommand | EngineMessage:
    """The message of a payload."""
    value = pickle.loads(payload)
    if isinstance(value, list):
        stats, *outputs = value
        return Round(list(map(_unpack, outputs)), None if stats is None else _unpack_stats(stats))
    assert isinstance(value, EngineCommand | EngineMessage)
    return value


class FrameBuffer:
    """Cuts a byte stream into the payloads of its messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; returns the payloads that are whole now."""
        self._bytes += data
        payloads = []
        start = 0
        while len(self._bytes) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes, start)
            end = start + _LENGTH.size + length
            if len(self._bytes) < end:
                break
            payloads.append(bytes(self._bytes[start + _LENGTH.size : end]))
            start = end
        del self._bytes[:start]
        return payloads


class Channel:
    """The engine's end of the socket, blocking. EOFError or OSError when the front is gone."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setblocking(True)
        self._frames = FrameBuffer()
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)

    def wake(self) -> None:
        """Let a ``receive`` that waits return, or the next one; any thread may call it."""
        with contextlib.suppress(BlockingIOError):  # so much is unread that it will wake in any case
            self._waker.send(b"\0")

    def send(self, message: EngineMessage) -> None:
        """Send a message; waits while the front is behind."""
        self._socket.sendall(encode(message))

    def receive(self, *, wait: bool, timeout_s: float | None = None) -> list[EngineCommand]:
        """The commands that have arrived; with ``wait`` at least one, unless ``wake`` is called or the time is over."""
        commands: list[EngineCommand] = []
        while ready := select.select([self._socket, self._woken], [], [], timeout_s if wait and not commands else 0)[0]:
            if self._woken in ready:
                self._woken.recv(1 << 12)
                wait = False
            if self._socket not in ready:
                continue
            data = self._socket.recv(1 << 16)
            if not data:
                raise EOFError("the front closed the connection")
            for payload in self._frames.feed(data):
                command = decode(payload)
                assert isinstance(command, EngineCommand)
                commands.append(command)
        return commands


def _pack_stats(stats: EngineStats | None) -> tuple[Any, ...] | None:
    if stats is None:
        return None
    *counts, executor = stats
    *sequences, memory, media = executor
    return (counts, sequences, memory and tuple(memory), media and tuple(media))


def _unpack_stats(packed: tuple[Any, ...]) -> EngineStats:
    counts, sequences, memory, media = packed
    parts = (None if memory is None else MemoryStats._make(memory), None if media is None else MediaStats._make(media))
    executor = ExecutorStats._make((*sequences, *parts))
    return EngineStats._make((*counts, executor))


def _pack(output: StepOutput | RequestFailure) -> tuple[Any, ...]:
    if isinstance(output, RequestFailure):
        return (output.request_id, output.code, output.message)
    beams = None if output.beams is None else [(_pack_tokens(beam.tokens), beam.score) for beam in output.beams]
    return (
        output.request_id,
        output.batch_size,
        output.queue_wait_us,
        output.step_us,
        _pack_tokens(output.tokens),
        beams,
        output.cached_tokens,
        output.done,
    )


def _unpack(packed: tuple[Any, ...]) -> StepOutput | RequestFailure:
    if len(packed) == 3:
        return RequestFailure(*packed)
    request_id, batch_size, queue_wait_us, step_us, tokens, beams, cached_tokens, done = packed
    return StepOutput(
        request_id,
        batch_size,
        queue_wait_us,
        step_us,
        _unpack_tokens(tokens),
        None if beams is None else [BeamHypothesis(_unpack_tokens(steps), score) for steps, score in beams],
        cached_tokens,
        done,
    )


def _pack_tokens(tokens: list[StepToken]) -> list[tuple[Any, ...]]:
    return [(t.choice, t.token_id, t.logprob, t.top, t.finish_reason, t.stop_token_id) for t in tokens]


def _unpack_tokens(tokens: list[tuple[Any, ...]]) -> list[StepToken]:
    return [StepToken(*fields) for fields in tokens]
