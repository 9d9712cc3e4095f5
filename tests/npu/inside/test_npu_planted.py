"""Mistakes in calls of the operators, one at a time: each is caught by a kernel or a schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from cpu_npu import both
from kernels import Forbidden
from steps import INT8, model, run

from engine.npu.runner import NpuRunner

ATTENTION = "npu_fused_infer_attention_score"
SCATTER = "npu_scatter_pa_kv_cache"
MATMUL = "npu_quant_matmul"


def changed(**keywords: Any) -> Callable[..., Any]:
    """Keywords with others in place of some of them; a function gets the old value."""

    def change(arguments: tuple[Any, ...], given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return arguments, {**given, **{k: v(given.get(k)) if callable(v) else v for k, v in keywords.items()}}

    return change


def renamed(old: str, new: str) -> Callable[..., Any]:
    """A keyword under another name."""
    return lambda arguments, given: (arguments, {new if key == old else key: value for key, value in given.items()})


def reshaped(place: int, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """A positional argument, changed."""
    return lambda arguments, given: ((*arguments[:place], change(arguments[place]), *arguments[place + 1 :]), given)


def differences(ends: list[int]) -> list[int]:
    """Lengths that are not cumulative."""
    return [end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


PLANTED = {
    "a keyword that the operator does not have": (ATTENTION, renamed("num_heads", "head_num"), RuntimeError),
    "the layout that the operator takes by itself": (ATTENTION, changed(input_layout="BSH"), Forbidden),
    "query lengths that are not cumulative": (ATTENTION, changed(actual_seq_lengths=differences), Forbidden),
    "key lengths that are cumulative": (
        ATTENTION,
        changed(actual_seq_lengths_kv=lambda lengths: torch.tensor(lengths).cumsum(0).tolist()),
        Forbidden,
    ),
    "another block size than the pages have": (ATTENTION, changed(block_size=64), Forbidden),
    "a block table of 64-bit integers": (ATTENTION, changed(block_table=lambda table: table.long()), Forbidden),
    "a mask of floats": (ATTENTION, changed(atten_mask=lambda mask: mask.float()), Forbidden),
    "no mask": (ATTENTION, changed(atten_mask=None), Forbidden),
    "too few key heads": (ATTENTION, changed(num_key_value_heads=3), Forbidden),
    "queries that are not contiguous": (
        ATTENTION,
        reshaped(0, lambda query: query.transpose(0, 1).contiguous().transpose(0, 1)),
        Forbidden,
    ),
    "pages in the blocked order": (SCATTER, changed(cache_mode="PA_NZ"), Forbidden),
    "the order that the operator takes by itself": (
        SCATTER,
        lambda arguments, given: (arguments, {}),
        Forbidden,
    ),
    "two rows for one slot": (SCATTER, reshaped(4, lambda slots: torch.zeros_like(slots)), Forbidden),
    "keys of another dtype than the pages": (SCATTER, reshaped(0, lambda key: key.half()), Forbidden),
    "a gain of another dtype": ("npu_rms_norm", reshaped(1, lambda gain: gain.float()), Forbidden),
    "tables of cosines without a head": ("npu_rotary_mul", reshaped(1, lambda table: table[:, :, 0]), Forbidden),
    "top-k as 64-bit integers": (
        "npu_top_k_top_p",
        reshaped(2, lambda ranks: None if ranks is None else ranks.long()),
        Forbidden,
    ),
    "rows of floats of 32 bits": ("npu_dynamic_quant", reshaped(0, lambda rows: rows.float()), Forbidden),
    "an int8 weight the other way round": (MATMUL, reshaped(1, lambda weight: weight.t()), Forbidden),
    "an int8 weight that is not contiguous": (
        MATMUL,
        reshaped(1, lambda weight: weight.t().contiguous().t()),
        Forbidden,
    ),
    "scales of half precision": (MATMUL, reshaped(2, lambda scales: scales.half()), Forbidden),
    "no scales of the rows": (MATMUL, changed(pertoken_scale=None), Forbidden),
    "scales of the rows in a column": (MATMUL, changed(pertoken_scale=lambda scales: scales[:, None]), Forbidden),
    "the output's dtype left out": (MATMUL, changed(output_dtype=None), Forbidden),
    "a bias of doubles": (
        MATMUL,
        changed(bias=lambda bias: torch.zeros(9, dtype=torch.float64) if bias is None else bias.double()),
        Forbidden,
    ),
}


@pytest.fixture(scope="module")
def npu() -> NpuRunner:
    """Built before any mistake, so that its next step meets it."""
    return both(model(INT8))[0]


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_caught(mistake: str, npu: NpuRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step that makes it ends in an error."""
    name, change, error = PLANTED[mistake]
    original = getattr(torch_npu, name)

    def call(*arguments: Any, **keywords: Any) -> Any:
        arguments, keywords = change(arguments, keywords)
        return original(*arguments, **keywords)

    monkeypatch.setattr(torch_npu, name, call)
    with pytest.raises(error):
        run(npu)


def test_without_a_mistake_nothing_is_caught(npu: NpuRunner) -> None:
    """The same steps as they are."""
    run(npu)
