"""Recordings for Qwen2-Audio, by transformers' own feature extractor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.multimodal.family import Prepared
from engine.types import MediaKind


class Qwen2AudioInputs:
    """Features are named as the model's processor does: ``input_features`` float32 ``[1, mel bins, frames]`` of the
    whole window, and ``feature_attention_mask`` int32 ``[1, frames]``, 1 where the recording is."""

    kinds: frozenset[MediaKind] = frozenset({"audio"})

    def __init__(self, folder: Path) -> None:
        """Raises OSError where the folder lacks the extractor's configuration."""
        from transformers import AutoFeatureExtractor

        self._extractor: Any = AutoFeatureExtractor.from_pretrained(folder, local_files_only=True)
        self.sample_rate: int = self._extractor.sampling_rate

    def audio(self, samples: NDArray[np.float32]) -> Prepared:
        """Of a recording at ``sample_rate``, ``[samples]``. Raises ValueError where it is longer than the window, of
        which the model would not hear the rest, or too short for one embedding."""
        window = self._extractor.n_samples
        if len(samples) > window:
            rate = self.sample_rate
            raise ValueError(f"it lasts {len(samples) / rate:.1f} s, of which the model would hear {window / rate:g} s")
        made = self._extractor(
            [samples],
            sampling_rate=self.sample_rate,
            padding="max_length",
            return_attention_mask=True,
            return_tensors="pt",
        )
        mask = made["attention_mask"]
        # Two halvings, as Qwen2AudioProcessor counts: a convolution of stride 2, then a mean of pairs.
        tokens = ((int(mask.sum()) - 1) // 2 + 1 - 2) // 2 + 1
        if tokens < 1:
            raise ValueError(f"its {len(samples)} samples are too few to be heard")
        return Prepared(tokens, {"input_features": made["input_features"], "feature_attention_mask": mask})
