"""Whatever text a client sends as media: it becomes a file or a Problem, reaches nobody, and shows nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from source_world import world

from engine.types import MediaKind
from handlers.errors import Problem
from handlers.media.parts import MediaPart

PIECES = st.sampled_from([
    *("http:", "https:", "file:", "data:", "DATA:", "ftp:", "//", "/", "\\", "@", ":", ":80", "?", "#", "%2e", "%00"),
    *(".", "..", "...", "~", " ", "\t", "\n", "\0", "\ud800", "\u017f", "\u212a", "\U0001f600", "a.png", "inner"),
    *("etc/passwd", "media.test", "127.0.0.1", "[::1]", "image/png", ";base64", ",", "AAAA", "=", "{folder}"),
    "x" * 300,
])  # fmt: skip
TEXTS = st.one_of(st.lists(PIECES, min_size=1, max_size=10).map("".join), st.text(min_size=1, max_size=60))
KINDS: st.SearchStrategy[MediaKind] = st.sampled_from(["image", "video", "audio"])
CODES = {"media_forbidden", "media_unreachable", "media_invalid", "media_too_large", "too_long"}


@settings(max_examples=40, deadline=None)
@given(TEXTS, KINDS, st.sampled_from([None, None, "wav"]))
def test_any_text_is_a_file_or_a_problem(text: str, kind: MediaKind, audio_format: str | None) -> None:
    """With a code of media, and a sentence that any client can read."""
    with TemporaryDirectory() as base:
        asyncio.run(bring(Path(base), text, kind, audio_format))


async def bring(base: Path, text: str, kind: MediaKind, audio_format: str | None) -> None:
    """Have the sources bring it; the world has no names, so whatever is connected to was never looked up."""
    names: dict[str, Any] = {"nobody.test": ()}
    async with world(base, names=names, domains=("media.test", "127.0.0.1")) as here:
        assert here.limits.folder is not None
        (here.limits.folder / "inner").mkdir()
        (here.limits.folder / "a.png").write_bytes(b"inside")
        (base / "a.png").write_bytes(b"outside")
        part = MediaPart(kind, "here", text.replace("{folder}", str(here.limits.folder)), audio_format)
        try:
            [file] = await here.sources.files([part], here.spool)
            read = file.path.read_bytes()
        except Problem as problem:
            read = b""
            told = problem.message
            told.encode()
            codes = {problem.code} & CODES
        else:
            told, codes = "here ", CODES
        assert codes
        assert told.startswith("here ")
        assert len(told) < 1000
        assert b"outside" not in read
        assert here.network.connected == []
