"""Nothing wrong gets into native code: sizes, ids, pages and positions out of bounds are errors in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from native_models import PAGE, POSITIONS, VOCAB, model, need_native, runner, tokens

from engine.native.runner import NativeRunner
from engine.plan import Plan, Span

PAGES = 12


@pytest.fixture(scope="module")
def step(library_cache: Path) -> NativeRunner:
    """A runner with few pages."""
    need_native()
    return runner(model("llama"), library_cache, max_tokens=PAGES * PAGE)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Span([0], 0, [VOCAB], True), f"a token id is {VOCAB}, outside of 0..{VOCAB - 1}"),
        (Span([0], 0, [3, -1], True), "a token id is -1, outside of 0..99"),
        (Span([0], 0, [2**40], True), f"a token id is {2**40}, outside of 0..99"),
        (Span([0], 0, [2**64], True), f"a token id is {2**64}, outside of 0..99"),
        (Span([PAGES], 0, [3], True), f"a page is {PAGES}, outside of 0..{PAGES - 1}"),
        (Span([-1], 0, [3], True), "a page is -1, outside of 0..11"),
        (Span([0], -1, [3], True), "a position is -1, outside of 0..255"),
        (Span(range(9), POSITIONS, [3], True), "a position is 256, outside of 0..255"),
        (Span(range(9), POSITIONS - 1, [3, 3], True), "a position is 256, outside of 0..255"),
        (Span([0], 0, [], True), "a count of tokens in a span is 0, outside of 1..256"),
        (Span([], 0, [3], True), "span 1 has 0 pages where its 1 positions need 1"),
        (Span([0], PAGE, [3], True), "span 1 has 1 pages where its 33 positions need 2"),
        (Span([0], 0, [3] * (PAGE + 1), True), "span 1 has 1 pages where its 33 positions need 2"),
    ],
)
def test_what_is_out_of_bounds_is_refused(step: NativeRunner, wrong: Span, said: str) -> None:
    """The message has the value and the bounds, and nothing is written: the next step has its usual bits."""
    good = Span([5], 0, tokens(4), True)
    before = step.run(Plan([good], 0))
    with pytest.raises(ValueError, match=said.replace(".", r"\.")):
        step.run(Plan([good, wrong], 0))
    assert torch.equal(step.run(Plan([good], 0)), before)


def test_pages_beyond_those_needed_are_not_looked_at(step: NativeRunner) -> None:
    """As the plan says, they hold nothing of meaning yet."""
    assert step.run(Plan([Span([5, 10**9], 0, [3], True)], 1)).shape == (1, VOCAB)


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ([PAGES], [0], "a page is 12, outside of 0..11"),
        ([0], [-1], "a page is -1, outside of 0..11"),
        ([0, 1], [2], "2 pages cannot be copied to 1"),
        ([2**64], [0], f"a page is {2**64}, outside of 0..11"),
        ([0, 3, 1], [2, 1, 4], "page 1 is both read and written"),
    ],
)
def test_wrong_copies_are_refused(step: NativeRunner, source: list[int], target: list[int], said: str) -> None:
    """Page ids out of bounds, lists of different lengths, and a page copied onto another that is read."""
    with pytest.raises(ValueError, match=said.replace(".", r"\.")):
        step.copy_pages(source, target)


def test_pages_are_copied_whole(step: NativeRunner) -> None:
    """Bytes of all layers, and of no other page."""
    memory: Any = step.pages.tensor().view(PAGES, step.bytes_per_page)
    memory.random_(0, 255)
    before = memory.clone()
    step.copy_pages([1, 7], [4, 2])
    assert torch.equal(memory[[4, 2]], before[[1, 7]])
    others = [0, 1, 3, 5, 6, 7, 8, 9, 10, 11]
    assert torch.equal(memory[others], before[others])
    memory.zero_()


@pytest.mark.parametrize(
    ("source", "target", "count", "said"),
    [
        (PAGES, 0, 1, "a page is 12, outside of 0..11"),
        (0, -1, 1, "a page is -1, outside of 0..11"),
        (0, 1, 0, "a page has no 0 tokens, but 32"),
        (0, 1, 33, "a page has no 33 tokens, but 32"),
    ],
)
def test_wrong_copies_of_a_part_are_refused(
    step: NativeRunner, source: int, target: int, count: int, said: str
) -> None:
    """Page ids out of bounds, and more or fewer tokens than a page can have."""
    with pytest.raises(ValueError, match=said.replace(".", r"\.")):
        step.copy_beginning(source, target, count)


def test_a_step_of_more_rows_than_any_before_runs(step: NativeRunner) -> None:
    """The rows' memory grows as it is needed."""
    small = step.run(Plan([Span([0], 0, tokens(3), True)], 0))
    step.run(Plan([Span(range(8), 0, tokens(250), True)], 0))
    assert torch.equal(step.run(Plan([Span([0], 0, tokens(3), True)], 0)), small)


def test_spans_of_one_sequence_may_not_be_needed_to_be_first(step: NativeRunner) -> None:
    """A chunk before a decode row is as good: the order is the caller's affair."""
    step.run(Plan([Span([0], 0, tokens(3), False)], 0))
    alone = step.run(Plan([Span([0], 3, [5], True)], 1))
    step.run(Plan([Span([0], 0, tokens(3), False)], 0))
    found = step.run(Plan([Span([1], 0, tokens(9), False), Span([0], 3, [5], True)], 0))
    assert torch.equal(found, alone)
