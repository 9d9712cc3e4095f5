"""A pytest plugin: the engine's own tests of the packed torch runner, run on the NPU's runner instead of the CPU's."""

from __future__ import annotations

import os
from functools import partial
from typing import Final

import pytest
from cpu_npu import CpuNpuRunner

from engine import torch_runner

_PAGES: Final = "pages of the NPU have another layout"
NOT_HERE: Final = {
    "gemma2": "soft caps are refused by name, and the model runs one sequence at a time; see test_npu_refusals.py",
    "test_pages_are_copied_wherever_they_lie": _PAGES,
    "test_numbers_that_are_not_finite_stay_with_their_sequence": _PAGES,
    "test_rows_that_read_whole_pages_for_themselves": _PAGES,
    "test_a_row_without_logits_reads_nothing_of_earlier_owners": _PAGES,
    "test_a_page_counts_each_layer_with_its_own_widths": "keys and values are equally wide here",
    "test_whole_layers_of_llama_like_models_are_replaced": "other modules replace them",
    "test_a_replacement_that_computes_something_else_is_not_taken": "other modules replace them",
    "test_a_mixed_step_gives_each_row_its_own_model[gpt_oss": "sinks are bfloat16 there, whatever the model's dtype",
}
"""Tests that ask for what belongs to the CPU's runner alone, and why."""

torch_runner.build = partial(torch_runner.build, kind=CpuNpuRunner)  # type: ignore[assignment]  # for this process


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what does not apply, with its reason; and let no module in that would run on the CPU's runner unnoticed."""
    assert os.environ["MINDSPEC_NPU_BLOCK"] == "8"
    for item in items:
        assert item.module.build is torch_runner.build, f"{item.nodeid} has a build of its own"  # type: ignore[attr-defined]  # of a function
        reason = next((reason for name, reason in NOT_HERE.items() if name in item.nodeid), None)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
