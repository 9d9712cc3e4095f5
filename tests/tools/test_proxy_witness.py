"""The pipe to the judge: frames arrive as they were, and what waits there is bounded."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.proxy import witness as pipe
from tools.proxy.frames import Frame, Kind, pack_head, read_frame, unpack_head
from tools.proxy.witness import Witness


class Slow:
    """A pipe that nobody reads."""

    def __init__(self) -> None:
        self.written = b""

    def get_write_buffer_size(self) -> int:
        """Everything."""
        return len(self.written)

    def write(self, data: bytes) -> None:
        """Keep it."""
        self.written += data

    def is_closing(self) -> bool:
        """Never."""
        return False


@settings(deadline=None)
@given(st.lists(st.builds(Frame, st.sampled_from(Kind), st.integers(0, 2**64 - 1), st.floats(0, 1e10), st.binary())))
def test_frames_are_read_as_they_were_written(frames: list[Frame]) -> None:
    """And one that is not whole is the end."""
    data = b"".join(frame.packed() for frame in frames)
    source = io.BytesIO(data + Frame(Kind.BODY, 1, 0.0, b"more").packed()[:-1])
    assert [read_frame(source) for _ in frames] == frames
    assert read_frame(source) is None


_PART = st.binary().filter(lambda part: b"\n" not in part)


@settings(deadline=None)
@given(_PART, _PART, st.lists(st.tuples(_PART, _PART)))
def test_heads_are_read_as_they_were_written(method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """Empty values too."""
    assert unpack_head(pack_head(method, target, headers)) == (method, target, headers)


async def test_what_waits_is_bounded_and_connections_are_left_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be told is told to be skipped, once, and not heard of again; small news of others goes on."""
    monkeypatch.setattr(pipe, "MAX_UNJUDGED_BYTES", 1000)
    slow: Any = Slow()
    witness = Witness(SimpleNamespace(stdin=SimpleNamespace(transport=slow)))  # type: ignore[arg-type] # as much as is used
    witness.tell(Kind.REQUEST, 1, b"x" * 400)
    witness.tell(Kind.BODY, 1, b"x" * 500)
    for _ in range(3):
        witness.tell(Kind.ANSWER, 2, b"y" * 900)
    witness.tell(Kind.SERVER_CLOSED, 2)
    witness.tell(Kind.ANSWER, 1, b"z" * 10)
    witness._flush()
    source = io.BytesIO(slow.written)
    frames = [read_frame(source) for _ in range(5)]
    assert [(frame.kind, frame.link) for frame in frames if frame] == [
        (Kind.REQUEST, 1), (Kind.BODY, 1), (Kind.SKIPPED, 2), (Kind.SERVER_CLOSED, 2), (Kind.ANSWER, 1)]  # fmt: skip
    assert read_frame(source) is None
