"""The native step's numbers: near float32, and the same bits in any company, for each model family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from native_models import FAMILIES, PAGE, VOCAB, in_pieces, model, need_native, runner, span, tokens, whole

from engine.native.runner import NativeRunner
from engine.native.variants import VARIANTS
from engine.plan import Plan

PROMPT = tokens(120)


@pytest.fixture(scope="module", params=[variant.name for variant in VARIANTS])
def variant(request: pytest.FixtureRequest) -> str:
    """Each instruction set that this machine has."""
    need_native(request.param)
    return str(request.param)


@pytest.fixture(scope="module", params=["bf16", "int8"])
def weights(request: pytest.FixtureRequest) -> str:
    """How the matrices lie in memory."""
    return str(request.param)


@pytest.fixture(scope="module", params=list(FAMILIES))
def case(request: pytest.FixtureRequest, variant: str, weights: str, library_cache: Path) -> tuple[NativeRunner, Any]:
    """A runner and the model that it was made from."""
    reduced = model(request.param)
    return runner(reduced, library_cache, variant=variant, weights=weights), reduced


@torch.inference_mode()
def test_the_error_is_below_that_of_transformers(case: tuple[NativeRunner, Any], weights: str) -> None:
    """Mean distance of all logits of a prompt from the float32 model, beyond the window and several pages.

    With int8 from the model of those weights: only what is computed with them errs, no more than in bfloat16.
    """
    step, reduced = case
    ids = torch.tensor([PROMPT])
    exact, wanted = (whole(reduced, kind)(input_ids=ids, use_cache=False).logits[0] for kind in ("bf16", weights))
    rounded = reduced(input_ids=ids, use_cache=False).logits[0].float()
    found = in_pieces(step, 0, PROMPT, 1)
    assert found.dtype == torch.float32
    assert (found - wanted).abs().mean() <= (rounded - exact).abs().mean()


def test_a_row_has_the_same_bits_in_any_company(case: tuple[NativeRunner, Any]) -> None:
    """Alone token by token, in pieces, at once, beside other sequences and prompts, and computed again elsewhere."""
    step, _ = case
    alone = in_pieces(step, 0, PROMPT, 1)
    assert torch.equal(in_pieces(step, 1, PROMPT, 7), torch.cat([alone[6::7], alone[-1:]]))
    assert torch.equal(step.run(Plan([span(2, 0, PROMPT)], 0))[0], alone[-1])
    step.run(Plan([span(3, 0, PROMPT[:50], False), span(4, 0, PROMPT[:33], False)], 0))
    together = step.run(
        Plan([span(3, 50, PROMPT[50:51]), span(4, 33, PROMPT[33:34]), span(5, 0, PROMPT[:41]), span(6, 0, PROMPT)], 2)
    )
    assert torch.equal(together, alone[[50, 33, 40, 119]])
    again = step.run(Plan([span(3, 0, PROMPT[:60]), span(4, 34, PROMPT[34:90])], 0))
    assert torch.equal(again, alone[[59, 89]])


def test_one_thread_gives_the_bits_of_many(variant: str, weights: str, library_cache: Path) -> None:
    """Also of more threads than there are columns to share out, and over more rows than one pass."""
    ids = tokens(700)
    found = []
    for threads in (1, 3, 8):
        reduced = model("qwen3", max_position_embeddings=1024)
        step = runner(reduced, library_cache, variant=variant, weights=weights, threads=threads)
        rows = [step.run(Plan([span_of(ids, 0, 600)], 0)), step.run(Plan([span_of(ids, 600, 100)], 0))]
        found.append(torch.cat(rows))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def span_of(ids: list[int], start: int, count: int) -> Any:
    """Rows of the one sequence, whose pages are all there are, backwards."""
    one = span(0, start, ids[start : start + count])
    one.pages = list(range(63, -1, -1))
    return one


def test_a_shared_prefix_gives_the_bits_of_ones_own(case: tuple[NativeRunner, Any]) -> None:
    """Full pages by reference, and the open one copied."""
    step, _ = case
    (wanted,) = step.run(Plan([span(0, 0, PROMPT)], 0))
    step.run(Plan([span(1, 0, PROMPT[:90], False)], 0))
    fork = span(2, 90, PROMPT[90:])
    parent = span(1, 0, [0]).pages
    fork.pages = [*parent[:2], *fork.pages[2:]]
    step.copy_pages(parent[2:3], fork.pages[2:3])
    assert torch.equal(step.run(Plan([fork], 0))[0], wanted)


@pytest.mark.parametrize("shared", [1, 8, 31, 32])
@pytest.mark.parametrize("same_page", [False, True])
def test_a_copied_part_of_a_page_gives_the_bits_of_ones_own(
    case: tuple[NativeRunner, Any], shared: int, same_page: bool
) -> None:
    """Whatever the page holds behind it, not numbers either; also where the page is used again itself."""
    step, _ = case
    (wanted,) = step.run(Plan([span(0, 0, PROMPT[:60])], 0))
    step.run(Plan([span(1, 0, PROMPT[:shared], False)], 0))
    parent, own = span(1, 0, [0]).pages[0], span(2, shared, PROMPT[shared:60])
    width = int(step._packed.model.head_dim)
    values = step.pages.tensor().view(torch.bfloat16).view(step.num_pages, -1, 2, PAGE // 2, width, 2)[parent, :, 1]
    for slot in range(shared, PAGE):
        values[:, slot // 2, :, slot % 2] = torch.nan
    own.pages = [parent if same_page else own.pages[0], *own.pages[1:]]
    step.copy_beginning(parent, own.pages[0], shared)
    assert torch.equal(step.run(Plan([own], 0))[0], wanted)


def test_what_an_earlier_owner_left_does_not_matter(case: tuple[NativeRunner, Any]) -> None:
    """Pages full of NaN: nothing of it comes through, although a kernel reads beyond the last token."""
    step, _ = case
    (wanted,) = step.run(Plan([span(0, 0, PROMPT[:70])], 0))
    memory = step.pages.tensor().view(torch.bfloat16).view(step.num_pages, -1)
    memory[span(1, 0, [0]).pages] = torch.nan
    assert torch.equal(in_pieces(step, 1, PROMPT[:70], 9)[-1], wanted)
    memory[span(1, 0, [0]).pages] = torch.inf
    assert torch.equal(in_pieces(step, 1, PROMPT[:70], 1)[-1], wanted)


def test_numbers_that_are_not_finite_stay_with_their_sequence(case: tuple[NativeRunner, Any]) -> None:
    """A row beside a broken sequence has its own bits, and the broken one shows that it is broken."""
    step, _ = case
    step.run(Plan([span(0, 0, PROMPT[:20], False), span(1, 0, PROMPT[:20], False)], 0))
    rows = [span(0, 20, PROMPT[20:21]), span(1, 20, PROMPT[20:21])]
    wanted = step.run(Plan(rows, 2))
    memory = step.pages.tensor().view(torch.bfloat16).view(step.num_pages, -1)
    memory[rows[1].pages[0]] = torch.nan
    found = step.run(Plan(rows, 2))
    assert torch.equal(found[0], wanted[0])
    assert found[1].isnan().any()


def test_only_wanted_spans_have_logits(case: tuple[NativeRunner, Any]) -> None:
    """In the order of the spans; none may be wanted, and a plan may be empty."""
    step, _ = case
    spans = [span(0, 0, PROMPT[:5]), span(1, 0, PROMPT[:6], False), span(2, 0, PROMPT[:7])]
    found = step.run(Plan(spans, 0))
    assert torch.equal(found, in_pieces(step, 3, PROMPT[:7], 1)[[4, 6]])
    assert step.run(Plan([span(0, 0, PROMPT[:5], False)], 0)).shape == (0, VOCAB)
    assert step.run(Plan([], 0)).shape == (0, VOCAB)


def test_pages_of_other_sizes_answer_nearly_the_same(library_cache: Path) -> None:
    """Sums are merged page by page, so the last bits depend on the size alone."""
    need_native()
    reduced = model("llama")
    small, large = (runner(reduced, library_cache, page_size=size, max_tokens=2048) for size in (PAGE, 4 * PAGE))
    found = [step.run(Plan([span(0, 0, PROMPT)], 0)) for step in (small, large)]
    torch.testing.assert_close(found[0], found[1], atol=0.05, rtol=0.05)


def test_a_window_beyond_every_sequence_is_none(library_cache: Path) -> None:
    """However large the configuration says it is."""
    need_native()
    ids = tokens(70)
    far = runner(model("mistral", sliding_window=2**33), library_cache)
    none = runner(model("mistral", sliding_window=None), library_cache)
    assert torch.equal(far.run(Plan([span(0, 0, ids)], 0)), none.run(Plan([span(0, 0, ids)], 0)))
