"""Adapter folders: A and B as PEFT saved them, and every way a folder can be wrong."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.lora_config import LinearLayer
from engine.lora_files import read_adapter
from engine.types import AdapterError
from tests.engine import peft_adapters
from tests.engine.families import build

QUERY = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
LAYERS = {f"model.layers.{layer}.self_attn.q_proj": LinearLayer(32, 32) for layer in range(2)}


@pytest.fixture
def folder(tmp_path):
    """An adapter of rank 4 on the queries of a llama with two layers, factor 2."""
    peft_adapters.save(build("llama"), tmp_path / "queries", 1, target_modules=["q_proj"])
    return tmp_path / "queries"


def _change(folder, change):
    file = folder / "adapter_model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


def _read(folder, dtype=torch.float32, max_rank=None, layers=LAYERS):
    return read_adapter(folder, layers, dtype, max_rank)


def test_b_has_the_factor_in_it(folder):
    """lora_alpha 8 over rank 4: A is as saved, B twice what was saved."""
    saved = load_file(folder / "adapter_model.safetensors")
    read = _read(folder)
    assert set(read) == set(LAYERS)
    a, b = read["model.layers.0.self_attn.q_proj"]
    assert torch.equal(a, saved[QUERY.format("A")])
    assert torch.equal(b, 2 * saved[QUERY.format("B")])


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float64])
def test_any_floating_point_weights_become_the_models(folder, stored):
    """The file's dtype is its own affair."""
    wanted = _read(folder)
    _change(folder, lambda tensors: tensors.update({key: value.to(stored) for key, value in tensors.items()}))
    for name, (a, b) in _read(folder).items():
        assert a.dtype == b.dtype == torch.float32
        torch.testing.assert_close((a, b), wanted[name], atol=0.02, rtol=0.02)


def test_a_rank_within_the_limit_is_taken(folder):
    """Inclusive."""
    assert len(_read(folder, max_rank=4)) == 2


def _spoil(value):
    def change(tensors):
        tensors[QUERY.format("B")][3, 2] = value

    return change


WRONG = {
    "a missing tensor": (lambda t: t.pop(QUERY.format("B")), r"'.*0\.self_attn\.q_proj\.lora_B\.weight' is missing"),
    "a wrong shape": (
        lambda t: t.update({QUERY.format("A"): torch.zeros(4, 31)}),
        r"has the shape \[4, 31\]; this model and its rank need \[4, 32\]",
    ),
    "another rank": (lambda t: t.update({QUERY.format("A"): torch.zeros(5, 32)}), r"has the shape \[5, 32\]"),
    "a vector": (lambda t: t.update({QUERY.format("A"): torch.zeros(32)}), r"has the shape \[32\]"),
    "whole numbers": (
        lambda t: t.update({QUERY.format("A"): torch.zeros(4, 32, dtype=torch.int8)}),
        "holds int8, which is not served",
    ),
    "no number": (_spoil(torch.nan), "are not all finite in float32"),
    "an infinite number": (_spoil(torch.inf), "are not all finite in float32"),
    "an embedding": (
        lambda t: t.update({"base_model.model.model.embed_tokens.lora_embedding_A": torch.zeros(4, 64)}),
        "changes an embedding",
    ),
    "a magnitude": (
        lambda t: t.update({"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector": torch.ones(32)}),
        "uses DoRA",
    ),
    "a whole weight": (
        lambda t: t.update({"base_model.model.lm_head.weight": torch.zeros(64, 32)}),
        "brings a whole weight",
    ),
    "a layer more": (
        lambda t: t.update({"base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight": torch.zeros(4, 32)}),
        "belongs to no layer that its configuration names",
    ),
}


@pytest.mark.parametrize(("change", "sentence"), WRONG.values(), ids=list(WRONG))
def test_tensors_that_do_not_fit_are_refused_by_name(folder, change, sentence):
    """The sentence says which tensor."""
    _change(folder, change)
    with pytest.raises(AdapterError, match=sentence):
        _read(folder)


def test_numbers_that_half_precision_cannot_hold_are_refused(folder):
    """70000 is infinite in float16."""
    _change(folder, _spoil(70_000.0))
    assert _read(folder)
    with pytest.raises(AdapterError, match="not all finite in float16"):
        _read(folder, torch.float16)


def test_a_rank_over_the_limit_is_refused(folder):
    """With the limit and its name."""
    with pytest.raises(AdapterError, match=r"its rank for '.*q_proj' is 4; at most 3 is taken \(maxLoraRank\)"):
        _read(folder, max_rank=3)


def test_a_file_that_is_cut_short_is_refused(folder):
    """As after a copy that was broken off."""
    file = folder / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(AdapterError, match="is no whole safetensors file"):
        _read(folder)


def test_a_file_larger_than_its_layers_is_not_read(folder):
    """20 MB of something where two layers of rank 4 can take some kilobytes."""
    _change(folder, lambda tensors: tensors.update(more=torch.zeros(5_000_000)))
    with pytest.raises(AdapterError, match="is larger than the 16781312 bytes"):
        _read(folder)


def test_pickled_weights_are_refused(folder):
    """Reading them would run code."""
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(AdapterError, match=r"pickled \(adapter_model\.bin\), which is not read: convert"):
        _read(folder)


def test_a_folder_without_weights_and_no_folder_are_refused(folder):
    """By the folder's own name, not its path."""
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(AdapterError, match=r"^the folder 'queries' has no adapter_model.safetensors\.$"):
        _read(folder)
    with pytest.raises(AdapterError, match=r"^there is no adapter folder named 'elsewhere'\.$"):
        _read(folder.parent / "elsewhere")
