"""The tiny models of the media tests: they load as published ones do, and their answers depend on what they see."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.media.files import media_file
from tests.tiny_media import MODELS, MediaModels, reference, reference_inputs

QUESTION = {"type": "text", "text": "What is it?"}


def written(folder: Path, suffix: str, seed: int) -> Path:
    """A small file of a format."""
    file = folder / f"{seed}.{suffix}"
    file.write_bytes(media_file(suffix, seed))
    return file


@pytest.mark.parametrize(
    ("kind", "part", "suffix"),
    [
        (kind, part, suffix)
        for kind in MODELS
        for part, suffix in ([("audio", "wav")] if kind == "qwen2_audio" else [("image", "png"), ("video", "mp4")])
    ],
)
def test_answers_depend_on_the_media(
    kind: str, part: str, suffix: str, media_models: MediaModels, tmp_path: Path
) -> None:
    """transformers' processor and generate run on the folder, and other media give other tokens."""
    messages = [{"role": "user", "content": [{"type": part}, QUESTION]}]
    folder = media_models.folder(kind)
    answers = [reference(folder, messages, [written(tmp_path, suffix, seed)]) for seed in (0, 1, 0)]
    assert answers[0] == answers[2] != answers[1]


def test_half_a_second_is_twelve_tokens(media_models: MediaModels, tmp_path: Path) -> None:
    """50 frames of 10 ms: halved by a convolution to 25, and pooled in pairs to 12."""
    messages = [{"role": "user", "content": [{"type": "audio"}]}]
    inputs = reference_inputs(media_models.folder("qwen2_audio"), messages, [written(tmp_path, "wav", 0)])
    assert (inputs["input_ids"] == 256 + 3).sum() == 12
