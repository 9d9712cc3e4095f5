"""Models with int8 weights run packed as they run by themselves, whatever the order and company of their steps."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
import torch
from int8_models import build_clear, quantise, without_rounding
from packed_play import Arrival, ids, play, request

from engine import seam
from engine.batching import BatchLimits
from engine.forward import ModelMismatch
from engine.fused.int8_products import Int8Product
from engine.native.load import build_native
from engine.packed_executor import PackedExecutor
from engine.plan import Plan, Span
from engine.quantised.check import check_limit
from engine.quantised.linear import Int8Linear, exact_activations
from engine.quantised.norm import add_bias
from engine.torch_runner import TorchRunner, build
from tests.engine import families

PAGE = 8
TOKENS = 6
PROMPTS = [[5 + 3 * index % 50 for index in range(29)], [60 - 2 * index % 55 for index in range(18)]]
FAMILIES = ["llama", "qwen2", "qwen3", "mistral", "phi3", "qwen3_moe"]
BOUND = 0.1
"""Largest mean distance of logits from those without rounding of activations, as a part of their spread: 0.02 to 0.05
was measured in these models."""


@cache
def clear(family: str) -> tuple[Any, list[list[int]]]:
    """A quantised model and its answers."""
    return build_clear(family, PROMPTS, TOKENS)


def distance(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Mean distance of rows of logits, as a part of their spread."""
    return float(((found - wanted).square().mean(dim=1).sqrt() / wanted.std(dim=1)).mean())


def runner_of(model: Any) -> TorchRunner:
    """A runner over a copy."""
    return build(families.loaded(copy.deepcopy(model)), page_size=PAGE, max_tokens=48 * PAGE)


@pytest.fixture(scope="module", params=FAMILIES)
def case(request: pytest.FixtureRequest) -> tuple[TorchRunner, Any, list[list[int]]]:
    """A runner, the model beside it, and what generate answers to PROMPTS."""
    model, answers = clear(request.param)
    return runner_of(model), model, answers


def test_all_int8_layers_are_replaced(case: Any) -> None:
    """In whole layers, or one by one; no weight is there twice."""
    runner, model, _ = case
    kinds = [type(part) for part in runner.model.modules()]
    assert sum(issubclass(kind, Int8Product) for kind in kinds) >= 4
    assert sum(issubclass(kind, Int8Linear) for kind in kinds) == 0
    assert sum(isinstance(part, Int8Linear) for part in model.modules()) >= 8


def test_greedy_answers_in_company_equal_generate(case: Any) -> None:
    """Small chunks, decode rows together."""
    runner, _, answers = case
    executor = PackedExecutor(runner, BatchLimits(prefill_chunk_size=7), growth_tokens=0)
    requests = [
        request(number, prompt, max_tokens=TOKENS, temperature=0.0, ignore_eos=True)
        for number, prompt in enumerate(PROMPTS)
    ]
    played = play(executor, [Arrival(asked, step) for step, asked in enumerate(requests)])
    assert [ids(played.answers[str(number)][0]) for number in range(len(PROMPTS))] == answers


def test_logits_are_those_of_the_same_weights_as_floats(case: Any) -> None:
    """But for the rounding of activations."""
    runner, model, _ = case
    pages = range(6)
    found = torch.cat(
        [runner.run(Plan([Span(pages, at, [token], 1)], 1)) for at, token in enumerate(PROMPTS[0])]
    )  # [tokens, vocab]
    wanted = without_rounding(model)(input_ids=torch.tensor([PROMPTS[0]])).logits[0].float()
    assert distance(found, wanted) < BOUND


def logits_of(runner: TorchRunner, adapter: int = 0) -> torch.Tensor:
    """After each token of a prompt that runs at once, ``[tokens, vocab]``."""
    return runner.run(Plan([Span(range(6), 0, PROMPTS[0], len(PROMPTS[0]), adapter=adapter)], 0))


def test_biases_of_norms_count() -> None:
    """Of both norms of a layer, packed as by itself."""
    model = quantise(families.build("llama"))
    for number, layer in enumerate(model.model.layers):
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            add_bias(norm)
            norm.bias.data = torch.linspace(-1, 1 + number, 32)
    wanted = model(torch.tensor([PROMPTS[0]])).logits[0]
    assert distance(wanted, quantise(families.build("llama"))(torch.tensor([PROMPTS[0]])).logits[0]) > 0.3
    assert distance(logits_of(runner_of(model)), wanted) < BOUND


def test_adapters_add_to_int8_layers() -> None:
    """As they add to others: the rows as they are, times A and B."""
    model = quantise(families.build("llama"))
    name = "model.layers.1.mlp.up_proj"
    generator = torch.Generator().manual_seed(5)
    a, b = torch.randn(4, 32, generator=generator), torch.randn(48, 4, generator=generator) / 2
    runner = runner_of(model)
    assert name in runner.adapter_layers()
    adapter = runner.load_adapter("it", {name: (a, b)})
    plain = model(torch.tensor([PROMPTS[0]])).logits[0]
    model.get_submodule(name).register_forward_hook(lambda _, args, out: out + args[0] @ a.T @ b.T)
    wanted = model(torch.tensor([PROMPTS[0]])).logits[0]
    assert distance(wanted, plain) > 0.3
    assert distance(logits_of(runner, adapter), wanted) < BOUND
    assert distance(logits_of(runner), plain) < BOUND


def test_a_replacement_with_other_scales_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each product is compared with the layers that it replaces."""
    original = Int8Product.__init__

    def wrong(product: Int8Product, layers: Any) -> None:
        original(product, layers)
        product.scales = product.scales * 1.2

    monkeypatch.setattr(Int8Product, "__init__", wrong)
    kinds = [type(part) for part in runner_of(quantise(families.build("llama"))).model.modules()]
    assert sum(issubclass(kind, Int8Product) for kind in kinds) == 0
    assert sum(issubclass(kind, Int8Linear) for kind in kinds) == 14


def test_what_the_check_allows_is_measured() -> None:
    """What int8 activations change of the logits, and half of it again; other models have the limit of their dtype."""
    model = families.build("llama")
    dense = seam.dense_logits(model, PROMPTS[0], families.VOCAB)
    assert check_limit(model, PROMPTS[0], dense) == (torch.float32, seam.TOLERANCE_HALF)
    quantised = quantise(model)
    error = seam.row_errors(dense, seam.dense_logits(without_rounding(quantised), PROMPTS[0], families.VOCAB)).median()
    far = dense + torch.randn(dense.shape, generator=torch.Generator().manual_seed(0)) * dense.std()
    dtype, limit = check_limit(quantised, PROMPTS[0], far)
    assert dtype == torch.bfloat16
    assert error < 0.1
    assert 1.4 < limit < 1.6


def test_activations_may_stay_exact_for_a_while() -> None:
    """Then the layers multiply as the same weights do as floats, and afterwards by int8 numbers again."""
    model = quantise(families.build("qwen2"))
    tokens = torch.tensor([PROMPTS[0]])
    rounded = model(tokens).logits
    with exact_activations(model):
        exact = model(tokens).logits
    torch.testing.assert_close(exact, without_rounding(model)(tokens).logits)
    assert not torch.equal(exact, rounded)
    assert torch.equal(model(tokens).logits, rounded)


def test_activations_are_rounded_again_after_a_failure() -> None:
    """A model that fails while they are exact is not left so."""
    model = quantise(families.build("qwen2"))

    def fail() -> None:
        with exact_activations(model):
            assert all(part.exact for part in model.modules() if isinstance(part, Int8Linear))
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    assert [part.exact for part in model.modules() if isinstance(part, Int8Linear)] == [False] * 14


def test_a_layer_with_some_int8_parts_keeps_its_shape() -> None:
    """Queries as floats beside int8 keys cannot be joined; each is replaced by itself."""
    model = quantise(families.build("llama"))
    model.model.layers[0].self_attn.q_proj = families.build("llama").model.layers[0].self_attn.q_proj
    runner = runner_of(model)
    first, second = runner.model.model.layers
    assert isinstance(first.self_attn.k_proj, Int8Product)
    assert not isinstance(first.self_attn.q_proj, Int8Product | torch.nn.Linear)
    assert type(second).__name__.endswith("DecoderLayer")
    assert isinstance(second.qkv, Int8Product)


def test_the_native_step_leaves_them_to_torch() -> None:
    """It would take the int8 numbers for weights."""
    model = quantise(families.build("llama")).to(torch.bfloat16)
    with pytest.raises(ModelMismatch, match="its weights are int8 with int8 activations"):
        build_native(families.loaded(model), page_size=128)
