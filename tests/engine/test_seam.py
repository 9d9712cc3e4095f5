"""Models that cannot run packed are refused at load, with the reason, and keep their own attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from engine import seam
from engine.attention.registry import ATTENTION_NAME
from engine.forward import ModelMismatch
from engine.torch_runner import build
from tests.engine import families
from tests.engine.families import loaded

_TINY: dict[str, Any] = {"vocab_size": families.VOCAB, "hidden_size": 32, "num_hidden_layers": 2}


def _refusal(model: Any, **options: Any) -> str:
    with pytest.raises(ModelMismatch) as caught:
        build(loaded(model.eval()), **{"page_size": 8, "max_tokens": 400, **options})
    return str(caught.value)


def _tiny(kind: str, **fields: Any) -> Any:
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**_TINY, **fields}))


def test_a_state_space_model_is_refused() -> None:
    """Mamba has no attention at all."""
    reason = _refusal(_tiny("mamba", state_size=4))
    assert reason == "MambaForCausalLM does not call its attention through transformers' attention interface."


def test_a_hybrid_is_refused_by_its_share_of_attention_layers() -> None:
    """One of two layers is a convolution."""
    sizes = {"intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = _tiny("lfm2", layer_types=["conv", "full_attention"], **sizes)
    assert _refusal(model) == "1 of the 2 layers of Lfm2ForCausalLM are attention that can run packed."


def test_an_encoder_decoder_is_refused() -> None:
    """T5 reads its prompt with an encoder."""
    config = AutoConfig.for_model("t5", vocab_size=64, d_model=16, d_ff=32, num_layers=1, num_heads=2, d_kv=8)
    assert _refusal(AutoModelForSeq2SeqLM.from_config(config)) == "T5ForConditionalGeneration is an encoder-decoder."


def test_a_model_that_rotates_anew_when_it_grows_is_refused() -> None:
    """ "longrope" changes all positions at once when a sequence passes the original context."""
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "long_factor": [2.0] * 4,
        "short_factor": [1.0] * 4,
        "original_max_position_embeddings": 32,
    }
    model = families.build("phi3", rope_parameters=rope, original_max_position_embeddings=32)
    assert _refusal(model) == "Phi3ForCausalLM rotates all positions anew when a sequence grows past 32 tokens."


def test_a_model_with_sparse_attention_is_refused() -> None:
    """DeepSeek-V3.2 picks the tokens that it sees with a second, cached attention."""
    model = families.build("deepseek_v32", **families.FAMILIES["deepseek_v3"])
    assert _refusal(model).startswith("it failed in a trial run: ")


def test_a_window_that_the_attention_is_not_told_is_found_out() -> None:
    """The dense mask has a window, the attention module has lost it; the prompt is shorter than that window."""
    model = families.build("gemma3_text", sliding_window=100)
    model.model.layers[0].self_attn.sliding_window = None
    reason = _refusal(model)
    assert reason.startswith("its packed logits differ from its dense ones by ")


def test_a_model_that_computes_something_else_when_packed_is_found_out() -> None:
    """A layer whose input is scaled only in packed forwards."""
    model = families.build("llama")

    def scale(module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if "plan" in kwargs:
            kwargs["hidden_states"] = kwargs["hidden_states"] * torch.tensor([1.0] * 31 + [1.5])
        return args, kwargs

    model.model.layers[0].self_attn.register_forward_pre_hook(scale, with_kwargs=True)
    assert "its packed logits differ" in _refusal(model, fuse=False)


def test_a_keyword_that_the_attention_does_not_know_is_refused_by_name() -> None:
    """Something that only a newer transformers would pass."""
    model = families.build("llama")

    def add(module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return args, {**kwargs, "position_bias": torch.zeros(1)}

    model.model.layers[0].self_attn.register_forward_pre_hook(add, with_kwargs=True)
    reason = _refusal(model)
    assert reason == "LlamaAttention passes 'position_bias' to its attention, which is not known here."


def test_too_little_memory_is_said() -> None:
    """Two pages cannot hold the check's three sequences."""
    reason = _refusal(families.build("llama"), max_tokens=16)
    assert reason == "its memory for keys and values holds 2 pages of 8 tokens, too few to run anything."


def test_a_refused_model_has_its_own_attention_again() -> None:
    """So that the executor without packing can serve it."""
    model = families.build("gemma3_text", sliding_window=100)
    model.model.layers[0].self_attn.sliding_window = None
    own = model.config._attn_implementation
    assert own != ATTENTION_NAME
    _refusal(model)
    assert model.config._attn_implementation == own
    assert model.config.sliding_window == 100


def test_windows_are_narrow_for_the_check_only() -> None:
    """In the configuration and in the modules that copied it."""
    model = families.build("gemma3_text", sliding_window=100)
    attention = model.model.layers[0].self_attn
    with seam.narrow_windows(model):
        assert (model.config.sliding_window, attention.sliding_window) == (5, 5)
        assert model.model.layers[1].self_attn.sliding_window is None
    assert (model.config.sliding_window, attention.sliding_window) == (100, 100)
