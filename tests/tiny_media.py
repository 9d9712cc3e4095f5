"""Model folders with tiny random weights for images, video and audio, and what transformers answers on them.

A folder has what a published one has: configuration, safetensors, tokenizer, the settings of the model's own
processors, a chat template, generation settings. Tests take it from the session's fixture ``media_models``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.tiny_media_settings import BYTES, FILES, INTERNVL_NAMES, POSITIONS, configuration

MODELS: Final[tuple[str, ...]] = ("qwen2_vl", "qwen2_5_vl", "qwen2_audio", "qwen3_vl", "qwen3_vl_moe", "internvl")
"""What can be made: values of model_type."""

FRAMES_PER_S: Final = 2.0
"""At which :func:`reference` looks at videos, as the models' authors do; but InternVL:"""
INTERNVL_FRAMES: Final = 8
"""Or all where there are fewer."""


def make_media_folder(kind: str, folder: Path, seed: int = 0) -> Path:
    """Write a model of ``MODELS`` to a folder, which is made, with weights drawn from ``seed``; the global generator
    is left alone."""
    import torch
    import transformers
    from transformers import AutoConfig

    tokens, template, settings = FILES[kind]
    ids = {token: BYTES + index for index, token in enumerate(tokens)}
    config = AutoConfig.for_model(kind, **configuration(kind, ids))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, config.architectures[0])(config).eval()
    model.generation_config.update(eos_token_id=[ids["<|im_end|>"], ids["<|endoftext|>"]], do_sample=False)
    model.save_pretrained(folder)
    _save_tokenizer(folder, ids, template, INTERNVL_NAMES if kind == "internvl" else {})
    for name, content in settings.items():
        _write(folder / name, content)
    return folder


def reference(
    folder: Path, messages: Sequence[Mapping[str, Any]], files: Sequence[Path | str], tokens: int = 8
) -> list[int]:
    """What transformers' processor and ``generate`` answer, greedily and in float32: new token ids.

    Args:
        folder: of :func:`make_media_folder`.
        messages: content as text, or as a list of parts: ``{"type": "text", "text": ...}``, ``{"type": "image"}``,
            ``{"type": "video"}``, ``{"type": "audio"}``.
        files: what the parts that are no text stand for, in their order.
        tokens: to generate; end-of-sequence tokens count as any other.
    """
    import torch
    import transformers
    from transformers import AutoConfig

    inputs = reference_inputs(folder, messages, files)
    architecture = AutoConfig.from_pretrained(folder).architectures[0]
    model = getattr(transformers, architecture).from_pretrained(folder, dtype=torch.float32).eval()
    found = model.generate(**inputs, do_sample=False, max_new_tokens=tokens, eos_token_id=None, pad_token_id=0)
    new_ids: list[int] = found[0, inputs["input_ids"].shape[1] :].tolist()
    return new_ids


def reference_inputs(folder: Path, messages: Sequence[Mapping[str, Any]], files: Sequence[Path | str]) -> Any:
    """What the folder's processor makes of a chat, as in :func:`reference`: the model's inputs, with placeholders
    expanded in ``input_ids``."""
    from transformers import AutoProcessor

    from engine.multimodal.torchvision_import import import_torchvision

    import_torchvision()

    processor = AutoProcessor.from_pretrained(folder)
    text = processor.apply_chat_template([dict(message) for message in messages], add_generation_prompt=True)
    kinds = [
        part["type"]
        for message in messages
        if not isinstance(message["content"], str)
        for part in message["content"]
        if part["type"] != "text"
    ]
    media: dict[str, Any] = {}
    for kind, file in zip(kinds, files, strict=True):
        if kind == "image":
            from transformers.image_utils import load_image

            media.setdefault("images", []).append(load_image(str(file)))
        elif kind == "video":
            frames, metadata = video_frames(processor.video_processor, file)
            media.setdefault("videos", []).append(frames)
            options = media.setdefault("videos_kwargs", {"do_sample_frames": False, "video_metadata": []})
            options["video_metadata"].append(metadata)
        else:
            from transformers.audio_utils import load_audio

            rate = processor.feature_extractor.sampling_rate
            media.setdefault("audio", []).append(load_audio(str(file), sampling_rate=rate, backend="soundfile"))
            media["audio_kwargs"] = {"sampling_rate": rate}
    return processor(text=[text], return_tensors="pt", **media)


def video_frames(video_processor: Any, file: Path | str) -> tuple[Any, Any]:
    """The frames of a video that its processor picks, ``[frames, height, width, 3]``, and the video's metadata: as
    transformers loads it with PyAV, which however reads no file that does not say its number of frames, as a WMV."""
    import av
    import numpy as np
    from transformers.video_utils import VideoMetadata

    with av.open(str(file)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        rate = float(container.streams.video[0].average_rate or 1)
    metadata = VideoMetadata(total_num_frames=len(frames), fps=rate, duration=len(frames) / rate)
    few = type(video_processor).__name__ == "InternVLVideoProcessor"
    wanted = {"num_frames": min(INTERNVL_FRAMES, len(frames))} if few else {"fps": FRAMES_PER_S}
    metadata.frames_indices = video_processor.sample_frames(metadata, **wanted).tolist()
    return np.stack([frames[index] for index in metadata.frames_indices]), metadata


class MediaModels:
    """The folders of a test session, each made when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._made: dict[str, Path] = {}

    def folder(self, kind: str) -> Path:
        """The folder of a model of ``MODELS``; tests only read it."""
        if kind not in self._made:
            # With seed 0 its answers repeat one token whatever it sees.
            seed = 3 if kind == "qwen3_vl_moe" else 0
            self._made[kind] = make_media_folder(kind, self._root / kind, seed)
        return self._made[kind]


def _save_tokenizer(folder: Path, ids: Mapping[str, int], template: str, named: Mapping[str, str]) -> None:
    """A byte-level tokenizer without merges, whose special tokens have the ids given; some of them also have names."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={symbol: index for index, symbol in enumerate(symbols)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in ids])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=dict(named) or [token for token in ids if token not in ("<|im_end|>", "<|endoftext|>")],
        model_max_length=POSITIONS,
    )
    assert {token: tokenizer.convert_tokens_to_ids(token) for token in ids} == dict(ids)
    tokenizer.save_pretrained(folder)
    # Published folders have the template in both places.
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    _write(folder / "tokenizer_config.json", {**settings, "chat_template": template})
    _write(folder / "chat_template.json", {"chat_template": template})


def _write(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(dict(content), indent=2) + "\n", encoding="utf-8")
