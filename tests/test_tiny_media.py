"""The tiny models of the media tests: they load as published ones do, and their answers depend on what they see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tiny_media import MODELS, MediaModels, reference, reference_inputs

soundfile = pytest.importorskip("soundfile")
image_module = pytest.importorskip("PIL.Image")


def picture(folder: Path, seed: int) -> Path:
    """A PNG of 70 x 90 random pixels."""
    file = folder / f"{seed}.png"
    pixels = np.random.default_rng(seed).integers(0, 256, (90, 70, 3), dtype=np.uint8)
    image_module.fromarray(pixels).save(file)
    return file


def recording(folder: Path, seed: int) -> Path:
    """A WAV of half a second: a tone of 300 Hz, and 50 % more for each step of the seed."""
    file = folder / f"{seed}.wav"
    seconds = np.arange(8000) / 16_000
    soundfile.write(file, 0.5 * np.sin(2 * np.pi * 300 * 1.5**seed * seconds).astype(np.float32), 16_000)
    return file


@pytest.mark.parametrize("kind", MODELS)
def test_answers_depend_on_the_media(kind: str, media_models: MediaModels, tmp_path: Path) -> None:
    """transformers' processor and generate run on the folder, and other media give other tokens."""
    part, make = ("audio", recording) if kind == "qwen2_audio" else ("image", picture)
    messages = [{"role": "user", "content": [{"type": part}, {"type": "text", "text": "What is it?"}]}]
    folder = media_models.folder(kind)
    answers = [reference(folder, messages, [make(tmp_path, seed)]) for seed in (0, 1)]
    assert answers[0] != answers[1]
    assert answers[0] == reference(folder, messages, [make(tmp_path, 0)])


def test_half_a_second_is_twelve_tokens(media_models: MediaModels, tmp_path: Path) -> None:
    """50 frames of 10 ms: halved by a convolution to 25, and pooled in pairs to 12."""
    folder = media_models.folder("qwen2_audio")
    messages = [{"role": "user", "content": [{"type": "audio"}]}]
    inputs = reference_inputs(folder, messages, [recording(tmp_path, 0)])
    assert (inputs["input_ids"] == 256 + 3).sum() == 12
