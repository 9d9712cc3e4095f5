"""Images and video for Qwen3-VL, by transformers' own processor: a video is a run of frames, each behind its time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from engine.multimodal.family import Prepared
from engine.multimodal.inputs.qwen2_vl import Qwen2VLInputs


class Qwen3VLInputs(Qwen2VLInputs):
    """Features as of Qwen2-VL; a video has ``item_ids`` int64 ``[tokens]`` besides.

    The processor writes a time before each pair of frames and marks around it. All of that belongs to the item here, so
    that it is one run of tokens in the prompt: ``item_ids`` are its tokens, in which those of the frames stand for
    embeddings of the encoder, and the others for themselves. Penalties of repetition do not see those others.
    """

    def __init__(self, folder: Path) -> None:
        """Raises OSError where the folder lacks the processors' configuration, ImportError without torchvision."""
        super().__init__(folder)
        from transformers import AutoProcessor

        self._processor: Any = AutoProcessor.from_pretrained(folder, local_files_only=True)
        self._processor.video_processor = self._videos

    def video(
        self, pixels: Iterable[NDArray[np.uint8]], indices: Sequence[int], frames: int, frames_per_s: float
    ) -> Prepared:
        """See ``Qwen2VLInputs.video``. Raises ValueError also where there is no second frame."""
        if len(indices) < self._videos.temporal_patch_size:
            raise ValueError(f"it has {len(indices)} frame, and the model looks at {self._videos.temporal_patch_size}")
        from transformers.video_utils import VideoMetadata

        resized = torch.stack([self._resized(torch.from_numpy(frame), len(indices)) for frame in pixels])
        metadata = VideoMetadata(total_num_frames=frames, fps=frames_per_s, frames_indices=list(indices))
        made = self._processor(
            text=[self._processor.video_token],
            videos=[resized],
            return_tensors="pt",
            text_kwargs={"add_special_tokens": False, "padding": False},
            videos_kwargs={"do_sample_frames": False, "do_resize": False, "video_metadata": [metadata]},
        )
        ids = made["input_ids"][0]  # [tokens]
        features = {name: made[name] for name in ("pixel_values_videos", "video_grid_thw")}
        return Prepared(len(ids), {**features, "item_ids": ids})
