"""Requests with media for the engine's tests, made as the server makes them, and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import soundfile
from PIL import Image
from transformers import AutoTokenizer

from engine.executor import Executor
from engine.multimodal.family import MediaInputs, Prepared, inputs_of
from engine.multimodal.features import content_hash, save_features
from engine.scheduler import Scheduler
from engine.types import MediaItem, MediaKind, Request, SamplingParams, StepOutput


@dataclass(frozen=True)
class MediaModel:
    """The text side of a model folder."""

    folder: Path
    tokenizer: Any
    inputs: MediaInputs
    token_ids: Mapping[MediaKind, int]
    spool: Path

    @classmethod
    def of(cls, folder: Path, token_ids: Mapping[MediaKind, int], spool: Path) -> MediaModel:
        """Args:
        folder: of ``tests.tiny_media``.
        token_ids: what stands for media in its prompts; see ``MediaEncoder.token_ids``.
        spool: where the encoder's inputs are written.
        """
        inputs = inputs_of(folder)
        assert inputs is not None
        return cls(folder, AutoTokenizer.from_pretrained(folder), inputs, token_ids, spool)

    def request(
        self, request_id: str, messages: Sequence[Mapping[str, Any]], files: Sequence[Path], **sampling: Any
    ) -> Request:
        """A chat, as in ``tests.tiny_media.reference``, greedy and past every end-of-sequence token, unless
        ``sampling`` says otherwise."""
        text = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
        )
        kind_of = {token: kind for kind, token in self.token_ids.items()}
        waiting = iter(files)
        ids: list[int] = []
        items: list[MediaItem] = []
        for token in self.tokenizer(text, add_special_tokens=False)["input_ids"]:
            kind = kind_of.get(token)
            if kind is None:
                ids.append(token)
                continue
            made = self.prepared(kind, next(waiting))
            path = self.spool / f"{request_id}-{len(items)}.safetensors"
            save_features(path, made.features)
            items.append(MediaItem(kind, len(ids), made.tokens, content_hash(kind, made.features), str(path)))
            ids += [token] * made.tokens
        assert next(waiting, None) is None
        params = SamplingParams(**{"max_tokens": 8, "temperature": 0.0, "ignore_eos": True, **sampling})
        return Request(request_id, tuple(ids), params, media=tuple(items))

    def prepared(self, kind: MediaKind, file: Path) -> Prepared:
        """What the model's processor makes of a file."""
        if kind == "image":
            return self.inputs.image(Image.open(file).convert("RGB"))
        if kind == "audio":
            samples, rate = soundfile.read(file, dtype="float32")
            assert (rate, samples.ndim) == (self.inputs.sample_rate, 1)
            return self.inputs.audio(np.ascontiguousarray(samples))
        with av.open(str(file)) as container:
            frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
            rate = float(container.streams.video[0].average_rate or 1)
        indices = self.inputs.frame_indices(len(frames), rate)
        return self.inputs.video((frames[index] for index in indices), indices, len(frames), rate)


def answers(executor: Executor, *requests: Request, rounds: int = 20_000) -> dict[str, list[int]]:
    """The tokens of each request's first choice, by its id, when all come at once."""
    scheduler = Scheduler(executor, 10**6)
    for request in requests:
        scheduler.submit(request, 0)
    found: dict[str, list[int]] = {request.request_id: [] for request in requests}
    for _ in range(rounds):
        if not scheduler.has_work:
            return found
        for outcome in scheduler.run_round():
            assert isinstance(outcome, StepOutput), outcome
            found[outcome.request_id] += [token.token_id for token in outcome.tokens if token.choice == 0]
    raise AssertionError(f"no end after {rounds} rounds")
