"""What an NPU's operators cannot do is refused at load, by name."""

from __future__ import annotations

from types import SimpleNamespace

import families
import pytest
import torch
from cpu_npu import CpuNpuRunner

from engine.attention.npu import most_pages
from engine.attention.registry import LayerShape
from engine.forward import ModelMismatch
from engine.npu.runner import NpuRunner
from engine.torch_runner import build


def test_soft_caps_are_refused() -> None:
    """Gemma 2 caps its scores."""
    model = families.build("gemma2", max_position_embeddings=512).to(torch.bfloat16)
    with pytest.raises(ModelMismatch, match="caps scores softly, which torch_npu's operator does not do"):
        build(families.loaded(model), page_size=128, kind=CpuNpuRunner)


def test_a_model_on_another_device_is_refused() -> None:
    """The runner says for what it is."""
    loaded = families.loaded(families.build("llama"))
    with pytest.raises(ModelMismatch, match="for npu devices, and the model is on cpu"):
        NpuRunner.refuse(loaded, 128)


@pytest.mark.parametrize("page_size", [64, 256])
def test_pages_of_another_size_are_refused(page_size: int) -> None:
    """The operator's blocks have 128 tokens."""
    loaded = families.loaded(SimpleNamespace(device=SimpleNamespace(type="npu"), dtype=torch.bfloat16))
    NpuRunner.refuse(loaded, 128)
    with pytest.raises(ModelMismatch, match=f"pages on an NPU have 128 tokens, not {page_size}"):
        NpuRunner.refuse(loaded, page_size)


def test_no_more_pages_than_the_operator_can_address() -> None:
    """A layer's keys have fewer than 2^31 numbers: 8 heads of 128 give 16,383 pages, two million tokens."""
    shapes = [LayerShape(32, 8, 128, 128)]
    assert most_pages(shapes) == 16_383
    assert NpuRunner.pages(shapes, 1 << 50, 1.0, 128, torch.bfloat16) == 16_383
    assert NpuRunner.pages(shapes, 1 << 30, 1.0, 128, torch.bfloat16) == (1 << 30) // (2 * 128 * 8 * 128 * 2)
