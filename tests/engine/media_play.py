"""Requests with media for the engine's tests, made by transformers' processors, and what its generate answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMultimodalLM

from engine.executor import Executor
from engine.multimodal.features import content_hash, save_features
from engine.scheduler import Scheduler
from engine.types import MediaItem, MediaKind, Request, SamplingParams, StepOutput
from tests.media.files import media_file
from tests.tiny_media import reference_inputs

SUFFIXES: Mapping[str, str] = {"image": "png", "video": "mp4"}
_KINDS: Mapping[int, MediaKind] = {1: "image", 2: "video"}
_NAMES: Mapping[str, tuple[str, str]] = {
    "image": ("pixel_values", "image_grid_thw"),
    "video": ("pixel_values_videos", "video_grid_thw"),
}


@cache
def whole_model(folder: Path) -> Any:
    """transformers' model of a folder, in float32."""
    return AutoModelForMultimodalLM.from_pretrained(folder, dtype=torch.float32).eval()


class Asked:
    """A user's message as the processor makes it, of texts and ``("image", seed)`` and ``("video", seed)``.

    In place of the seed of a small file the file's content may stand.
    """

    def __init__(self, folder: Path, scratch: Path, *parts: str | tuple[str, int | bytes]) -> None:
        self.folder = folder
        self._scratch = scratch
        content = [{"type": "text", "text": part} if isinstance(part, str) else {"type": part[0]} for part in parts]
        files = [self._file(*part) for part in parts if not isinstance(part, str)]
        self.inputs = reference_inputs(folder, [{"role": "user", "content": content}], files)
        self.prompt: list[int] = self.inputs["input_ids"][0].tolist()

    def request(self, name: str, *, max_tokens: int = 8, **sampling: Any) -> Request:
        """Of this message, greedy unless ``sampling`` says otherwise."""
        params = SamplingParams(**{"max_tokens": max_tokens, "temperature": 0.0, "ignore_eos": True, **sampling})
        return Request(name, tuple(self.prompt), params, media=self.media())

    def media(self) -> tuple[MediaItem, ...]:
        """The items, with their features in files."""
        types = self.inputs["mm_token_type_ids"][0].tolist() if "mm_token_type_ids" in self.inputs else []
        items: list[MediaItem] = []
        used = {"image": 0, "video": 0}
        index = 0
        for number, run in groupby(types):
            tokens = len(list(run))
            if number:
                kind = _KINDS[number]
                features = self._features(kind, used[kind])
                used[kind] += 1
                digest = content_hash(kind, features)
                path = self._scratch / digest.hex()
                save_features(path, features)
                items.append(MediaItem(kind, index, tokens, digest, str(path)))
            index += tokens
        return tuple(items)

    def generate(self, tokens: int = 8, model: Any = None) -> list[int]:
        """What transformers answers greedily, with ``model`` or the folder's."""
        found = (model or whole_model(self.folder)).generate(
            **self.inputs, do_sample=False, max_new_tokens=tokens, eos_token_id=None, pad_token_id=0
        )
        new: list[int] = found[0, len(self.prompt) :].tolist()
        return new

    def _features(self, kind: MediaKind, number: int) -> dict[str, torch.Tensor]:
        pixels, grids = _NAMES[kind]
        sizes = self.inputs[grids].prod(-1).tolist()
        features = {
            pixels: torch.split(self.inputs[pixels], sizes)[number],
            grids: self.inputs[grids][number : number + 1],
        }
        if kind == "video" and "second_per_grid_ts" in self.inputs:
            seconds: Sequence[float] = self.inputs["second_per_grid_ts"]
            features["second_per_grid_ts"] = torch.as_tensor(seconds, dtype=torch.float32)[number : number + 1]
        return features

    def _file(self, kind: str, content: int | bytes) -> Path:
        suffix = SUFFIXES[kind]
        data = content if isinstance(content, bytes) else media_file(suffix, content)
        file = self._scratch / f"{blake2b(data).hexdigest()}.{suffix}"
        file.write_bytes(data)
        return file


def run(executor: Executor, *requests: Request) -> dict[str, list[int]]:
    """Run requests to their end, together: the first choice's tokens of each, by id."""
    scheduler = Scheduler(executor, 64)
    for request in requests:
        scheduler.submit(request, 0)
    found: dict[str, list[int]] = {request.request_id: [] for request in requests}
    while scheduler.has_work:
        for output in scheduler.run_round():
            assert isinstance(output, StepOutput), output
            found[output.request_id] += [token.token_id for token in output.tokens if token.choice == 0]
    return found
