"""What a family of models has to know for media: one side with its processors, one with its weights."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from engine.types import MediaKind

if TYPE_CHECKING:  # the HTTP side asks for the families without having torch
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image
    from torch import Tensor, nn

    from engine.multimodal.features import Features

INPUTS: Final[Mapping[str, str]] = {
    "qwen2_vl": "engine.multimodal.inputs.qwen2_vl:Qwen2VLInputs",
    "qwen2_5_vl": "engine.multimodal.inputs.qwen2_vl:Qwen2VLInputs",
    "qwen2_audio": "engine.multimodal.inputs.qwen2_audio:Qwen2AudioInputs",
    "qwen3_vl": "engine.multimodal.inputs.qwen3_vl:Qwen3VLInputs",
    "qwen3_vl_moe": "engine.multimodal.inputs.qwen3_vl:Qwen3VLInputs",
    "internvl": "engine.multimodal.inputs.internvl:InternVLInputs",
}
"""Per model_type of config.json the class of its ``MediaInputs``, as module:name."""

ENCODERS: Final[Mapping[str, str]] = {
    "qwen2_vl": "engine.multimodal.encoders.qwen2_vl:Qwen2VLEncoder",
    "qwen2_5_vl": "engine.multimodal.encoders.qwen2_vl:Qwen2VLEncoder",
    "qwen2_audio": "engine.multimodal.encoders.qwen2_audio:Qwen2AudioEncoder",
    "qwen3_vl": "engine.multimodal.encoders.qwen3_vl:Qwen3VLEncoder",
    "qwen3_vl_moe": "engine.multimodal.encoders.qwen3_vl:Qwen3VLEncoder",
    "internvl": "engine.multimodal.encoders.internvl:InternVLEncoder",
}
"""Per model_type the class of its ``MediaEncoder``."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a processor made of one item."""

    tokens: int
    """Embeddings that the encoder will give for it, each of which has a place in the prompt."""
    features: Features
    """The encoder's input."""


class MediaInputs(Protocol):
    """The processors of a model folder. A class of it is made with the folder's path alone and reads no weights; it
    needs the methods of its kinds only.

    A ValueError of a method says what an item should be for the model; its text is for the client.
    """

    kinds: frozenset[MediaKind]
    sample_rate: int
    """Of the audio that it wants, in samples a second; 0 where it takes none."""

    def image(self, picture: Image) -> Prepared:
        """Of a decoded picture in RGB."""
        ...

    def frame_indices(self, frames: int, frames_per_s: float) -> Sequence[int]:
        """Which frames of a video the model looks at, ascending, given how many it has and how fast they come."""
        ...

    def video(
        self, pixels: Iterable[NDArray[np.uint8]], indices: Sequence[int], frames: int, frames_per_s: float
    ) -> Prepared:
        """Of the chosen frames, each ``[height, width, 3]`` and all of one size, decoded while they are read: so many
        in full size would be gigabytes. The rest as in ``frame_indices``."""
        ...

    def audio(self, samples: NDArray[np.float32]) -> Prepared:
        """Of a recording at ``sample_rate``, one channel, ``[samples]`` in -1..1."""
        ...


class MediaEncoder(Protocol):
    """The encoders of a loaded model. A class of it is made with transformers' model alone."""

    token_ids: Mapping[MediaKind, int]
    """The token that stands for one embedding in a prompt."""
    width: int
    """Numbers of an embedding: the text model's ``hidden``, or more, where its inner layers read of it too."""

    def text_model(self) -> nn.Module:
        """The model's text part with its output layer, called like a causal language model of transformers, and also
        with ``inputs_embeds`` ``[1, tokens, width]`` in place of ``input_ids``, in which rows of text are zero behind
        ``hidden``. The configuration is the text's."""
        ...

    def encode(self, kind: MediaKind, features: Features) -> Tensor:
        """Embeddings of one item, ``[tokens, width]``, with transformers' own code."""
        ...

    def stops(self, kind: MediaKind) -> Sequence[nn.Module]:
        """Modules, in the order of an ``encode``, before each of which it may pause for steps of other requests."""
        ...

    def positions(self, kind: MediaKind, features: Features) -> tuple[Tensor, int] | None:
        """Where the item's tokens stand, counted from the place where it begins: int64 ``[axes, tokens]``, and by how
        much the place of the token behind it is further on. None: one place after the other on one axis."""
        ...

    def position_features(self, kind: MediaKind) -> Sequence[str]:
        """Names of the features that ``positions`` needs; they are small."""
        ...


def model_type(folder: Path) -> str:
    """The model_type that a folder's config.json names; empty where it names none."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    named = config.get("model_type") if isinstance(config, dict) else None
    return named if isinstance(named, str) else ""


def inputs_of(folder: Path) -> MediaInputs | None:
    """The media side of a model folder; None for models that read text only."""
    place = INPUTS.get(model_type(folder))
    inputs: MediaInputs | None = None if place is None else _find(place)(folder)
    return inputs


def encoder_of(model: Any) -> MediaEncoder | None:
    """The encoders of transformers' model; None for models that read text only."""
    place = ENCODERS.get(model.config.model_type)
    encoder: MediaEncoder | None = None if place is None else _find(place)(model)
    return encoder


def _find(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
