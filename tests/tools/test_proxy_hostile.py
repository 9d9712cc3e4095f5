"""Clients and servers that send anything: the links pass it or refuse it, and the judge never fails of it."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from test_proxy_judge import CLEAN, ERROR, HELLO, SSE, answer, asked, head

from generated.rules import Deployment
from tools.proxy.frames import Frame, Kind
from tools.proxy.judge import judge_all
from tools.proxy.links import ClientLink
from tools.proxy.report import Report
from tools.proxy.upstream import read_upstream

_STREAM = head(200, SSE, Connection="close")
_ANSWERS = st.sampled_from([CLEAN, answer(429, ERROR), answer(200, HELLO), _STREAM + b"data: {}\n\ndata: [DONE]\n\n"])
_REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
_EDITS = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3), st.binary(max_size=6)), max_size=6)


def edited(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """The bytes with some taken out and others put in."""
    for place, length, new in edits:
        at = place % (len(data) + 1)
        data = data[:at] + new + data[at + length :]
    return data


def judged(frames: list[Frame]) -> Any:
    """The counts of a judge."""
    sink = io.StringIO()
    source = io.BytesIO(b"".join(frame.packed() for frame in frames))
    judge_all(source, Report(sink, "json"), Deployment())
    return json.loads(sink.getvalue().splitlines()[-1])["counts"]


@settings(deadline=None)
@given(_ANSWERS, _EDITS, st.integers(1, 500), st.sampled_from([Kind.SERVER_CLOSED, Kind.CLIENT_CLOSED]), st.booleans())
def test_the_judge_does_not_fail_of_any_answer(
    data: bytes, edits: list[tuple[int, int, bytes]], size: int, end: Kind, stream: bool
) -> None:
    """Damaged in any place, cut anywhere, ended by either side."""
    damaged = edited(data, edits)
    pieces = [damaged[at : at + size] for at in range(0, len(damaged), size)]
    frames = asked({**HELLO, "stream": stream}) + [Frame(Kind.ANSWER, 1, 0.0, piece) for piece in pieces]
    assert "connections left: the judge failed" not in judged([*frames, Frame(end, 1, 0.0)])


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(Kind), st.integers(1, 3), st.binary(max_size=40)), max_size=12))
def test_the_judge_does_not_fail_of_any_order(news: list[tuple[Kind, int, bytes]]) -> None:
    """Of frames; requests are whole ones."""
    top = asked(HELLO)[0].payload
    frames = [Frame(kind, link, 0.0, top if kind is Kind.REQUEST else data) for kind, link, data in news]
    assert "connections left: the judge failed" not in judged(frames)


class Quiet(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Keep it."""
        self.written += data

    def can_write_eof(self) -> bool:
        """As TLS cannot."""
        return False

    def close(self) -> None:
        """Nothing."""

    def is_closing(self) -> bool:
        """Never."""
        return False

    def pause_reading(self) -> None:
        """Nothing."""

    def resume_reading(self) -> None:
        """Nothing."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing."""


class Told:
    """Keeps kinds."""

    def __init__(self) -> None:
        self.kinds: list[Kind] = []

    def tell(self, kind: Kind, link: int, payload: bytes = b"") -> None:
        """Keep it."""
        self.kinds.append(kind)


@settings(deadline=None)
@given(_EDITS, st.integers(1, 200))
def test_any_bytes_of_a_client_pass_or_are_a_400(edits: list[tuple[int, int, bytes]], size: int) -> None:
    """Two requests, damaged in any place and cut anywhere, on a connection whose server never comes."""

    async def play() -> bytes:
        link = ClientLink(1, read_upstream("http://127.0.0.1:9"), Told(), lambda _: None)  # type: ignore[arg-type] # it tells alike
        near = Quiet()
        link.connection_made(near)
        data = edited(_REQUEST * 2, edits)
        for at in range(0, len(data), size):
            link.data_received(data[at : at + size])
        link.connection_lost(None)
        return near.written

    written = asyncio.run(play())
    assert written == b"" or written.startswith(b"HTTP/1.1 400 Bad Request\r\n")
