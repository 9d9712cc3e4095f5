"""The encoder's input as a file and as a hash: what was written is read, and all that an encoder sees counts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.multimodal.features import content_hash, load_feature, load_features, save_features
from engine.types import MediaKind

PIXELS = torch.arange(20_000, dtype=torch.float32).reshape(100, 200)
GRID = torch.tensor([[1, 10, 10]])
FEATURES = {"pixel_values": PIXELS, "image_grid_thw": GRID}


def with_last(tensor: Tensor, number: float) -> Tensor:
    """A copy with another last number."""
    copy = tensor.clone()
    copy.view(-1)[-1] = number
    return copy


OTHERS: dict[str, tuple[MediaKind, dict[str, Tensor]]] = {
    "kind": ("video", FEATURES),
    "name": ("image", {"pixels": PIXELS, "image_grid_thw": GRID}),
    "dtype": ("image", {**FEATURES, "pixel_values": PIXELS.view(torch.int32)}),
    "shape": ("image", {**FEATURES, "pixel_values": PIXELS.reshape(200, 100)}),
    "last number of a long tensor": ("image", {**FEATURES, "pixel_values": with_last(PIXELS, 0.5)}),
    "last number of a short one": ("image", {**FEATURES, "image_grid_thw": with_last(GRID, 11)}),
    "a tensor less": ("image", {"pixel_values": PIXELS}),
    "names changed over": ("image", {"pixel_values": GRID, "image_grid_thw": PIXELS}),
}


@pytest.mark.parametrize("what", OTHERS)
def test_whatever_an_encoder_sees_changes_the_hash(what: str) -> None:
    """Embeddings and pages are found by it: what is encoded for one content must never be given to another."""
    kind, features = OTHERS[what]
    assert content_hash(kind, features) != content_hash("image", FEATURES)


def test_how_tensors_lie_in_memory_does_not_change_the_hash() -> None:
    """Nor does the order of their names: the server hashes what it read from a file, which has an order of its own."""
    turned = PIXELS.t().contiguous().t()  # the same numbers, a column after the other
    assert content_hash("image", {"image_grid_thw": GRID, "pixel_values": turned}) == content_hash("image", FEATURES)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """All of it, or one tensor."""
    save_features(tmp_path / "features", {**FEATURES, "pixel_values": PIXELS.t()})
    read = load_features(str(tmp_path / "features"))
    assert set(read) == {"pixel_values", "image_grid_thw"}
    assert torch.equal(read["pixel_values"], PIXELS.t())
    assert torch.equal(load_feature(str(tmp_path / "features"), "image_grid_thw"), GRID)
