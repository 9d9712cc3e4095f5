"""Requests with media cross into the engine's process, and are answered again after its death."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from engine.front import EngineSpec, ProcessFront
from engine.text.tokenizer import tokenizer_from_folder
from engine.types import EngineError, Request
from tests.engine.media_play import Asked
from tests.tiny_media import MediaModels


async def text_of(front: ProcessFront, request: Request) -> str:
    """The whole answer."""
    return "".join([delta.text async for deltas in front.submit(request) for delta in deltas])


async def killed_at_its_first_token(front: ProcessFront, request: Request) -> None:
    """The engine's process is, not the request."""
    async for _ in front.submit(request):
        assert front.pid is not None
        os.kill(front.pid, signal.SIGKILL)


async def test_an_image_is_answered_by_a_process_and_again_by_the_next_one(
    media_models: MediaModels, tmp_path: Path
) -> None:
    """What the first process is killed with fails at once; the next one encodes anew and answers the same."""
    folder = media_models.folder("qwen2_vl")
    asked = Asked(folder, tmp_path, ("image", 1), "What is it?")
    tokenizer = tokenizer_from_folder(str(folder))
    options = {"path": str(folder), "dtype": "float32", "device": "cpu", "memory_bytes": 1 << 26}
    front = ProcessFront(tokenizer, EngineSpec("engine.packed_loader:load_executor", options))
    await front.start()
    try:
        await front.wait_ready()
        assert front.info is not None
        assert front.info.media_tokens == (("image", 262), ("video", 263))
        first = await text_of(front, asked.request("first"))
        assert first
        assert first == tokenizer.decode(asked.generate(), skip_special_tokens=True)
        with pytest.raises(EngineError) as caught:
            await killed_at_its_first_token(front, asked.request("killed", max_tokens=900))
        assert caught.value.code == "engine_down"
        await front.wait_ready()
        assert await text_of(front, asked.request("second")) == first
        media = front.engine_stats.executor.media
        assert media is not None
        assert (media.items, media.encoded_items) == (1, 1)
    finally:
        await front.stop()
