"""The encoder of Qwen3-VL: images and video as patches, several views of which go to the text model's layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from engine.attention.encoder import ENCODER_ATTENTION, register_encoder_attention
from engine.multimodal.features import Features, on_device
from engine.multimodal.text_part import TextPart
from engine.types import MediaKind

_PIXELS: Mapping[MediaKind, str] = {"image": "pixel_values", "video": "pixel_values_videos"}
"""Patches, ``[patches, values of a patch]``."""
_GRIDS: Mapping[MediaKind, str] = {"image": "image_grid_thw", "video": "video_grid_thw"}
"""Patches in time, height and width, ``[1, 3]``."""
_IDS = "item_ids"
"""Of a video, ``[tokens]``: frames, and the text around them."""
_TYPES: Mapping[MediaKind, int] = {"image": 1, "video": 2}
"""What stands for the kinds in transformers' token types; text is 0."""


class DeepTextPart(TextPart):
    """A text part whose first layers add more of an embedding to what goes through them, as DeepStack has it
    (https://arxiv.org/abs/2406.04334): ``inputs_embeds`` is ``[1, tokens, (1 + layers) * hidden]``, or ``hidden`` wide
    where there are no media. Rows of text are zero behind ``hidden``, which adds nothing to them."""

    def body_keywords(self, keywords: dict[str, Any]) -> dict[str, Any]:
        """See ``TextPart.body_keywords``."""
        wide: Tensor | None = keywords.get("inputs_embeds")
        if wide is None or wide.shape[-1] == self.config.hidden_size:
            return keywords
        first, *deeper = torch.split(wide, self.config.hidden_size, dim=-1)
        return {
            **keywords,
            "inputs_embeds": first,
            "visual_pos_masks": torch.ones(wide.shape[:-1], dtype=torch.bool, device=wide.device),
            "deepstack_visual_embeds": [layer[0] for layer in deeper],  # of each [tokens, hidden]
        }


class Qwen3VLEncoder:
    """The ``MediaEncoder`` of Qwen3-VL. Its features are those of ``engine.multimodal.inputs.qwen3_vl``."""

    def __init__(self, model: Any) -> None:
        """``model``: transformers' model for conditional generation."""
        self._whole = model
        register_encoder_attention()
        model.model.visual.set_attn_implementation(ENCODER_ATTENTION)
        config = model.config
        self.token_ids: Mapping[MediaKind, int] = {"image": config.image_token_id, "video": config.video_token_id}
        self.width = config.text_config.hidden_size * (1 + len(config.vision_config.deepstack_visual_indexes))

    def text_model(self) -> nn.Module:
        """See ``MediaEncoder.text_model``."""
        return DeepTextPart(self._whole)

    def encode(self, kind: MediaKind, features: Features) -> Tensor:
        """See ``MediaEncoder.encode``: of each token what it is, then what the first layers add."""
        model = self._whole.model
        of_kind = model.get_image_features if kind == "image" else model.get_video_features
        placed = on_device(features, model.device)
        found = of_kind(placed[_PIXELS[kind]], placed[_GRIDS[kind]], return_dict=True)
        views = [found.pooler_output, *found.deepstack_features]  # of each a tuple with one [embeddings, hidden]
        wide = torch.cat([torch.cat(tuple(view)) for view in views], dim=-1)  # [embeddings, width]
        ids = placed.get(_IDS)
        if ids is None:
            return wide
        text = model.get_input_embeddings()(ids).to(wide.dtype)  # [tokens, hidden]
        embeddings = pad(text, (0, self.width - text.shape[-1]))
        embeddings[ids == self.token_ids[kind]] = wide
        return embeddings

    def stops(self, kind: MediaKind) -> Sequence[nn.Module]:
        """See ``MediaEncoder.stops``: the patches' embedding, every linear layer, with those of a layer's view behind
        the layer, and attention."""
        visual = self._whole.model.visual
        modules: list[nn.Module] = [*visual.patch_embed.modules()]
        for layer, block in enumerate(visual.blocks):
            modules += block.modules()
            if layer in visual.deepstack_visual_indexes:
                modules += visual.deepstack_merger_list[visual.deepstack_visual_indexes.index(layer)].modules()
        modules += visual.merger.modules()
        attention = {id(block.attn) for block in visual.blocks}
        return [each for each in modules if isinstance(each, nn.Conv3d | nn.Linear) or id(each) in attention]

    def positions(self, kind: MediaKind, features: Features) -> tuple[Tensor, int]:
        """See ``MediaEncoder.positions``: what transformers' rule says of the item and one token of text behind it."""
        config, grid = self._whole.config, features[_GRIDS[kind]]
        token = self.token_ids[kind]
        merged = int(grid.prod()) // config.vision_config.spatial_merge_size**2
        ids = features.get(_IDS)
        prompt = torch.cat([torch.full((merged,), token) if ids is None else ids, torch.tensor([-1])])[None]
        types = (prompt == token).int() * _TYPES[kind]
        places, _ = self._whole.model.get_rope_index(prompt, mm_token_type_ids=types, **{_GRIDS[kind]: grid})
        return places[:, 0, :-1], int(places[0, 0, -1])

    def position_features(self, kind: MediaKind) -> Sequence[str]:
        """See ``MediaEncoder.position_features``."""
        return (_GRIDS[kind], _IDS) if kind == "video" else (_GRIDS[kind],)
