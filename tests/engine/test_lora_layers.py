"""Adapters in the packed runner: each row gets its own, and the logits are those of the model that PEFT merges."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from engine.fused.products import Product
from engine.lora_files import read_adapter
from engine.plan import Plan, Span
from engine.torch_runner import TorchRunner, build
from engine.types import AdapterError
from tests.engine import families, peft_adapters

PAGE = 8
EXTENT = 4
PROMPT = [5 + 3 * index % 50 for index in range(19)]
TARGETS: dict[str, dict[str, Any]] = {
    "llama": {
        "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"]
    },
    "qwen2": {"target_modules": ["v_proj", "up_proj"], "use_rslora": True, "rank_pattern": {"v_proj": 2}},
    "qwen3": {"target_modules": ["k_proj", "down_proj"], "alpha_pattern": {"layers.1.*": 5}},
    "mistral": {"target_modules": "all-linear"},
    "gemma2": {"target_modules": ["q_proj", "gate_proj", "o_proj"], "layers_to_transform": [1]},
    "phi3": {"target_modules": ["qkv_proj", "gate_up_proj", "lm_head"]},
    "qwen3_moe": {"target_modules": ["q_proj", "v_proj", "o_proj"]},
    "deepseek_v3": {"target_modules": ["q_a_proj", "q_b_proj", "kv_b_proj", "o_proj"]},
    "gpt2": {"target_modules": ["c_attn", "c_fc", "c_proj"], "fan_in_fan_out": True},
    "gpt_oss": {"target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]},
}
"""Families, and what the second of their three adapters changes."""


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "replaced"])
def fuse(request: pytest.FixtureRequest) -> bool:
    """Whether modules are replaced."""
    return bool(request.param)


@pytest.fixture(scope="module", params=list(TARGETS))
def case(
    request: pytest.FixtureRequest, fuse: bool, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TorchRunner, list[tuple[int, Any]]]:
    """A runner with three adapters; the base and each of them as (id, the same model merged)."""
    model = families.build(request.param)
    runner = _runner(model, fuse=fuse)
    models = [(0, model)]
    attention = {"target_modules": ["c_proj" if request.param == "gpt2" else "o_proj"], "r": 1}
    for seed, settings in enumerate([attention, TARGETS[request.param], {**TARGETS[request.param], "r": 7}], start=1):
        folder = tmp_path_factory.mktemp("adapter")
        merged = peft_adapters.save(model, folder, seed, **settings)
        read = read_adapter(folder, runner.adapter_layers(), torch.float32)
        models.append((runner.load_adapter(f"adapter-{seed}", read), merged))
    return runner, models


def _runner(model: Any, **options: Any) -> TorchRunner:
    loaded = families.loaded(copy.deepcopy(model))
    return build(loaded, page_size=PAGE, max_tokens=16 * EXTENT * PAGE, **options)


def _span(place: int, start: int, token_ids: list[int], adapter: int = 0, wanted: bool = True) -> Span:
    return Span(range(place * EXTENT, (place + 1) * EXTENT), start, token_ids, wanted, adapter)


def _dense(model: Any, token_ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=torch.tensor([token_ids]), use_cache=False).logits[0, -1]
    return logits


def _close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, atol=2e-4, rtol=2e-4)


def test_a_mixed_step_gives_each_row_its_own_model(case: Any) -> None:
    """Prompts in chunks, then decode rows and chunks together, base and three adapters in turns: the merged logits."""
    runner, models = case
    order = [models[index] for index in (1, 0, 2, 3, 2, 0, 1)]
    prompts = [[*PROMPT[: 9 + place], 3 + place] for place in range(len(order))]
    half = [_span(place, 0, prompts[place][:5], adapter, False) for place, (adapter, _) in enumerate(order)]
    assert runner.run(Plan(half, 0)).shape == (0, families.VOCAB)
    rest = [_span(place, 5, prompts[place][5:], adapter, place % 3 != 2) for place, (adapter, _) in enumerate(order)]
    wanted = [place for place in range(len(order)) if place % 3 != 2]
    for place, row in zip(wanted, runner.run(Plan(rest, 0)), strict=True):
        _close(row, _dense(order[place][1], prompts[place]))
    rows = [_span(place, len(prompts[place]), [7 + place], adapter) for place, (adapter, _) in enumerate(order)]
    chunks = [_span(7 + place, 0, PROMPT, adapter) for place, (adapter, _) in enumerate(models)]
    logits = runner.run(Plan(rows + chunks, len(rows)))
    for place, (_, model) in enumerate(order):
        _close(logits[place], _dense(model, [*prompts[place], 7 + place]))
    for place, (_, model) in enumerate(models):
        _close(logits[len(rows) + place], _dense(model, PROMPT))


def test_adapters_change_what_the_model_says(case: Any) -> None:
    """So that the comparison above could fail: no two of the four models are near each other."""
    _, models = case
    dense = [_dense(model, PROMPT) for _, model in models]
    for index, first in enumerate(dense):
        for second in dense[index + 1 :]:
            assert (first - second).abs().max() > 0.05


def test_rows_of_one_adapter_are_alike_in_any_company(case: Any) -> None:
    """Alone in a step, and between others."""
    runner, models = case
    adapter, other = models[2][0], models[3][0]
    (alone,) = runner.run(Plan([_span(0, 0, PROMPT, adapter)], 0))
    mixed = runner.run(Plan([_span(1, 0, PROMPT, other), _span(2, 0, PROMPT, adapter), _span(3, 0, PROMPT)], 0))
    _close(mixed[1], alone)


def test_a_model_without_adapters_is_as_before_they_came() -> None:
    """The last one goes: the same bits as at first, and no module looks for adapters any more."""
    model = families.build("llama")
    runner = _runner(model)
    before = runner.run(Plan([_span(0, 0, PROMPT)], 0))
    layers = runner.adapter_layers()
    tensors = {
        name: (torch.ones(2, size.in_features), torch.ones(size.out_features, 2)) for name, size in layers.items()
    }
    adapter = runner.load_adapter("ones", tensors)
    assert not torch.equal(runner.run(Plan([_span(0, 0, PROMPT, adapter)], 0)), before)
    assert torch.equal(runner.run(Plan([_span(0, 0, PROMPT)], 0)), before)
    runner.unload_adapter(adapter)
    assert torch.equal(runner.run(Plan([_span(0, 0, PROMPT)], 0)), before)
    assert all(module.delta is None for module in runner.model.modules() if isinstance(module, Product))
    with pytest.raises(ValueError, match="there is no adapter 1"):
        runner.run(Plan([_span(0, 0, PROMPT, adapter)], 0))


def test_an_output_layer_that_shares_the_embeddings_weight_is_changed_alone(tmp_path: Any) -> None:
    """As in training with PEFT, which its merging of tied weights does not keep."""
    model = families.build("llama", tie_word_embeddings=True)
    settings = {"target_modules": ["lm_head", "q_proj"]}
    peft_adapters.save(model, tmp_path, 1, **settings)
    runner = _runner(model)
    adapter = runner.load_adapter("tied", read_adapter(tmp_path, runner.adapter_layers(), torch.float32))
    (found,) = runner.run(Plan([_span(0, 0, PROMPT, adapter)], 0))
    _close(found, _dense(peft_adapters.adapted(model, 1, **settings).eval(), PROMPT))


def test_an_id_is_never_given_again() -> None:
    """Another adapter under the same name is another one."""
    runner = _runner(families.build("llama"))
    first = runner.load_adapter("same", {})
    runner.unload_adapter(first)
    assert runner.load_adapter("same", {}) != first


def test_only_layers_that_see_every_row_once_can_be_changed() -> None:
    """A mixture of experts: attention and output, but no expert and no router."""
    names = set(_runner(families.build("qwen3_moe")).adapter_layers())
    attention = {f"model.layers.{layer}.self_attn.{part}_proj" for layer in range(2) for part in "qkvo"}
    assert names == attention | {"lm_head"}


def test_a_layer_that_cannot_be_changed_is_refused_and_nothing_is_kept() -> None:
    """By name, also of the layers before it that could be changed."""
    runner = _runner(families.build("llama"))
    good, *_ = runner.adapter_layers()
    pair = torch.zeros(1, 32), torch.zeros(32, 1)
    with pytest.raises(AdapterError, match=r"no layer 'model\.norm'"):
        runner.load_adapter("wrong", {good: pair, "model.norm": pair})
    assert any(isinstance(module, Product) for module in runner.model.modules())
    assert all(module.delta is None for module in runner.model.modules() if isinstance(module, Product))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_agrees_within_its_rounding(dtype: torch.dtype, tmp_path: Any) -> None:
    """Against the merged model in float32."""
    model = families.build("llama")
    merged = peft_adapters.save(model, tmp_path, 1)
    runner = _runner(model.to(dtype))
    adapter = runner.load_adapter("half", read_adapter(tmp_path, runner.adapter_layers(), dtype))
    (found,) = runner.run(Plan([_span(0, 0, PROMPT, adapter)], 0))
    wanted = _dense(merged, PROMPT)
    assert (found - wanted).square().mean().sqrt() < 0.1 * wanted.square().mean().sqrt()
