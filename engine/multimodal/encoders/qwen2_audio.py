"""The encoder of Qwen2-Audio: recordings as a log-mel spectrogram, places one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers.masking_utils import create_bidirectional_mask

from engine.multimodal.features import Features, on_device
from engine.multimodal.text_part import TextPart
from engine.types import MediaKind

_SPECTROGRAM = "input_features"
"""``[1, mel bins, frames]``, padded with silence to the length that the encoder has."""
_HEARD = "feature_attention_mask"
"""Which frames are of the recording and not padding, ``[1, frames]``."""


class Qwen2AudioEncoder:
    """The ``MediaEncoder`` of Qwen2-Audio: transformers' audio tower and projection, with the mask of its forward."""

    def __init__(self, model: Any) -> None:
        """``model``: transformers' model for conditional generation."""
        self._whole = model
        self.width: int = model.config.text_config.hidden_size
        self.token_ids: Mapping[MediaKind, int] = {"audio": model.config.audio_token_id}

    def text_model(self) -> nn.Module:
        """See ``MediaEncoder.text_model``."""
        return TextPart(self._whole)

    def encode(self, kind: MediaKind, features: Features) -> Tensor:
        """See ``MediaEncoder.encode``."""
        tower = self._whole.model.audio_tower
        placed = on_device(features, tower.device)
        convolved, tokens = tower._get_feat_extract_output_lengths(placed[_HEARD].sum(-1))  # [1], [1]
        frames = torch.arange(tower.config.max_source_positions, device=tower.device)  # after both convolutions
        heard = frames[None] < convolved[:, None]  # [1, frames]
        shape = torch.empty(*heard.shape, 1, dtype=tower.dtype, device=tower.device)
        mask = create_bidirectional_mask(config=tower.config, inputs_embeds=shape, attention_mask=heard.long())
        hidden = tower(placed[_SPECTROGRAM], attention_mask=mask).last_hidden_state  # [1, all tokens, d_model]
        embeddings: Tensor = self._whole.model.multi_modal_projector(hidden)[0, : int(tokens[0])]
        return embeddings

    def stops(self, kind: MediaKind) -> Sequence[nn.Module]:
        """See ``MediaEncoder.stops``: the convolutions and every linear layer."""
        tower = self._whole.model.audio_tower
        found: list[nn.Module] = [tower.conv1, tower.conv2]
        for layer in tower.layers:
            attention = layer.self_attn
            found += [attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj, layer.fc1, layer.fc2]
        return [*found, self._whole.model.multi_modal_projector.linear]

    def positions(self, kind: MediaKind, features: Features) -> None:
        """See ``MediaEncoder.positions``: none of its own."""

    def position_features(self, kind: MediaKind) -> Sequence[str]:
        """See ``MediaEncoder.position_features``."""
        return ()
