"""Loading models that take media: which are served, what they say of themselves, and which are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForMultimodalLM

from engine.loader import LoadError, load
from engine.torch_runner import build

TEXT = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [1, 1, 2]},
}
VISION = {
    "qwen2_vl": {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "mlp_ratio": 2},
    "qwen2_5_vl": {"depth": 1, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 4, "intermediate_size": 48},
}


def folder_of(kind: str, folder: Path) -> Path:
    """A folder with the weights of a tiny model, without tokenizer and processors."""
    config = AutoConfig.for_model(
        kind, text_config=TEXT, vision_config=VISION[kind], image_token_id=61, video_token_id=62
    )
    AutoModelForMultimodalLM.from_config(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen2_5_vl"])
def test_a_media_model_says_what_it_takes_and_runs_packed(kind: str, tmp_path: Path) -> None:
    """Its text part goes through the same checks and replacements as a text model."""
    loaded = load(folder_of(kind, tmp_path), dtype="float32", device="cpu")
    assert loaded.info.media_tokens == (("image", 61), ("video", 62))
    assert loaded.info.vocab_size == 64
    assert loaded.encoder is not None
    runner = build(loaded, page_size=16, max_tokens=256)
    kinds = [type(module).__name__ for module in loaded.model.modules()]
    assert kinds.count("DecoderLayer") == 2
    assert "model.language_model.layers.0.self_attn.q_proj" in runner.adapter_layers()


def test_text_is_computed_as_by_the_whole_model(tmp_path: Path) -> None:
    """The text part alone gives the logits that transformers' model gives a prompt without media."""
    folder = folder_of("qwen2_vl", tmp_path)
    whole = AutoModelForMultimodalLM.from_pretrained(folder, dtype=torch.float32).eval()
    prompt = torch.arange(1, 20)[None]
    with torch.inference_mode():
        wanted = whole(input_ids=prompt).logits
        found = load(folder, dtype="float32", device="cpu").model(input_ids=prompt).logits
    assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("llava", "LlavaForConditionalGeneration"), ("gemma3", "Gemma3ForConditionalGeneration")],
)
def test_a_media_model_without_an_encoder_is_refused_by_name(kind: str, name: str, tmp_path: Path) -> None:
    """Also one that transformers could load for text alone."""
    config = AutoConfig.for_model(kind)
    config.architectures = [name]
    config.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").touch()
    served = "internvl, qwen2_5_vl, qwen2_audio, qwen2_vl, qwen3_vl, qwen3_vl_moe"
    with pytest.raises(LoadError, match=f"is a {name}, which takes media; .* served: {served}"):
        load(tmp_path, device="cpu")
