"""What the tiny models of the media tests are made of: special tokens, templates, processors and configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

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
INTERNVL_NAMES: Mapping[str, str] = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<IMG_CONTEXT>",
    "video_token": "<video>",
}
"""What its processor asks the tokenizer for."""
BYTES = 256
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
_QWEN3_VL_PROCESSOR: Mapping[str, Any] = {
    "processor_class": "Qwen3VLProcessor",
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "patch_size": 16,
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

_Files = tuple[Sequence[str], str, Mapping[str, Mapping[str, Any]]]

_QWEN3_VL: _Files = (
    _QWEN_VL_TOKENS,
    _QWEN_VL_TEMPLATE,
    {
        "preprocessor_config.json": {
            **_QWEN3_VL_PROCESSOR,
            "image_processor_type": "Qwen2VLImageProcessor",
            "size": {"shortest_edge": 2 * 32 * 32, "longest_edge": 64 * 32 * 32},
        },
        "video_preprocessor_config.json": {
            **_QWEN3_VL_PROCESSOR,
            "video_processor_type": "Qwen3VLVideoProcessor",
            # Of all frames together.
            "size": {"shortest_edge": 4 * 32 * 32, "longest_edge": 256 * 32 * 32},
            "cap_pixels_per_frame": True,
        },
    },
)
FILES: Mapping[str, _Files] = {
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
    "qwen3_vl": _QWEN3_VL,
    "qwen3_vl_moe": _QWEN3_VL,
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


def configuration(kind: str, ids: Mapping[str, int]) -> dict[str, Any]:
    """Arguments of the configuration of a model with these special tokens."""
    named = {"vocab_size": BYTES + len(ids), "bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"]}
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
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": 1_000_000.0, "mrope_section": [2, 3, 3]}
    if kind == "qwen2_vl":
        architecture = "Qwen2VLForConditionalGeneration"
        vision |= {"embed_dim": 32, "hidden_size": text["hidden_size"], "mlp_ratio": 2}
    elif kind in ("qwen3_vl", "qwen3_vl_moe"):
        architecture = f"Qwen3VL{'Moe' if kind.endswith('moe') else ''}ForConditionalGeneration"
        if kind.endswith("moe"):
            text |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
        vision |= {"hidden_size": 32, "intermediate_size": 48, "out_hidden_size": text["hidden_size"], "patch_size": 16}
        # A learned grid of 4 x 4 places; both of the text model's layers add a view of the encoder's layers.
        vision |= {"num_position_embeddings": 16, "deepstack_visual_indexes": [0, 1]}
        text["head_dim"] = 16
        rope |= {"mrope_section": [4, 2, 2], "mrope_interleaved": True}
    else:
        architecture = "Qwen2_5_VLForConditionalGeneration"
        vision |= {"hidden_size": 32, "intermediate_size": 48, "out_hidden_size": text["hidden_size"]}
        # Windows of 4 x 4 embeddings, in the first of the two layers only.
        vision |= {"window_size": 112, "fullatt_block_indexes": [1], "tokens_per_second": 2}
    return {
        "architectures": [architecture],
        "text_config": {**text, "rope_parameters": rope},
        "vision_config": vision,
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }
