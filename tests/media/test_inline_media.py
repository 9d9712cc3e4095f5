"""Base64 is decoded block by block, and never otherwise than at once."""

from __future__ import annotations

import base64

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handlers.errors import Problem
from handlers.media import inline
from handlers.media.limits import MediaLimits
from handlers.media.parts import MediaPart
from handlers.media.sink import Sink


class Kept(Sink):
    """A sink that keeps what comes."""

    def __init__(self, part: MediaPart) -> None:
        self.part, self.data = part, b""

    def write(self, data: bytes | memoryview) -> None:
        """Keep it."""
        self.data += data


@given(st.binary(min_size=1, max_size=60), st.integers(1, 80), st.sampled_from(["", "\n", "\r\n"]), st.integers(1, 40))
@example(b"four", 8, "\r\n", 7)
def test_base64_is_decoded_block_by_block_as_at_once(data: bytes, kept: int, line_end: str, block: int) -> None:
    """Wherever blocks and lines end; and a text that is cut short is refused exactly where Python refuses it."""
    text = base64.b64encode(data).decode()[:kept]
    lines = line_end.join(text[place : place + 7] for place in range(0, len(text), 7)) + line_end
    part = MediaPart("image", "p", lines)
    sink, start = Kept(part), inline.check_inline(part, MediaLimits())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inline, "_BLOCK_CHARS", block)
        try:
            expected = base64.b64decode(text, validate=True)
        except ValueError:
            with pytest.raises(Problem, match="not valid"):
                inline.write_inline(sink, start)
        else:
            inline.write_inline(sink, start)
            assert sink.data == expected


@given(st.text(max_size=300), st.integers(1, 40))
def test_any_text_is_base64_or_told_why_not(text: str, block: int) -> None:
    """And nothing else is raised."""
    part = MediaPart("image", "p", text)
    sink = Kept(part)
    told = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inline, "_BLOCK_CHARS", block)
        try:
            inline.write_inline(sink, inline.check_inline(part, MediaLimits()))
        except Problem as problem:
            told = (problem.status, problem.code, problem.param)
    if told is None:
        assert sink.data == base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    else:
        assert told == (422, "media_invalid", "p")
