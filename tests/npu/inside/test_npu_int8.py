"""W8A8 on the NPU's runner: folders in both formats give the CPU path's tokens, and products err as int8 may."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cpu_npu import CpuNpuRunner
from int8_models import build_clear, rounded, without_rounding, write_compressed_tensors, write_modelslim

from engine.fused.npu_layers import NpuInt8Product
from engine.loader import load
from engine.npu import operators
from engine.plan import Plan, Span
from engine.quantised.arithmetic import quantise_rows
from engine.quantised.linear import Int8Linear
from engine.torch_runner import TorchRunner, build

TOKENS = 12
PROMPT = [5 + 3 * index % 50 for index in range(29)]
BOUND = 0.1
"""Largest mean distance of logits from those of the float model, as a part of their spread; see the tests of models."""


def greedy(runner: TorchRunner) -> tuple[list[int], torch.Tensor]:
    """TOKENS tokens after PROMPT, and the logits that they came from, ``[TOKENS, vocab]``."""
    pages = range(4)
    rows = [runner.run(Plan([Span(pages, 0, PROMPT, 1)], 0))[0]]
    tokens = [int(rows[0].argmax())]
    while len(tokens) < TOKENS:
        rows.append(runner.run(Plan([Span(pages, len(PROMPT) + len(tokens) - 1, tokens[-1:], 1)], 1))[0])
        tokens.append(int(rows[-1].argmax()))
    return tokens, torch.stack(rows)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("write", [write_modelslim, write_compressed_tensors])
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_both_formats_give_the_cpus_tokens(
    family: str, write: Callable[[Any, Path], None], dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly, and logits of the float weights but for rounding."""
    if dtype == "float32":
        monkeypatch.setenv("MINDSPEC_NPU_FLOAT32", "1")
    model = clear_floats(family)
    write(model, tmp_path)
    found = []
    for kind in (CpuNpuRunner, None):
        loaded = load(tmp_path, dtype=dtype, device="cpu")
        whole = without_rounding(loaded.model.float())
        loaded = load(tmp_path, dtype=dtype, device="cpu")
        runner = build(loaded, page_size=128, max_tokens=128 * 12, kind=kind)
        tokens, logits = greedy(runner)
        sequence = torch.tensor([[*PROMPT, *tokens[:-1]]])
        wanted = whole(input_ids=sequence).logits[0, len(PROMPT) - 1 :]
        errors = (logits - wanted).square().mean(dim=1).sqrt() / wanted.std(dim=1)
        assert errors.mean() < BOUND
        found.append(tokens)
        kinds = {type(part) for part in runner.model.modules()}
        assert (NpuInt8Product in kinds) == (kind is not None)
        assert Int8Linear not in kinds
    assert found[0] == found[1]


def clear_floats(family: str) -> Any:
    """A float model whose quantised form answers clearly."""
    quantised, _ = build_clear(family, [PROMPT], TOKENS)
    return without_rounding(copy.deepcopy(quantised))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(1, 64), (5, 64), (1, 7, 64)])
@pytest.mark.parametrize("bias", [False, True])
def test_the_operators_err_as_int8_may(dtype: torch.dtype, shape: tuple[int, ...], bias: bool) -> None:
    """Half a scale of the row for each weight, and the rounding of the output."""
    generator = torch.Generator().manual_seed(3)
    weight, scales = rounded(torch.randn(96, 64, generator=generator))
    added = torch.randn(96, generator=generator) if bias else None
    rows = torch.randn(shape, generator=generator).to(dtype)
    found = operators.int8_product(rows, weight.t().contiguous(), scales[:, 0], added)
    assert (found.dtype, found.shape) == (dtype, (*shape[:-1], 96))
    whole = rows.double() @ (weight.double() * scales).T + (0 if added is None else added)
    row_scales = quantise_rows(rows.reshape(-1, 64))[1].view(*shape[:-1], 1)
    bound = 0.5 * row_scales.double() * (weight.double() * scales).abs().sum(dim=1)
    assert ((found.double() - whole).abs() <= bound + 2 * torch.finfo(dtype).eps * whole.abs()).all()


def test_a_weight_that_is_too_wide_is_left_to_torch() -> None:
    """The operator takes 65,535 columns."""
    layer = Int8Linear(2, 65_536, bias=False)
    with pytest.raises(ValueError, match=r"an int8 weight \[2, 65536\], where 65535 is the most"):
        NpuInt8Product([layer])
