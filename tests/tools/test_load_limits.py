"""The least time that a machine allows, with numbers that can be checked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tools.load import limits
from tools.load.cases import case
from tools.load.figures import Figures
from tools.load.limits import Limits, limit_line, limits_of
from tools.load.quiet import Usage
from tools.load.report import Comparison, distance
from tools.load.rounds import Patience, Turn

SMALL = Limits(weight_bytes=200_000_000, weights=100_000_000, output_weights=20_000_000, peak_gflop_s=400.0)


def turn(name: str, figures: Figures, speed: float = 50.0) -> Turn:
    """A turn beside which memory was read at ``speed`` GB/s; its prompts had 2,000 tokens."""
    return Turn("a", name, 0, figures, Usage(0, 0, 0, 0), (speed, speed), False, 1, prompt_tokens=[2000])


def test_few_rows_are_bound_by_memory_and_many_by_products() -> None:
    """200 MB at 50 GB/s are 4 ms; a row's products at 400 GFLOP/s are 0.5 ms."""
    assert [SMALL.step_ms(rows, 50.0) for rows in (1, 8, 16)] == [4.0, 4.0, 8.0]


def test_a_prompt_needs_the_output_layer_once() -> None:
    """2,000 tokens of 80 million weights: 800 ms, and 0.1 for the last row."""
    assert SMALL.prompt_ms(2000, 50.0) == pytest.approx(800.1)


@pytest.mark.parametrize(
    ("name", "figures", "line"),
    [
        ("c1", {"tpot_p50_ms": 6.0}, "c1: 6.0 ms, at least 4.0: 1.50 times"),
        ("d16", {"decode_ms": 16.0}, "d16: 16.0 ms, at least 8.0: 2.00 times"),
        ("long", {"ttft_p50_ms": 1600.2}, "long: 1600.2 ms, at least 800.1: 2.00 times"),
        ("c4", {"tpot_p50_ms": 6.0}, None),
        ("prefix", {"ttft_p50_ms": 6.0}, None),
        ("d8", {}, None),
    ],
)
def test_a_case_says_how_far_it_is_from_its_limit(name: str, figures: Figures, line: str | None) -> None:
    """Where prompts and decoding mix, or nothing was measured, there is no line."""
    assert limit_line(SMALL, case(name, 64), [turn(name, figures)]) == line


def test_each_turn_is_held_against_its_own_memory_speed() -> None:
    """On a host of half the speed the step may take twice as long."""
    turns = [turn("c1", {"tpot_p50_ms": 6.0}), turn("c1", {"tpot_p50_ms": 12.0}, 25.0)]
    assert limit_line(SMALL, case("c1", 64), turns) == "c1: 9.0 ms, at least 6.0: 1.50 times"


def test_the_report_names_what_the_limits_are_made_of() -> None:
    """Of the first server only; nothing without limits."""
    found = Comparison(["a", "b"], [case("c1", 64)], 1, Patience(), [turn("c1", {"tpot_p50_ms": 6.0})])
    assert distance(found) == []
    found.limits = SMALL
    head, line = distance(found)
    assert head.startswith("a and the limits, the longer of 200 MB of weights at the memory speed beside each turn")
    assert line == "  c1: 6.0 ms, at least 4.0: 1.50 times"


@pytest.mark.parametrize(("untied", "weights", "output"), [(False, 72, 40), (True, 72, 40)])
def test_embeddings_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untied: bool, weights: int, output: int
) -> None:
    """Tied they are the output layer; else only the output layer is read whole. Vectors are left out."""
    monkeypatch.setattr(limits, "peak_gflop_s", lambda: 1.0)
    tensors = {"model.embed_tokens.weight": torch.zeros(10, 4, dtype=torch.bfloat16)}
    if untied:
        tensors["lm_head.weight"] = torch.zeros(10, 4, dtype=torch.bfloat16)
    tensors["model.layers.0.mlp.weight"] = torch.zeros(8, 4, dtype=torch.bfloat16)
    tensors["model.norm.weight"] = torch.zeros(4)
    save_file(tensors, tmp_path / "model.safetensors")
    assert limits_of(tmp_path) == Limits(2 * weights, weights, output, 1.0)


def test_a_folder_without_weights_has_no_limits(tmp_path: Path) -> None:
    """As that of a tokenizer alone."""
    assert limits_of(tmp_path) is None
