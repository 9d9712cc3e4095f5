"""Messages between front and engine: what is sent is what arrives, in whatever pieces, without blocking the loop."""

from __future__ import annotations

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.link import EngineLink
from engine.stats import EngineStats, ExecutorStats, MediaStats, MemoryStats
from engine.types import (
    BeamHypothesis,
    ModelInfo,
    Request,
    RequestFailure,
    SamplingParams,
    StepOutput,
    StepToken,
)
from engine.wire import (
    AdapterLoaded,
    Cancel,
    Channel,
    FrameBuffer,
    LoadAdapter,
    LoadFailed,
    LoadProgress,
    Quit,
    Ready,
    RemoveChoice,
    Round,
    Submit,
    UnloadAdapter,
    decode,
    encode,
)

STATS = EngineStats(5, 4, True, ExecutorStats(3, 2, 1, 9, 8, 7, MemoryStats(100, 20, 30, 6, 5, 400, 300)))
TOKEN = StepToken(3, 77, -0.25, ((77, -0.25), (5, -2.0)), "stop", 77)
MESSAGES = [
    Submit(Request("r", (1, 2), SamplingParams(max_tokens=4, seed=2**64 - 1), stop=("a",)), 123),
    Cancel("r"),
    RemoveChoice("r", 8191),
    LoadAdapter(3, "a", "folder", 8),
    UnloadAdapter(3),
    AdapterLoaded(3, "it is not whole."),
    Quit(),
    LoadProgress("Reading."),
    LoadFailed("No."),
    Ready(ModelInfo(10, 20, (1, 2), "bfloat16", "cpu", "Llama"), STATS),
    Round([StepOutput("r", 64, 5, 6, [TOKEN, StepToken(0, 1)], None, 7, True), RequestFailure("s", "internal", "No.")]),
    Round([StepOutput("r", 2, 5, 6, [], [BeamHypothesis([TOKEN], -0.5)], 0, True)]),
    Round([RequestFailure("s", "internal", "No.")], STATS),
    Round([], EngineStats(1, 0, False, ExecutorStats(1))),
    Round([], EngineStats(1, 0, False, ExecutorStats(1, media=MediaStats(7, 2, 4, 1500, 4096)))),
    Round([]),
]


@given(cuts=st.lists(st.integers(1, 40), max_size=60))
def test_messages_survive_any_cut_of_the_stream(cuts):
    """Each message arrives equal and in order, however the bytes were split."""
    stream = b"".join(map(encode, MESSAGES))
    frames = FrameBuffer()
    payloads = []
    for size in cuts:
        piece, stream = stream[:size], stream[size:]
        payloads += frames.feed(piece)
    payloads += frames.feed(stream)
    assert [decode(payload) for payload in payloads] == MESSAGES


@pytest.fixture
def ends():
    """Both ends of a socket."""
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


def test_a_closed_front_ends_the_channel(ends):
    """The engine sees the end of the stream as EOFError."""
    ends[0].close()
    with pytest.raises(EOFError):
        Channel(ends[1]).receive(wait=True)


def test_receiving_without_waiting_takes_what_is_there(ends):
    """Nothing at first, then all commands at once."""
    channel = Channel(ends[1])
    assert channel.receive(wait=False) == []
    ends[0].sendall(encode(Cancel("a")) + encode(Quit()))
    assert channel.receive(wait=False) == [Cancel("a"), Quit()]


def test_a_channel_that_waits_can_be_woken_without_a_command(ends):
    """Woken twice it returns once with nothing; commands that are there come along."""
    channel = Channel(ends[1])
    channel.wake()
    channel.wake()
    assert channel.receive(wait=True) == []
    channel.wake()
    ends[0].sendall(encode(Cancel("a")))
    assert channel.receive(wait=True) == [Cancel("a")]
    assert channel.receive(wait=False) == []


async def test_a_link_never_blocks_on_an_engine_that_does_not_read(ends):
    """Eight megabytes go into a small socket buffer at once; they arrive in order when the engine reads."""
    link = EngineLink(ends[0], lambda message: None, lambda: None)
    sent = [Cancel("x" * 80_000 + str(index)) for index in range(100)]
    for command in sent:
        link.send(command)
    channel, received = Channel(ends[1]), []
    while len(received) < len(sent):
        received += await asyncio.to_thread(channel.receive, wait=True)
    assert received == sent
    link.close()


async def test_what_an_engine_said_before_its_end_is_delivered_first(ends):
    """A last message and then the end, also when the process is known to be dead before the socket was read."""
    heard = []
    link = EngineLink(ends[0], heard.append, lambda: heard.append("end"))
    Channel(ends[1]).send(LoadFailed("No."))
    ends[1].close()
    link.end()
    assert heard == [LoadFailed("No."), "end"]
    link.send(Quit())


async def test_the_end_of_the_socket_is_told_once(ends):
    """Whoever sees it first."""
    ended = asyncio.Event()
    ends_heard = []
    link = EngineLink(ends[0], lambda message: None, lambda: (ends_heard.append(1), ended.set()))
    ends[1].close()
    await asyncio.wait_for(ended.wait(), 5)
    link.end()
    assert ends_heard == [1]
