"""Each family of media models in the engine: each form of media gives the tokens that transformers' generate gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from media_chats import MediaModel, answers

from engine.packed_executor import PackedExecutor
from engine.packed_loader import load_executor
from tests.media.files import audio_file, image_file, media_file, video_file
from tests.tiny_media import MODELS, MediaModels, reference

TEXT = {"type": "text", "text": "What is it?"}
IMAGE, VIDEO, AUDIO = {"type": "image"}, {"type": "video"}, {"type": "audio"}

_Chat = tuple[list[dict[str, str]], list[tuple[str, bytes]]]
"""The parts of a message, and the media's suffixes and bytes."""

HEARD: list[_Chat] = [
    ([AUDIO, TEXT], [("wav", audio_file("wav", 1))]),
    ([AUDIO, TEXT], [("mp3", audio_file("mp3", 2, seconds=0.7))]),
    ([AUDIO, TEXT], [("flac", audio_file("flac", 3, seconds=1.9))]),
    ([AUDIO, TEXT], [("wav", audio_file("wav", 4, seconds=0.08))]),
    ([AUDIO, TEXT, AUDIO, TEXT], [("wav", audio_file("wav", 5)), ("wav", audio_file("wav", 6, seconds=0.2))]),
    ([TEXT], []),
]
SEEN: list[_Chat] = [
    ([IMAGE, TEXT], [("png", image_file("png", 1))]),
    ([TEXT, IMAGE], [("jpg", image_file("jpg", 2, width=150, height=60))]),
    ([VIDEO, TEXT], [("mp4", video_file("mp4", 3, frames=24))]),
    ([VIDEO, TEXT], [("avi", video_file("avi", 4, frames=3))]),
    (
        [IMAGE, VIDEO, TEXT, IMAGE],
        [("png", image_file("png", 5)), ("wmv", video_file("wmv", 6)), ("png", image_file("png", 7))],
    ),
    ([TEXT], []),
]
CHATS = {kind: HEARD if kind == "qwen2_audio" else SEEN for kind in MODELS}


def chats(kind: str, folder: Path) -> list[tuple[list[dict[str, Any]], Sequence[Path]]]:
    """Conversations of one message and their files."""
    made = []
    for number, (content, files) in enumerate(CHATS[kind]):
        paths = []
        for index, (suffix, data) in enumerate(files):
            paths.append(folder / f"{number}-{index}.{suffix}")
            paths[-1].write_bytes(data)
        made.append(([{"role": "user", "content": content}], paths))
    return made


def executor_of(folder: Path, **options: Any) -> PackedExecutor:
    """The engine on a folder, in float32."""
    executor = load_executor(str(folder), dtype="float32", device="cpu", page_size=16, memory_bytes=2**24, **options)
    assert isinstance(executor, PackedExecutor)
    return executor


@pytest.mark.parametrize("kind", MODELS)
def test_every_form_gives_the_tokens_of_generate(kind: str, media_models: MediaModels, tmp_path: Path) -> None:
    """Alone, and all in one batch whose steps cut prompts within their media; also with what is cached by then, and
    by the executor without batching."""
    folder = media_models.folder(kind)
    asked = chats(kind, tmp_path)
    expected = {str(number): reference(folder, messages, files) for number, (messages, files) in enumerate(asked)}
    executor = executor_of(folder, prefill_chunk_size=7)
    model = MediaModel.of(folder, dict(executor.info.media_tokens), tmp_path)
    requests = [model.request(str(number), messages, files) for number, (messages, files) in enumerate(asked)]
    alone: dict[str, list[int]] = {}
    for request in requests:
        alone |= answers(executor, request)
    assert alone == expected
    assert answers(executor, *requests) == expected
    assert answers(executor_of(folder), *requests) == expected
    apart = load_executor(str(folder), dtype="float32", device="cpu", memory_bytes=2**24, deterministic=True)
    assert answers(apart, *requests) == expected


@pytest.mark.parametrize("kind", MODELS)
def test_equal_lengths_with_other_bytes_share_no_more_than_the_text_before(
    kind: str, media_models: MediaModels, tmp_path: Path
) -> None:
    """Two files of the same name, one after the other and again: each is answered as transformers answers it."""
    folder = media_models.folder(kind)
    executor = executor_of(folder)
    model = MediaModel.of(folder, dict(executor.info.media_tokens), tmp_path)
    part, suffix = (AUDIO, "wav") if kind == "qwen2_audio" else (IMAGE, "png")
    messages = [{"role": "user", "content": [{**TEXT, "text": "Look at this. " * 3}, part, TEXT]}]
    file = tmp_path / f"same.{suffix}"
    found, expected = [], []
    for number, seed in enumerate((1, 2, 1, 2)):
        file.write_bytes(media_file(suffix, seed))
        expected.append(reference(folder, messages, [file]))
        found.append(answers(executor, model.request(f"r{number}", messages, [file]))[f"r{number}"])
    assert found == expected
    assert found[0] != found[1]
