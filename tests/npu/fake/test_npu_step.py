"""A whole step on npu:0: shapes by torch_npu's own functions, and one copy to the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_npu
from fake_runner_npu import fake_runner
from steps import INT8, model, plans, rows
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from waits import Waits

from engine.npu import operators
from engine.npu.operators import MaskedRows, PagedRows
from engine.npu.runner import NpuRunner

MODE = FakeTensorMode(allow_non_fake_inputs=True)


@pytest.fixture(autouse=True)
def _no_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake tensors of one number keep it, and compute with it on the real device; here they shall not."""
    monkeypatch.setattr(fake_tensor, "CONSTANT_NUMEL_LIMIT", 0)


@pytest.fixture(autouse=True)
def _shape_of_top_p_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema makes top-k optional, but its shape function asks for it; the shape does not depend on it."""
    original = torch_npu.npu_top_k_top_p

    def call(scores: torch.Tensor, top_p: torch.Tensor | None, top_k: torch.Tensor | None) -> torch.Tensor:
        ranks = torch.empty(len(scores), dtype=torch.int32, device=scores.device) if top_k is None else top_k
        found: torch.Tensor = original(scores, top_p, ranks)
        return found

    monkeypatch.setattr(torch_npu, "npu_top_k_top_p", call)


@pytest.fixture(scope="module", params=["llama", "qwen3", "mistral", "gpt_oss", INT8])
def runner(request: pytest.FixtureRequest) -> Iterator[NpuRunner]:
    """A runner of each kind of attention."""
    with pytest.MonkeyPatch.context() as patch:
        yield fake_runner(model(request.param), MODE, patch)


def step(runner: NpuRunner, plan: Any) -> torch.Tensor:
    """Everything from a plan to the numbers that the host wants, there."""
    with torch.no_grad():
        logits = runner._run(plan)
        assert logits.device.type == "npu"
        pairs = [pair for pair in rows() if pair[0] < len(logits)]
        return runner.selector.enqueue(logits, pairs).cpu()  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", range(4))
def test_a_step_copies_to_the_host_once(runner: NpuRunner, number: int) -> None:
    """Prompt, chunks, prefix hit, decode rows: the only wait is for the numbers that were drawn."""
    plan = plans()[number]
    wanted = sum(span.wanted for span in plan.spans)
    with MODE, Waits() as waits:
        numbers = step(runner, plan)
    assert numbers.device.type == "cpu"
    assert [shape for _, shape in waits.copies] == [numbers.shape]
    assert len(numbers) > 3 * wanted


PLANTED = {
    ".item()": lambda logits: logits[0, 0].item(),
    ".tolist()": lambda logits: logits[0].tolist(),
    "a condition": lambda logits: bool(logits[0, 0] > 0),
    "a boolean index": lambda logits: logits[logits > 0],
    "nonzero": lambda logits: logits.nonzero(),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_what_waits_for_the_device_is_caught(mistake: str) -> None:
    """Fake tensors have no values, so nothing that needs one can run."""
    with MODE, Waits():
        logits = torch.empty(3, 64, device="npu:0")
        with pytest.raises((DataDependentOutputException, DynamicOutputShapeException)):
            PLANTED[mistake](logits)


def test_a_copy_to_the_host_is_counted() -> None:
    """A .cpu() that somebody adds shows."""
    with MODE, Waits() as waits:
        torch.empty(3, 64, device="npu:0").argmax(dim=-1).cpu()
    assert [shape for _, shape in waits.copies] == [(3,)]


@pytest.mark.parametrize("heads", [(4, 4), (8, 2), (32, 8), (28, 4)])
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("counts", [[1], [1, 1, 1], [5, 1, 300], [129]])
@pytest.mark.parametrize("kind", ["causal", "band", "sinks"])
def test_attention_keeps_the_shape_of_the_queries(
    heads: tuple[int, int], dim: int, counts: list[int], kind: str
) -> None:
    """For a grid of batches, lengths and heads, as torch_npu's shape functions say."""
    query_heads, kv_heads = heads
    tokens, sequences = sum(counts), len(counts)
    with MODE:
        query = torch.empty(tokens, query_heads, dim, dtype=torch.bfloat16, device="npu:0")
        pages = torch.empty(50, 128, kv_heads, dim, dtype=torch.bfloat16, device="npu:0")
        table = torch.empty(sequences, 4, dtype=torch.int32, device="npu:0")
        mask = operators.causal_mask(torch.device("npu:0"))
        ends = [sum(counts[: place + 1]) for place in range(sequences)]
        rows_of = PagedRows(ends, [400] * sequences, table, mask)
        sinks = torch.empty(query_heads, dtype=torch.bfloat16, device="npu:0") if kind == "sinks" else None
        out = operators.attend(query, pages, pages, rows_of, 0.1, 100 if kind == "band" else None, sinks)
        assert (out.shape, out.dtype, out.device.type) == (query.shape, torch.bfloat16, "npu")
        if max(counts) == 1:
            hidden = torch.empty(sequences, 1, 1, 512, dtype=torch.bool, device="npu:0")
            out = operators.attend_masked(query, pages, pages, MaskedRows([400] * sequences, table, hidden), 0.1, sinks)
            assert (out.shape, out.dtype) == (query.shape, torch.bfloat16)


def test_other_operators_keep_their_shapes() -> None:
    """Norms, rotation, gates and filters."""
    with MODE:
        device = torch.device("npu:0")
        rows_of = torch.empty(7, 64, dtype=torch.bfloat16, device=device)
        gain = torch.empty(64, dtype=torch.bfloat16, device=device)
        assert operators.rms_norm(rows_of, gain, 1e-6).shape == (7, 64)
        normed, total = operators.add_rms_norm(rows_of, rows_of, gain, 1e-6)
        assert (normed.shape, total.shape, total.dtype) == ((7, 64), (7, 64), torch.bfloat16)
        heads = torch.empty(1, 7, 4, 16, dtype=torch.bfloat16, device=device)
        tables = torch.empty(1, 7, 1, 16, dtype=torch.bfloat16, device=device)
        assert operators.rotate(heads, tables, tables).shape == heads.shape
        assert operators.gated(rows_of).shape == (7, 32)
        weight = torch.empty(64, 96, dtype=torch.int8, device=device)
        scales = torch.empty(96, device=device)
        product = operators.int8_product(rows_of[None], weight, scales, scales)
        assert (product.shape, product.dtype) == ((1, 7, 96), torch.bfloat16)
        scores = torch.empty(3, 500, device=device)
        ranks = torch.empty(3, dtype=torch.int32, device=device)
        masses = torch.empty(3, device=device)
        assert operators.keep_likeliest(scores, ranks, masses).shape == (3, 500)
