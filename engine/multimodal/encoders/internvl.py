"""The encoder of InternVL: images and video as tiles, and the text that its processor puts around them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from engine.multimodal.features import Features, on_device
from engine.multimodal.text_part import TextPart
from engine.types import MediaKind

_VIDEO_TOKEN: Final = "<video>"
"""What templates write where a video is, unless the tokenizer's settings name another ``video_token``."""


class InternVLEncoder:
    """The ``MediaEncoder`` of InternVL. Its features are those of ``engine.multimodal.inputs.internvl``."""

    def __init__(self, model: Any) -> None:
        """``model``: transformers' model for conditional generation."""
        self._whole = model
        self.width: int = model.config.text_config.hidden_size
        self._context_id: int = model.config.image_token_id
        self.token_ids: Mapping[MediaKind, int] = {"image": self._context_id}
        # The model's configuration does not say it: in published prompts it never reaches the model.
        video_id = _video_token_id(Path(model.config.name_or_path))
        if video_id is not None:
            self.token_ids = {**self.token_ids, "video": video_id}

    def text_model(self) -> nn.Module:
        """See ``MediaEncoder.text_model``."""
        return TextPart(self._whole)

    def encode(self, kind: MediaKind, features: Features) -> Tensor:
        """See ``MediaEncoder.encode``. Tile by tile, so that the model can be stopped within an image of many."""
        table = self._whole.get_input_embeddings()
        placed = on_device(features, table.weight.device)
        ids = placed["item_ids"]  # [tokens]
        embeddings: Tensor = table(ids)  # [tokens, hidden]
        tiles = [
            self._whole.model.get_image_features(tile[None], return_dict=True).pooler_output[0]
            for tile in placed["pixel_values"]
        ]
        embeddings[ids == self._context_id] = torch.cat(tiles).to(embeddings.dtype)
        return embeddings

    def stops(self, kind: MediaKind) -> Sequence[nn.Module]:
        """See ``MediaEncoder.stops``: every linear layer, once for each tile."""
        model = self._whole.model
        parts = (model.vision_tower, model.multi_modal_projector)
        return [module for part in parts for module in part.modules() if type(module) is nn.Linear]

    def positions(self, kind: MediaKind, features: Features) -> None:
        """See ``MediaEncoder.positions``: none of its own."""

    def position_features(self, kind: MediaKind) -> Sequence[str]:
        """See ``MediaEncoder.position_features``."""
        return ()


def _video_token_id(folder: Path) -> int | None:
    """The id of the token that stands for a video in the folder's prompts; None where its tokenizer has none."""
    settings = _read(folder / "tokenizer_config.json")
    named = settings.get("extra_special_tokens")
    token = (named.get("video_token") if isinstance(named, dict) else None) or settings.get("video_token", _VIDEO_TOKEN)
    added = _read(folder / "tokenizer.json").get("added_tokens") or []
    return next((entry["id"] for entry in added if entry.get("content") == token), None)


def _read(file: Path) -> dict[str, Any]:
    """A JSON object from a file; empty where there is none."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
