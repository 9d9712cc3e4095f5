"""LoRA adapters on a model that takes media: they change its text part; one that changes an encoder is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.packed_loader import load_executor
from engine.types import AdapterError
from tests.engine import peft_adapters
from tests.engine.media_play import Asked, run, whole_model
from tests.tiny_media import MediaModels

TEXT_PART = r"model\.language_model\..*_proj"


@pytest.mark.parametrize("deterministic", [False, True])
def test_an_image_is_answered_with_the_adapter_as_by_peft(
    media_models: MediaModels, tmp_path: Path, deterministic: bool
) -> None:
    """Beside the same image without it: no page of one is used for the other, and the image is encoded once."""
    folder = media_models.folder("qwen2_vl")
    asked = Asked(folder, tmp_path, ("image", 1), "What is it?")
    merged = peft_adapters.save(whole_model(folder), tmp_path / "adapter", 3, target_modules=TEXT_PART)
    executor = load_executor(
        str(folder), dtype="float32", device="cpu", page_size=16, memory_bytes=1 << 24, deterministic=deterministic
    )
    executor.load_adapter(7, "adapter", executor.read_adapter(str(tmp_path / "adapter"), None))
    adapted = replace(asked.request("adapted"), adapter="adapter", adapter_number=7)
    found = run(executor, asked.request("plain"), adapted)
    assert found == {"plain": asked.generate(), "adapted": asked.generate(model=merged)}
    assert found["plain"] != found["adapted"]
    media = executor.stats.media
    assert media is not None
    assert media.encoded_items == 1


def test_an_adapter_of_the_encoder_is_refused(media_models: MediaModels, tmp_path: Path) -> None:
    """Its layers are no layers that adapters can change, and they are named."""
    folder = media_models.folder("qwen2_vl")
    peft_adapters.save(whole_model(folder), tmp_path / "adapter", 3, target_modules=["q_proj", "fc1"])
    executor = load_executor(str(folder), dtype="float32", device="cpu", memory_bytes=1 << 24)
    with pytest.raises(AdapterError, match=r"visual\.blocks\.0\.mlp\.fc1.* belongs to no layer"):
        executor.read_adapter(str(tmp_path / "adapter"), None)
