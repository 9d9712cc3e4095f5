"""Images and video for InternVL, by transformers' own processor: tiles of one size, and the text around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.multimodal.family import Prepared
from engine.multimodal.torchvision_import import import_torchvision
from engine.types import MediaKind

if TYPE_CHECKING:
    from PIL.Image import Image

_FRAMES: Final = 8
"""Where the folder names neither a number nor a rate: as in the authors' examples, from the middles of equal parts."""


class InternVLInputs:
    """Features are ``pixel_values`` float32 ``[tiles, 3, height, width]``, and ``item_ids`` int64 ``[tokens]``.

    The processor puts marks around each image, and before each frame of a video its number. All of that belongs to the
    item here, so that it is one run of tokens in the prompt: ``item_ids`` are its tokens, in which those of the tiles
    stand for embeddings of the encoder, and the others for themselves. Penalties of repetition do not see those others.
    """

    kinds: frozenset[MediaKind] = frozenset({"image", "video"})
    sample_rate = 0

    def __init__(self, folder: Path) -> None:
        """Raises OSError where the folder lacks the processor's configuration, ImportError without torchvision."""
        import_torchvision()
        from transformers import AutoProcessor

        self._processor: Any = AutoProcessor.from_pretrained(folder, local_files_only=True)

    def image(self, picture: Image) -> Prepared:
        """Of a decoded picture in RGB."""
        return self._prepared(text=self._processor.image_token, images=[picture])

    def frame_indices(self, frames: int, frames_per_s: float) -> Sequence[int]:
        """Which frames of a video the model looks at: as its processor chooses them, to the number or at the rate that
        the folder names; one at least."""
        from transformers.video_utils import VideoMetadata

        videos = self._processor.video_processor
        wanted = videos.num_frames
        if wanted is None:
            wanted = _FRAMES if videos.fps is None else int(frames / frames_per_s * videos.fps)
        metadata = VideoMetadata(total_num_frames=frames, fps=frames_per_s)
        chosen: list[int] = videos.sample_frames(metadata, num_frames=min(max(wanted, 1), frames)).tolist()
        return chosen

    def video(
        self, pixels: Iterable[NDArray[np.uint8]], indices: Sequence[int], frames: int, frames_per_s: float
    ) -> Prepared:
        """Of the chosen frames, each ``[height, width, 3]``, which are made smaller one by one; the rest as in
        ``frame_indices``."""
        resized = torch.stack(
            [self._resized(torch.from_numpy(frame)) for frame in pixels]
        )  # [frames, 3, height, width]
        options = {"do_sample_frames": False, "do_resize": False}
        return self._prepared(text=self._processor.video_token, videos=[resized], videos_kwargs=options)

    def audio(self, samples: NDArray[np.float32]) -> Prepared:
        """Raises NotImplementedError: the models do not hear."""
        raise NotImplementedError

    def _resized(self, frame: Tensor) -> Tensor:
        """A frame ``[height, width, 3]`` in the size of a tile, ``[3, height, width]``."""
        videos = self._processor.video_processor
        channels_first = frame.permute(2, 0, 1)[None]  # [1, 3, height, width]
        if not videos.do_resize:
            return channels_first[0]
        resized: Tensor = videos.resize(channels_first, size=videos.size, resample=videos.resample)
        return resized[0]

    def _prepared(self, *, text: str, **media: Any) -> Prepared:
        made = self._processor(
            text=[text], return_tensors="pt", text_kwargs={"add_special_tokens": False, "padding": False}, **media
        )
        ids: Tensor = made["input_ids"][0]  # [tokens]
        return Prepared(len(ids), {"pixel_values": made["pixel_values"], "item_ids": ids})
