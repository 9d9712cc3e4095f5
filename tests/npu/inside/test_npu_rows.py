"""Single rows on an NPU: what a windowed layer of one sees, and draws by a rank that the operator does not take."""

from __future__ import annotations

import pytest
import torch

from engine.attention.npu import NpuPool, NpuStep
from engine.attention.registry import LayerShape
from engine.draws import StepDraws
from engine.npu import operators
from engine.plan import Plan, Span
from engine.sampling.one_copy import OneCopySelector
from engine.sampling.params import DrawSettings
from engine.sampling.sampler import Row
from engine.sampling.selector import TorchSelector
from engine.types import SamplingParams


def test_layers_with_windows_of_two_widths_see_each_its_own() -> None:
    """In one step, whose masks are made once: a row at place 200 sees the last 5 or 150 keys of its two pages, or the
    four that there are of a sequence that has just begun."""
    pool = NpuPool([LayerShape(4, 2, 16, 16)], 8, 128, torch.bfloat16, torch.device("cpu"))
    step = NpuStep(pool, Plan([Span([3, 1], 200, [7], 1), Span([5], 3, [9], 1)], 2))
    narrow, wide, again = (step._window(window) for window in (5, 150, 5))
    assert (~narrow.mask).sum(dim=-1).flatten().tolist() == [5, 4]
    assert (~wide.mask).sum(dim=-1).flatten().tolist() == [150, 4]
    assert (narrow.block_table.tolist(), narrow.key_lengths) == ([[1], [5]], [73, 4])
    assert (wide.block_table.tolist(), wide.key_lengths) == ([[3, 1], [5, 0]], [201, 4])
    assert again is narrow


@pytest.mark.parametrize("top_k", [1023, 1024, 1025, 2000])
def test_a_rank_beyond_the_operators_draws_what_the_sampler_draws(top_k: int) -> None:
    """It takes 1024 at most; more is left out before it is asked."""
    selector = OneCopySelector(operators.keep_likeliest, operators.MOST_TOP_K)
    logits = torch.randn(1, 3000, generator=torch.Generator().manual_seed(5)) / 10  # so flat that many ranks are drawn
    fields = SamplingParams(max_tokens=9, top_k=top_k, seed=3)
    rows = [(0, Row(DrawSettings.of(fields, 0), place, None)) for place in range(200)]
    wanted = [draw.token_id for draw in StepDraws(logits, TorchSelector()).draw(rows)]
    assert [draw.token_id for draw in selector.look(logits, rows).draws] == wanted
    ranks = logits[0].argsort(descending=True).argsort()[torch.tensor(wanted)]
    assert top_k // 2 < int(ranks.max()) < top_k
