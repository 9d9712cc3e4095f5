"""Images and video for Qwen2-VL and Qwen2.5-VL, by transformers' own processors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.multimodal.family import Prepared, model_type
from engine.multimodal.torchvision_import import import_torchvision
from engine.types import MediaKind

if TYPE_CHECKING:
    from PIL.Image import Image

_FRAMES_PER_S: Final = 2.0
"""Where the folder names no rate: that of the models' own code (qwen-vl-utils), and of their training."""


class Qwen2VLInputs:
    """Features are named as the models' processors do: ``pixel_values`` float32 ``[patches, values]`` and
    ``image_grid_thw`` int64 ``[1, 3]`` of an image; ``pixel_values_videos`` and ``video_grid_thw`` of a video, with
    ``second_per_grid_ts`` float32 ``[1]`` for Qwen2.5-VL, whose positions follow the time.
    """

    kinds: frozenset[MediaKind] = frozenset({"image", "video"})
    sample_rate = 0

    def __init__(self, folder: Path) -> None:
        """Raises OSError where the folder lacks the processors' configuration, ImportError without torchvision."""
        import_torchvision()
        from transformers import AutoImageProcessor, AutoVideoProcessor

        self._images: Any = AutoImageProcessor.from_pretrained(folder, local_files_only=True)
        self._videos: Any = AutoVideoProcessor.from_pretrained(folder, local_files_only=True)
        if self._videos.cap_pixels_per_frame is None:  # as in the models' own code; a long video has no bound otherwise
            self._videos.cap_pixels_per_frame = True
        self._timed = model_type(folder) == "qwen2_5_vl"

    def image(self, picture: Image) -> Prepared:
        """Of a decoded picture in RGB. Raises ValueError where one side is more than 200 times the other."""
        made = self._images(images=[picture], return_tensors="pt")
        grid = made["image_grid_thw"]
        features = {"pixel_values": made["pixel_values"], "image_grid_thw": grid}
        return Prepared(_tokens(grid, self._images.merge_size), features)

    def frame_indices(self, frames: int, frames_per_s: float) -> Sequence[int]:
        """Which frames of a video the model looks at: as its processor chooses them, at the rate or to the number that
        the folder names. All of a video that is shorter than a patch."""
        if frames < self._videos.temporal_patch_size:
            return range(frames)
        from transformers.video_utils import VideoMetadata

        fixed = self._videos.num_frames
        rate = None if fixed is not None else self._videos.fps or _FRAMES_PER_S
        metadata = VideoMetadata(total_num_frames=frames, fps=frames_per_s)
        if fixed is not None:
            fixed = min(fixed, frames // self._videos.temporal_patch_size * self._videos.temporal_patch_size)
        chosen: list[int] = self._videos.sample_frames(metadata=metadata, num_frames=fixed, fps=rate).tolist()
        return chosen

    def video(
        self, pixels: Iterable[NDArray[np.uint8]], indices: Sequence[int], frames: int, frames_per_s: float
    ) -> Prepared:
        """Of the chosen frames, each ``[height, width, 3]`` and all of one size, which are made smaller one by one; the
        rest as in ``frame_indices``. Raises ValueError where one side is more than 200 times the other."""
        resized = torch.stack([self._resized(torch.from_numpy(frame), len(indices)) for frame in pixels])
        made = self._videos(videos=[resized], do_sample_frames=False, do_resize=False, return_tensors="pt")
        grid = made["video_grid_thw"]
        features = {"pixel_values_videos": made["pixel_values_videos"], "video_grid_thw": grid}
        if self._timed:
            seconds = self._videos.temporal_patch_size / (len(indices) / frames * frames_per_s)
            features["second_per_grid_ts"] = torch.tensor([seconds], dtype=torch.float32)
        return Prepared(_tokens(grid, self._videos.merge_size), features)

    def _resized(self, frame: Tensor, frames: int) -> Tensor:
        """One of so many frames, ``[height, width, 3]``, as the processor resizes all: ``[3, height, width]``."""
        from transformers.image_utils import SizeDict
        from transformers.video_processing_utils import BaseVideoProcessor

        videos = self._videos
        alone = frame.permute(2, 0, 1)[None, None]  # [1, 1, 3, height, width]
        if not videos.do_resize:
            return alone[0, 0]
        # Only shapes are computed for all of them: the processor shares its pixels among the frames.
        together = videos.resize(
            alone.expand(1, frames, -1, -1, -1).to("meta"),
            size=videos.size,
            resample=videos.resample,
            factor=videos.patch_size * videos.merge_size,
            temporal_factor=videos.temporal_patch_size,
            cap_pixels_per_frame=videos.cap_pixels_per_frame,
        )
        height, width = together.shape[-2:]
        resized: Tensor = BaseVideoProcessor.resize(
            videos, alone, size=SizeDict(height=height, width=width), resample=videos.resample
        )
        return resized[0, 0]


def _tokens(grid: Tensor, merge_size: int) -> int:
    return int(grid.prod()) // merge_size**2
