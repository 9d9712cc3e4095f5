"""The converted default model as the rest of the program reads it: config, tokenizer, template and weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.weights import default_model_folder, native_dtype

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def folder() -> Path:
    """The prepared model folder."""
    return default_model_folder()


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    """The weights, loaded the plain way."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    """The tokenizer file, read without transformers."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def continue_greedily(model: Any, tokenizer: Any, text: str, tokens: int) -> str:
    """Up to ``tokens`` tokens of the likeliest continuation of ``text``, special tokens shown."""
    import torch

    ids = torch.tensor([tokenizer.encode(text).ids])  # [1, prompt]
    with torch.no_grad():
        answer = model.generate(ids, max_new_tokens=tokens, do_sample=False)  # [1, prompt + new]
    return str(tokenizer.decode(answer[0, ids.shape[1] :].tolist(), skip_special_tokens=False))


def test_the_model_has_the_known_shape_and_this_machines_dtype(model: Any) -> None:
    """30 layers of width 576 over 49152 tokens, 134.5 million parameters."""
    config = model.config
    assert (config.num_hidden_layers, config.hidden_size, config.vocab_size) == (30, 576, 49152)
    assert sum(parameter.numel() for parameter in model.parameters()) == 134_515_008
    assert str(model.dtype) == f"torch.{native_dtype()}"


def test_the_capital_of_france_continues_with_paris(model: Any, tokenizer: Any) -> None:
    """A plain prompt, greedily."""
    assert continue_greedily(model, tokenizer, "The capital of France is", 2) == " Paris."


def test_the_chat_template_renders_and_its_answer_is_paris(model: Any, tokenizer: Any, folder: Path) -> None:
    """The template beside the weights makes the prompt that the model answers and ends."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    template = ImmutableSandboxedEnvironment().from_string((folder / "chat_template.jinja").read_text())
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = template.render(messages=messages, add_generation_prompt=True)
    assert prompt == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert continue_greedily(model, tokenizer, prompt, 16) == "The capital of France is Paris.<|im_end|>"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("x   5", ["x", "ĠĠĠ", "5"]),
        ("in 2024", ["in", "Ġ", "2", "0", "2", "4"]),
        ("<|im_start|>user", ["<|im_start|>", "user"]),
    ],
)
def test_text_is_split_as_the_model_was_trained(tokenizer: Any, text: str, tokens: list[str]) -> None:
    """Digits stand alone, the spaces before them stay together, and special tokens are found in text."""
    assert tokenizer.encode(text).tokens == tokens


def test_no_token_is_added_at_the_beginning(tokenizer: Any) -> None:
    """The model knows no BOS: asking for special tokens changes nothing."""
    assert tokenizer.encode("Hi", add_special_tokens=True).ids == tokenizer.encode("Hi", add_special_tokens=False).ids


def test_the_generation_config_names_the_end_and_sets_no_sampling(folder: Path) -> None:
    """So the contract's documented defaults hold for this model."""
    config = json.loads((folder / "generation_config.json").read_text())
    assert config["eos_token_id"] == 2
    assert not {"do_sample", "temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens"} & set(config)
