"""Model folders with tiny random weights for images, video and audio, and what transformers answers on them.

A folder has what a published one has: configuration, safetensors, tokenizer, the settings of the model's own
processors, a chat template, generation settings. Tests take it from the session's fixture ``media_models``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

MODELS: Final[tuple[str, ...]] = ("qwen2_vl", "qwen2_5_vl", "qwen2_audio", "internvl")
"""What can be made: values of model_type."""

FRAMES_PER_S: Final = 2.0
"""At which :func:`reference` looks at videos, as the models' authors do; but InternVL:"""
INTERNVL_FRAMES: Final = 8
"""Or all where there are fewer."""

POSITIONS: Final = 1024
"""Context length of all of them."""

_QWEN_VL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_QWEN_AUDIO_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>")
_INTERNVL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<video>")
_INTERNVL_NAMES: Mapping[str, str] = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<IMG_CONTEXT>",
    "video_token": "<video>",
}
"""What its processor asks the tokenizer for."""
_BYTES = 256
"""A token each; the special tokens come after them."""

_QWEN_VL_TEMPLATE = """\
{%- if messages[0].role != 'system' -%}<|im_start|>system
You are a helpful assistant.<|im_end|>
{% endif -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string -%}{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' or 'image' in part or 'image_url' in part -%}
<|vision_start|><|image_pad|><|vision_end|>
{%- elif part.type == 'video' or 'video' in part -%}
<|vision_start|><|video_pad|><|vision_end|>
{%- elif 'text' in part -%}{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""
_QWEN_AUDIO_TEMPLATE = """\
{%- set heard = namespace(count=0) -%}
{%- if messages[0].role != 'system' -%}<|im_start|>system
You are a helpful assistant.<|im_end|>
{% endif -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string -%}{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if 'audio' in part or 'audio_url' in part or part.type == 'audio' -%}
{%- set heard.count = heard.count + 1 -%}
Audio {{ heard.count }}: <|audio_bos|><|AUDIO|><|audio_eos|>
{% elif 'text' in part -%}{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""
_INTERNVL_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string -%}{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' %}<IMG_CONTEXT>
{% elif part.type == 'video' %}<video>
{% elif part.type == 'text' -%}{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""

_TEXT: Mapping[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": POSITIONS,
    "initializer_range": 0.2,
}
_MROPE: Mapping[str, Any] = {
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0, "mrope_section": [2, 3, 3]}
}
_QWEN_VL_PROCESSOR: Mapping[str, Any] = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    # At least 2 and at most 64 embeddings for an image or a pair of frames.
    "min_pixels": 2 * 28 * 28,
    "max_pixels": 64 * 28 * 28,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
}
_INTERNVL_IMAGES: Mapping[str, Any] = {
    "image_processor_type": "GotOcr2ImageProcessor",
    "processor_class": "InternVLProcessor",
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    # 16 patches of a tile become 4 embeddings.
    "size": {"height": 56, "width": 56},
    "min_patches": 1,
    "max_patches": 4,
}
_AUDIO_S = 2
"""Recordings are padded to it or cut there; published models have 30."""
_WHISPER: Mapping[str, Any] = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "processor_class": "Qwen2AudioProcessor",
    "feature_size": 16,
    "sampling_rate": 16_000,
    "hop_length": 160,
    "n_fft": 400,
    "chunk_length": _AUDIO_S,
    "n_samples": _AUDIO_S * 16_000,
    "nb_max_frames": _AUDIO_S * 100,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
}

_FILES: Mapping[str, tuple[Sequence[str], str, Mapping[str, Mapping[str, Any]]]] = {
    "qwen2_vl": (
        _QWEN_VL_TOKENS,
        _QWEN_VL_TEMPLATE,
        {"preprocessor_config.json": {**_QWEN_VL_PROCESSOR, "processor_class": "Qwen2VLProcessor"}},
    ),
    "qwen2_5_vl": (
        _QWEN_VL_TOKENS,
        _QWEN_VL_TEMPLATE,
        {"preprocessor_config.json": {**_QWEN_VL_PROCESSOR, "processor_class": "Qwen2_5_VLProcessor"}},
    ),
    "qwen2_audio": (_QWEN_AUDIO_TOKENS, _QWEN_AUDIO_TEMPLATE, {"preprocessor_config.json": _WHISPER}),
    "internvl": (
        _INTERNVL_TOKENS,
        _INTERNVL_TEMPLATE,
        {
            "preprocessor_config.json": _INTERNVL_IMAGES,
            "video_preprocessor_config.json": {
                **{name: _INTERNVL_IMAGES[name] for name in ("image_mean", "image_std", "size", "processor_class")},
                "video_processor_type": "InternVLVideoProcessor",
            },
            "processor_config.json": {"processor_class": "InternVLProcessor", "image_seq_length": 4},
        },
    ),
}
"""Of each model its special tokens, its template, and files of settings by their names."""


def make_media_folder(kind: str, folder: Path, seed: int = 0) -> Path:
    """Write a model of ``MODELS`` to a folder, which is made, with weights drawn from ``seed``; the global generator
    is left alone."""
    import torch
    import transformers
    from transformers import AutoConfig

    tokens, template, settings = _FILES[kind]
    ids = {token: _BYTES + index for index, token in enumerate(tokens)}
    config = AutoConfig.for_model(kind, **_config(kind, ids))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, config.architectures[0])(config).eval()
    model.generation_config.update(eos_token_id=[ids["<|im_end|>"], ids["<|endoftext|>"]], do_sample=False)
    model.save_pretrained(folder)
    _save_tokenizer(folder, ids, template, _INTERNVL_NAMES if kind == "internvl" else {})
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
            self._made[kind] = make_media_folder(kind, self._root / kind)
        return self._made[kind]


def _config(kind: str, ids: Mapping[str, int]) -> dict[str, Any]:
    """Arguments of the configuration of a model with these special tokens."""
    named = {"vocab_size": _BYTES + len(ids), "bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"]}
    text = {**_TEXT, **named}
    if kind == "qwen2_audio":
        encoder = {
            "num_mel_bins": _WHISPER["feature_size"],
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "d_model": 32,
            "max_source_positions": _AUDIO_S * 50,
            "initializer_range": 0.2,
        }
        return {
            "architectures": ["Qwen2AudioForConditionalGeneration"],
            "text_config": {**text, "model_type": "qwen2"},
            "audio_config": {**encoder, "model_type": "qwen2_audio_encoder"},
            "audio_token_index": ids["<|AUDIO|>"],
        }
    if kind == "internvl":
        tower = {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 48,
            "image_size": [56, 56],
            "initializer_range": 0.2,
        }
        return {
            "architectures": ["InternVLForConditionalGeneration"],
            "text_config": {**text, "model_type": "qwen2"},
            "vision_config": tower,
            "image_token_id": ids["<IMG_CONTEXT>"],
            "image_seq_length": 4,
        }
    vision: dict[str, Any] = {"depth": 2, "num_heads": 4, "patch_size": 14, "initializer_range": 0.2}
    if kind == "qwen2_vl":
        architecture = "Qwen2VLForConditionalGeneration"
        vision |= {"embed_dim": 32, "hidden_size": text["hidden_size"], "mlp_ratio": 2}
    else:
        architecture = "Qwen2_5_VLForConditionalGeneration"
        vision |= {"hidden_size": 32, "intermediate_size": 48, "out_hidden_size": text["hidden_size"]}
        # Windows of 4 x 4 embeddings, in the first of the two layers only.
        vision |= {"window_size": 112, "fullatt_block_indexes": [1], "tokens_per_second": 2}
    return {
        "architectures": [architecture],
        "text_config": {**text, **_MROPE},
        "vision_config": vision,
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }


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
