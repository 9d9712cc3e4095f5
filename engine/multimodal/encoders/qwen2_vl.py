"""The encoder of Qwen2-VL and Qwen2.5-VL: images and video as patches, places on three axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from engine.attention.encoder import ENCODER_ATTENTION, register_encoder_attention
from engine.multimodal.features import Features, on_device
from engine.multimodal.text_part import TextPart
from engine.types import MediaKind

_PIXELS: Mapping[MediaKind, str] = {"image": "pixel_values", "video": "pixel_values_videos"}
"""Patches, ``[patches, values of a patch]``."""
_GRIDS: Mapping[MediaKind, str] = {"image": "image_grid_thw", "video": "video_grid_thw"}
"""Patches in time, height and width, ``[1, 3]``."""
_INTERVALS = "second_per_grid_ts"
"""Seconds between two of them in time, ``[1]``: of videos, where the model has seen real time in training."""
_TYPES: Mapping[MediaKind, int] = {"image": 1, "video": 2}
"""What stands for the kinds in transformers' token types; text is 0."""


class Qwen2VLEncoder:
    """The ``MediaEncoder`` of both families, by transformers' own forward and its own rule of places."""

    def __init__(self, model: Any) -> None:
        """``model``: transformers' model for conditional generation."""
        self._whole = model
        register_encoder_attention()
        model.model.visual.set_attn_implementation(ENCODER_ATTENTION)
        config = model.config
        self.token_ids: Mapping[MediaKind, int] = {"image": config.image_token_id, "video": config.video_token_id}
        self.width: int = model.config.text_config.hidden_size
        self._real_time = config.model_type == "qwen2_5_vl"

    def text_model(self) -> nn.Module:
        """See ``MediaEncoder.text_model``."""
        return TextPart(self._whole)

    def encode(self, kind: MediaKind, features: Features) -> Tensor:
        """See ``MediaEncoder.encode``."""
        model = self._whole.model
        placed = on_device(features, model.device)
        pixels, grid = placed[_PIXELS[kind]], placed[_GRIDS[kind]]
        of_kind = model.get_image_features if kind == "image" else model.get_video_features
        return torch.cat(of_kind(pixels, grid, return_dict=True).pooler_output)

    def stops(self, kind: MediaKind) -> Sequence[nn.Module]:
        """See ``MediaEncoder.stops``: the patches' embedding, every linear layer, and attention."""
        visual = self._whole.model.visual
        attention = {id(block.attn) for block in visual.blocks}
        return [each for each in visual.modules() if isinstance(each, nn.Conv3d | nn.Linear) or id(each) in attention]

    def positions(self, kind: MediaKind, features: Features) -> tuple[Tensor, int]:
        """See ``MediaEncoder.positions``: what transformers' rule says of the item and one token of text behind it."""
        grid = features[_GRIDS[kind]]
        merged = self._whole.config.vision_config.spatial_merge_size**2
        tokens = int(grid.prod()) // merged
        prompt = torch.tensor([[self.token_ids[kind]] * tokens + [0]])
        types = torch.tensor([[_TYPES[kind]] * tokens + [0]], dtype=torch.int32)
        timed = {_INTERVALS: features[_INTERVALS]} if kind == "video" and self._real_time else {}
        grids = {_GRIDS[kind]: grid}
        places, _ = self._whole.model.get_rope_index(prompt, mm_token_type_ids=types, **grids, **timed)
        return places[:, 0, :tokens], int(places[0, 0, tokens])

    def position_features(self, kind: MediaKind) -> Sequence[str]:
        """See ``MediaEncoder.position_features``."""
        return (_GRIDS[kind], _INTERVALS) if kind == "video" and self._real_time else (_GRIDS[kind],)
