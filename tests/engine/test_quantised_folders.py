"""Folders with int8 weights: ModelSlim's and compressed-tensors' are loaded, all other kinds are refused by name."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import families
import pytest
import torch
from int8_models import CONFIG, linear_layers, quantise, write_compressed_tensors, write_modelslim
from safetensors.torch import load_file, save_file

from engine.fused.int8_products import Int8Product
from engine.loader import LoadError, load
from engine.plan import Plan, Span
from engine.quantised.linear import Int8Linear
from engine.torch_runner import build

FIRST = "model.layers.0.self_attn.q_proj"
WEIGHTS = "quant_model_weight_w8a8_dynamic.safetensors"


@pytest.fixture(scope="module")
def model() -> Any:
    """A model with biases in its attention."""
    return families.build("qwen2")


def edit_weights(folder: Path, change: Any) -> None:
    """Let ``change`` change the tensors of a ModelSlim folder in place."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})


def refusal(folder: Path) -> str:
    """Why a folder is not served."""
    with pytest.raises(LoadError) as raised:
        load(folder, dtype="float32", device="cpu")
    return str(raised.value)


def with_config(*path: str, value: Any) -> dict[str, Any]:
    """CONFIG with another value at a place."""
    config: Any = copy.deepcopy(CONFIG)
    part = config
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    whole: dict[str, Any] = config
    return whole


def test_a_folder_of_modelslim_loads_as_its_weights_are(model: Any, tmp_path: Path) -> None:
    """Every quantised layer is int8, and the logits are bit by bit those of the model that was quantised in memory."""
    write_modelslim(model, tmp_path / "m")
    loaded = load(tmp_path / "m", dtype="float32", device="cpu").model
    assert sum(isinstance(part, Int8Linear) for part in loaded.modules()) == len(list(linear_layers(model))) == 14
    tokens = torch.tensor([[5, 9, 33, 2]])
    assert torch.equal(loaded(tokens).logits, quantise(model)(tokens).logits)


def test_a_folder_of_compressed_tensors_loads_likewise(model: Any, tmp_path: Path) -> None:
    """Its scales are bfloat16; its package is neither there nor needed."""
    write_compressed_tensors(model, tmp_path / "m")
    loaded = load(tmp_path / "m", dtype="float32", device="cpu").model
    assert sum(isinstance(part, Int8Linear) for part in loaded.modules()) == 14
    layer = loaded.get_submodule(FIRST)
    assert (layer.weight.dtype, layer.weight_scale.dtype, layer.bias.dtype) == (torch.int8, *[torch.float32] * 2)
    torch.testing.assert_close(layer.weight * layer.weight_scale, model.get_submodule(FIRST).weight, atol=0.01, rtol=0)
    assert "compressed_tensors" not in sys.modules


def test_weights_may_lie_in_several_files(model: Any, tmp_path: Path) -> None:
    """An index of ModelSlim's names them."""
    write_modelslim(model, tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    (tmp_path / WEIGHTS).unlink()
    names = {key: f"quant_model_weight-0000{1 + (key > FIRST)}-of-00002.safetensors" for key in tensors}
    for name in set(names.values()):
        save_file({key: tensors[key] for key in tensors if names[key] == name}, tmp_path / name, {"format": "pt"})
    index = {"metadata": {}, "weight_map": names}
    (tmp_path / "quant_model_weight.safetensors.index.json").write_text(json.dumps(index))
    loaded = load(tmp_path, dtype="float32", device="cpu").model
    assert torch.equal(loaded(torch.tensor([[5, 9]])).logits, quantise(model)(torch.tensor([[5, 9]])).logits)


def test_the_descriptions_older_name_is_known(model: Any, tmp_path: Path) -> None:
    """It ends with the kind; so it was before 2026."""
    write_modelslim(model, tmp_path)
    (tmp_path / "quant_model_description.json").rename(tmp_path / "quant_model_description_w8a8_dynamic.json")
    assert isinstance(load(tmp_path, device="cpu").model.get_submodule(FIRST), Int8Linear)


def test_layers_may_stay_as_they_are(model: Any, tmp_path: Path) -> None:
    """FLOAT ones are loaded as ever."""
    write_modelslim(model, tmp_path)
    weight = model.get_submodule(FIRST).weight.data

    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"{FIRST}.weight"] = weight.clone()
        del tensors[f"{FIRST}.weight_scale"], tensors[f"{FIRST}.weight_offset"]

    edit_weights(tmp_path, change)
    write_description(tmp_path, **{f"{FIRST}.weight": "FLOAT"}, **{f"{FIRST}.weight_scale": None})
    layer = load(tmp_path, dtype="float32", device="cpu").model.get_submodule(FIRST)
    assert type(layer) is torch.nn.Linear
    assert torch.equal(layer.weight, weight)


def test_a_bias_that_the_quantiser_added_counts(tmp_path: Path) -> None:
    """Llama has none; suppressing outliers gives its layers some."""
    llama = families.build("llama")
    write_modelslim(llama, tmp_path)
    bias = torch.arange(32.0)
    edit_weights(tmp_path, lambda tensors: tensors.update({f"{FIRST}.bias": bias}))
    layer = load(tmp_path, dtype="float32", device="cpu").model.get_submodule(FIRST)
    assert torch.equal(layer(torch.zeros(1, 32))[0], bias)


def test_a_norms_bias_that_the_quantiser_added_counts(tmp_path: Path) -> None:
    """Where biases of the layers behind take it back, the logits are as ever, but for rounding; else they are not."""
    llama = families.build("llama")
    write_modelslim(llama, tmp_path)
    shift = torch.linspace(-1, 1, 32)
    norm = "model.layers.0.input_layernorm"
    edit_weights(tmp_path, lambda tensors: tensors.update({f"{norm}.bias": shift}))
    tokens = torch.tensor([[5, 9, 33, 2]])
    plain = quantise(llama)(tokens).logits
    shifted = load(tmp_path, dtype="float32", device="cpu").model
    assert (shifted(tokens).logits - plain).abs().mean() > 0.2 * plain.std()

    def take_back(tensors: dict[str, torch.Tensor]) -> None:
        for name in ("q_proj", "k_proj", "v_proj"):
            place = f"model.layers.0.self_attn.{name}"
            weight = tensors[f"{place}.weight"] * tensors[f"{place}.weight_scale"]
            tensors[f"{place}.bias"] = -(weight @ shift)

    edit_weights(tmp_path, take_back)
    found = load(tmp_path, dtype="float32", device="cpu")
    assert (found.model(tokens).logits - plain).abs().mean() < 0.1 * plain.std()
    runner = build(found, page_size=8, max_tokens=96)
    packed = runner.run(Plan([Span(range(2), 0, tokens[0].tolist(), 4)], 0))
    assert (packed - plain[0]).abs().mean() < 0.1 * plain.std()
    assert isinstance(runner.model.model.layers[0].qkv, Int8Product)


def write_description(folder: Path, **changes: Any) -> None:
    """Change entries of a description."""
    file = folder / "quant_model_description.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("W8A8", "W8A8 (its activations have scales that were fixed beforehand)"),
        ("W8A8_MIX", "W8A8_MIX (its activations have scales that were fixed beforehand)"),
        ("W4A8_DYNAMIC", "W4A8_DYNAMIC (its weights have 4 bits)"),
        ("W4A16", "W4A16 (its weights have 4 bits)"),
        ("W8A16", "W8A16 (its activations are not quantised)"),
        ("W8A8_MXFP8", "W8A8_MXFP8"),
    ],
)
def test_other_kinds_of_modelslim_are_refused_by_name(model: Any, tmp_path: Path, kind: str, reason: str) -> None:
    """The layer, its kind, why not, and what is served."""
    write_modelslim(model, tmp_path / "m", **{f"{FIRST}.weight": kind})
    assert refusal(tmp_path / "m") == (
        f"The quantised weights of 'm' are not served: {FIRST}.weight is {reason}; of ModelSlim's kinds W8A8_DYNAMIC "
        "and FLOAT are served."
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kv_cache_type": "C8"}, "kv_cache_type is 'C8': keys and values as int8 numbers are not served."),
        ({"fa_quant_type": "FAKQuant"}, "fa_quant_type is 'FAKQuant': attention as int8 numbers are not served."),
        ({"model.layers.9.mlp.up_proj.weight": "W8A8_DYNAMIC"}, "model.layers.9.mlp.up_proj.weight is missing."),
        ({f"{FIRST}.weight": "FLOAT"}, f"{FIRST}.weight is I8, and the description does not call it W8A8_DYNAMIC."),
    ],
)
def test_descriptions_that_say_more_or_less_are_refused(
    model: Any, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    """Caches, layers that are not there, layers that it forgets."""
    write_modelslim(model, tmp_path / "m", **changes)
    assert refusal(tmp_path / "m") == f"The quantised weights of 'm' are not served: {reason}"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("weight", torch.ones(32, 32), "weight is F32 [32, 32], where I8 [out, in] is served."),
        ("weight_scale", torch.ones(32), "weight_scale is F32 [32], where a float of shape [32, 1]"),
        (
            "weight_scale",
            torch.ones(32, 1, dtype=torch.int32),
            "weight_scale is I32 [32, 1], where a float of shape [32, 1]",
        ),
        ("weight_scale", torch.ones(32, 4), "weight_scale is F32 [32, 4], where a float of shape [32, 1]"),
        ("weight_offset", torch.ones(32, 1), "weight_offset is not 0: weights that are not symmetric are not served."),
        ("input_scale", torch.ones(1), "have model.layers.0.self_attn.q_proj.input_scale, which this model does not"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    model: Any, tmp_path: Path, name: str, value: torch.Tensor, reason: str
) -> None:
    """What is there, and what is served."""
    write_modelslim(model, tmp_path)
    edit_weights(tmp_path, lambda tensors: tensors.update({f"{FIRST}.{name}": value}))
    assert reason in refusal(tmp_path)


def test_a_weight_of_another_size_than_the_models_is_refused(model: Any, tmp_path: Path) -> None:
    """Both are said."""
    write_modelslim(model, tmp_path)

    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"{FIRST}.weight"] = torch.ones(32, 16, dtype=torch.int8)

    edit_weights(tmp_path, change)
    assert f"{FIRST}.weight is [32, 16], where the model has [32, 32]." in refusal(tmp_path)


def test_a_description_must_be_there_once(model: Any, tmp_path: Path) -> None:
    """Without it int8 numbers would be taken for weights."""
    folder = tmp_path / "m"
    write_modelslim(model, folder)
    description = folder / "quant_model_description.json"
    text = description.read_text()
    description.unlink()
    assert refusal(folder) == (
        "The quantised weights of 'm' are not served: config.json says quantize 'w8a8_dynamic', and there is no "
        "quant_model_description.json, which says of each layer how."
    )
    for kind in ("w8a8", "w8a8_dynamic"):
        (folder / f"quant_model_description_{kind}.json").write_text(text)
    assert (
        "there are 2 descriptions (quant_model_description_w8a8.json, quant_model_description_w8a8_dynamic.json)"
        in (refusal(folder))
    )
    description.write_text("[]")
    assert "quant_model_description.json is not a JSON object." in refusal(folder)
    description.write_text("{")
    assert "quant_model_description.json is not JSON" in refusal(folder)


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ({}, "quant_model_weight.safetensors.index.json cannot be read, or has no weight_map."),
        (
            {"weight_map": {"a": "../other.safetensors"}},
            "names '../other.safetensors', which is no file of the folder.",
        ),
        ({"weight_map": {"a": "gone.safetensors"}}, "gone.safetensors cannot be read"),
    ],
)
def test_an_index_that_leads_nowhere_is_refused(model: Any, tmp_path: Path, index: dict[str, Any], reason: str) -> None:
    """And no file beyond the folder is opened."""
    write_modelslim(model, tmp_path)
    (tmp_path / "quant_model_weight.safetensors.index.json").write_text(json.dumps(index))
    assert reason in refusal(tmp_path)


def test_two_files_of_weights_without_an_index_are_refused(model: Any, tmp_path: Path) -> None:
    """Nobody could say which of them is meant."""
    write_modelslim(model, tmp_path)
    (tmp_path / "quant_model_weight_w8a8.safetensors").write_bytes((tmp_path / WEIGHTS).read_bytes())
    assert f"there are 2 files of weights (quant_model_weight_w8a8.safetensors, {WEIGHTS}) and no index" in (
        refusal(tmp_path)
    )


def test_a_folder_that_says_float_needs_no_description(model: Any, tmp_path: Path) -> None:
    """ModelSlim's word for weights as they are."""
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantize": "FLOAT"}))
    layer = load(tmp_path, dtype="float32", device="cpu").model.get_submodule(FIRST)
    assert type(layer) is torch.nn.Linear


def test_quantised_experts_are_refused(tmp_path: Path) -> None:
    """They are no linear layers of their own in transformers."""
    model = families.build("qwen3_moe")
    write_modelslim(model, tmp_path / "m")
    description = json.loads((tmp_path / "m" / "quant_model_description.json").read_text())
    assert isinstance(load(tmp_path / "m", dtype="float32", device="cpu").model.get_submodule(FIRST), Int8Linear)
    name = "model.layers.0.mlp.experts.0.up_proj"
    (tmp_path / "m" / "quant_model_description.json").write_text(
        json.dumps({**description, f"{name}.weight": "W8A8_DYNAMIC"})
    )
    more = {f"{name}.weight": torch.ones(16, 32, dtype=torch.int8), f"{name}.weight_scale": torch.ones(16, 1)}
    edit_weights(tmp_path / "m", lambda tensors: tensors.update(more))
    assert f"{name} is in the files, and the model has no such layer of its own." in refusal(tmp_path / "m")


def test_a_quantised_layer_that_is_not_linear_is_refused(model: Any, tmp_path: Path) -> None:
    """By name, with what it is."""
    write_modelslim(model, tmp_path, **{"model.embed_tokens.weight": "W8A8_DYNAMIC"})
    name = "model.embed_tokens"
    more = {f"{name}.weight": torch.ones(64, 32, dtype=torch.int8), f"{name}.weight_scale": torch.ones(64, 1)}
    edit_weights(tmp_path, lambda tensors: tensors.update(more))
    assert f"{name} is quantised and is a Embedding; linear layers are served." in refusal(tmp_path)


def test_an_output_layer_that_is_tied_cannot_be_quantised(tmp_path: Path) -> None:
    """Its weights would be the embeddings', which are floats."""
    model = families.build("llama", tie_word_embeddings=True)
    write_modelslim(model, tmp_path, **{"lm_head.weight": "W8A8_DYNAMIC"})
    more = {"lm_head.weight": torch.ones(64, 32, dtype=torch.int8), "lm_head.weight_scale": torch.ones(64, 1)}
    edit_weights(tmp_path, lambda tensors: tensors.update(more))
    assert "lm_head is quantised and has the weights of the embeddings, which are not." in refusal(tmp_path)


GROUP = ("config_groups", "group_0")


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("format",), "pack-quantized", "quantization_config.format is 'pack-quantized', where 'int-quantized' is"),
        (("format",), "float-quantized", "quantization_config.format is 'float-quantized', where"),
        ((*GROUP, "format"), "pack-quantized", "group_0.format is 'pack-quantized', where 'int-quantized' is served."),
        ((*GROUP, "weights", "num_bits"), 4, "group_0.weights.num_bits is 4, where 8 is served."),
        ((*GROUP, "weights", "type"), "float", "group_0.weights.type is 'float', where 'int' is served."),
        ((*GROUP, "weights", "strategy"), "group", "group_0.weights.strategy is 'group', where 'channel' is served."),
        ((*GROUP, "weights", "symmetric"), False, "group_0.weights.symmetric is False, where True is served."),
        ((*GROUP, "input_activations"), None, "group_0.input_activations is missing: weights and activations of 8"),
        (
            (*GROUP, "input_activations", "dynamic"),
            False,
            "group_0.input_activations.dynamic is False: scales that were fixed beforehand (static), where True is",
        ),
        ((*GROUP, "input_activations", "strategy"), "tensor", "input_activations.strategy is 'tensor', where 'token'"),
        ((*GROUP, "output_activations"), {"num_bits": 8}, "group_0.output_activations is given"),
        (("kv_cache_scheme",), {"num_bits": 8}, "kv_cache_scheme is given: quantised keys and values are not served."),
        (("sparsity_config",), {"format": "sparse-24-bitmask"}, "format is 'sparse-24-bitmask', where dense is served"),
        (("transform_config",), {"config_groups": {"R4": {}}}, "transform_config is given: rotations while running"),
        (("config_groups",), {}, "quantization_config.config_groups is missing."),
    ],
)
def test_other_kinds_of_compressed_tensors_are_refused_by_name(
    model: Any, tmp_path: Path, path: tuple[str, ...], value: Any, reason: str
) -> None:
    """The field, what it says, and what is served."""
    write_compressed_tensors(model, tmp_path / "m", with_config(*path, value=value))
    said = refusal(tmp_path / "m")
    assert said.startswith("The quantised weights of 'm' are not served: quantization_config.")
    assert reason in said


def test_weights_without_scales_are_refused(model: Any, tmp_path: Path) -> None:
    """The configuration promises what the files do not have."""
    write_compressed_tensors(model, tmp_path)
    tensors = {key: value for key, value in load_file(tmp_path / "model.safetensors").items() if "scale" not in key}
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    assert "says that weights are quantised, and the files have no weight_scale." in refusal(tmp_path)
