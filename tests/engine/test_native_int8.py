"""Int8 weights in the native step: their limits, what is checked and said at load, and where they are refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from native_models import PAGE, in_pieces, model, need_native, runner, span, tokens, whole
from packed_play import finish, greedy
from torch import Tensor

from engine.forward import ModelMismatch
from engine.native import load
from engine.native.rounding import LogitDistance, compare, logits_in_pieces, rounded, rounded_products
from engine.native.runner import NativeRunner
from engine.native.variants import VARIANTS, NativeUnavailable
from engine.packed_loader import load_executor
from engine.plan import Plan

PROMPT = tokens(120)


@torch.inference_mode()
def dense(of: Any, ids: list[int]) -> Tensor:
    """float32 ``[tokens, vocab]``."""
    logits: Tensor = of(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
    return logits


@pytest.fixture(scope="module", params=[variant.name for variant in VARIANTS])
def variant(request: pytest.FixtureRequest) -> str:
    """Each instruction set that this machine has."""
    need_native(request.param)
    return str(request.param)


@pytest.mark.parametrize(("hidden", "inner"), [(32, 32), (160, 1056), (576, 1568)])
def test_sizes_that_are_no_multiples_of_the_sums_length_are_held(
    hidden: int, inner: int, variant: str, library_cache: Path
) -> None:
    """Shorter than the 512 products that one exact sum holds, a little longer, and several with a rest."""
    reduced = model("llama", hidden_size=hidden, intermediate_size=inner, initializer_range=0.05, vocab_size=97)
    ids = tokens(40, 97)
    found = in_pieces(runner(reduced, library_cache, variant=variant, weights="int8"), 0, ids, 9)
    wanted = dense(whole(reduced, "int8"), ids)[[8, 17, 26, 35, 39]]
    assert compare(found, wanted).share < 0.02


def test_the_largest_weights_and_activations_do_not_overflow(variant: str, library_cache: Path) -> None:
    """Every product of a sum at its limit, with the same sign: what 32 bits hold is added up in float32 in time."""
    reduced = model("llama", hidden_size=1024, intermediate_size=32, num_hidden_layers=1)
    with torch.no_grad():
        for parameter in reduced.parameters():
            parameter.fill_(1.0)
    found = runner(reduced, library_cache, variant=variant, weights="int8").run(Plan([span(0, 0, PROMPT[:5])], 0))
    torch.testing.assert_close(found[0], dense(whole(reduced, "int8"), PROMPT[:5])[-1], rtol=0.01, atol=0)


def test_a_row_of_zeros_and_one_that_is_no_number_stay_by_themselves(library_cache: Path, monkeypatch: Any) -> None:
    """The first gives zero and the second no number; their neighbours have their usual bits."""
    need_native()
    monkeypatch.setattr(load, "_check", lambda *_: None)
    reduced = model("llama")
    plan = Plan([span(0, 0, PROMPT[:7])], 0)
    usual = runner(reduced, library_cache, weights="int8").run(plan)[0]
    with torch.no_grad():
        reduced.lm_head.weight[3] = 0
        reduced.lm_head.weight[40, 5] = torch.nan
        reduced.lm_head.weight[41, 6] = torch.inf
    found = runner(reduced, library_cache, weights="int8").run(plan)[0]
    others = [token for token in range(len(usual)) if token not in (3, 40, 41)]
    assert torch.equal(found[others], usual[others])
    assert found[3] == 0
    assert not found[[40, 41]].isfinite().any()


def test_the_weights_take_half_the_memory(library_cache: Path) -> None:
    """Of a head that is tied, the embeddings are kept beside it as they are."""
    need_native()
    sizes = {}
    for name in ("llama", "llama tied"):
        for weights in ("bf16", "int8"):
            sizes[name, weights] = runner(model(name), library_cache, weights=weights)._packed.memory.size
    embeddings = 100 * 64 * 2
    assert sizes["llama", "int8"] - embeddings == (sizes["llama", "bf16"] - embeddings) // 2
    assert sizes["llama tied", "int8"] - embeddings == sizes["llama tied", "bf16"] // 2


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama", {"attention_scale": 0.1}),
        ("llama tied", {"gelu": True}),
        ("gemma2", {"logit_cap": 5.0}),
        ("gemma2", {"attention_cap": 0.0}),
        ("granite", {"residual_factor": 1.0}),
        ("gemma", {"embedding_factor": 1.0}),
    ],
)
def test_the_comparison_at_load_finds_the_mistakes_that_it_finds_in_bfloat16(
    name: str, change: dict[str, Any], library_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since the error of int8 itself is in the forward that it is compared with."""
    need_native()
    right = load.describe
    monkeypatch.setattr(load, "describe", lambda *given: dataclasses.replace(right(*given), **change))
    with pytest.raises(ModelMismatch, match="packed logits differ from its dense ones"):
        runner(model(name), library_cache, weights="int8")


def test_the_error_is_measured_and_said(library_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the comparison's own prompt of 44 tokens, in steps of four."""
    need_native()
    said: list[str] = []
    distance = LogitDistance(11, 0.5, 0.0381, 0.01, 10)
    monkeypatch.setattr(load, "compare", lambda found, wanted: distance if found.shape == wanted.shape else None)
    runner(model("llama"), library_cache, weights="int8", on_progress=said.append)
    assert (
        "int8 weights change the logits by 3.8% of their spread; the likeliest token is that of the model's own "
        "weights in 10 of 11 rows."
    ) in said


def test_a_model_that_does_not_bear_int8_is_refused(library_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the distance from its own forward, with what was found and what is allowed."""
    need_native()
    monkeypatch.setattr(load, "_INT8_DISTANCE", 0.002)
    with pytest.raises(
        ModelMismatch, match=r"int8 weights change its logits by 0\.0\d+ of their spread, where 0\.002 is"
    ):
        runner(model("llama"), library_cache, weights="int8")


def test_the_model_is_left_with_its_own_weights() -> None:
    """Bit by bit, once the comparison is over."""
    reduced = model("llama")
    before = dense(reduced, PROMPT[:9])
    with rounded_products(reduced):
        assert not torch.equal(dense(reduced, PROMPT[:9]), before)
    assert torch.equal(dense(reduced, PROMPT[:9]), before)


def test_a_matrix_is_rounded_row_by_row() -> None:
    """To multiples of the row's largest value / 127; a row of zeros stays one."""
    found = rounded(torch.tensor([[127.0, -3.4, 0.6], [0.0, 0.0, 0.0], [-254.0, 3.1, 0.9]]))
    assert found.tolist() == [[127, -3, 1], [0, 0, 0], [-254, 4, 0]]


def test_distances_are_those_of_the_definition() -> None:
    """Two rows of two tokens, one of which changes its likeliest token."""
    wanted = torch.tensor([[0.0, 2.0], [1.0, -1.0]])
    found = torch.tensor([[0.0, 2.0], [1.0, 1.5]])
    distance = compare(found, wanted)
    assert (distance.rows, distance.same_best, distance.error) == (2, 1, 0.625)
    assert distance.share == 0.625
    probabilities = wanted[1].softmax(0)
    assert distance.divergence == pytest.approx(
        (probabilities * (probabilities / found[1].softmax(0)).log()).sum().item() / 2, rel=1e-5
    )


def test_a_prompt_in_pieces_has_a_row_for_each(library_cache: Path) -> None:
    """The last one may be short."""
    need_native()
    step = runner(model("llama"), library_cache, weights="int8")
    positions, logits = logits_in_pieces(step, PROMPT[:10], 4)
    assert positions == [3, 7, 9]
    assert torch.equal(logits, in_pieces(step, 1, PROMPT[:10], 1)[positions])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny Llama in bfloat16."""
    model("llama").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def executor(folder: Path, cache: Path, **options: Any) -> Any:
    """What a server would run."""
    given = {"dtype": "bfloat16", "device": "cpu", "page_size": PAGE, "memory_bytes": 64 << 20, "threads": 1, **options}
    return load_executor(str(folder), native_cache=str(cache), cpu_weights="int8", **given)


def test_a_server_runs_int8_weights_when_they_are_asked_for(folder: Path, library_cache: Path) -> None:
    """And answers with them."""
    need_native()
    before = torch.get_num_threads()
    found = executor(folder, library_cache)
    torch.set_num_threads(before)
    assert type(found._runner) is NativeRunner
    assert found._runner._packed.model.head.scales
    assert len(finish(found, greedy("a", tokens(40), 5, ignore_eos=True))["a"][0]) == 5


@pytest.mark.parametrize(
    ("options", "kind", "reason"),
    [
        ({"cpu_step": "torch"}, NativeUnavailable, "torch was asked for."),
        ({"adapters": True}, NativeUnavailable, "it cannot add adapters."),
        ({"dtype": "float32"}, ModelMismatch, "its weights are float32, and the native step multiplies bfloat16 only."),
        (
            {"dtype": "float32", "deterministic": True},
            ModelMismatch,
            "its weights are float32, and the native step multiplies bfloat16 only.",
        ),
        ({"cpu_variant": "sse"}, NativeUnavailable, "there is no variant 'sse'; there are avx512_bf16, avx512, avx2."),
    ],
)
def test_where_the_native_step_does_not_run_int8_weights_are_refused(
    options: dict[str, Any], kind: type[Exception], reason: str, folder: Path, library_cache: Path
) -> None:
    """With the reason, instead of weights that nobody asked for."""
    need_native(build=False)
    with pytest.raises(kind) as refused:
        executor(folder, library_cache, **options)
    assert str(refused.value) == f"int8 weights are for the native CPU step: {reason}"
