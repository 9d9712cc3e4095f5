"""The packed executor on the packed torch runner: a mix of requests answers as each of them alone, and as generate."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from packed_play import Arrival, ids, play, request

from engine.batching import BatchLimits
from engine.packed_executor import PackedExecutor
from engine.torch_runner import build
from tests.engine import families

PAGE = 8
TOKENS = 10
FEW = 9
"""Pages for two of the four answers."""
FEW_SHARED = 7
"""The same where beginnings that are alike lie in the same pages."""
PROMPTS = [[5 + 3 * index % 50 for index in range(29)], [60 - 2 * index % 55 for index in range(18)]]
PROMPTS += [PROMPTS[0][:20], [*PROMPTS[0][:17], 9, 8]]


@pytest.fixture(scope="module", params=["llama", "gemma3_text"])
def case(request: pytest.FixtureRequest) -> tuple[Any, list[list[int]]]:
    """A model and what generate answers to PROMPTS."""
    model, answers = families.build_clear(request.param, PROMPTS, TOKENS)
    return model, answers


def _executor(model: Any, pages: int, **limits: int) -> PackedExecutor:
    runner = build(families.loaded(copy.deepcopy(model)), page_size=PAGE, max_tokens=pages * PAGE)
    if pages == FEW and not runner.contiguous_pages:
        runner.num_pages = FEW_SHARED
    return PackedExecutor(runner, BatchLimits(**limits), growth_tokens=0)


@pytest.mark.parametrize(
    ("pages", "limits"), [(64, {}), (FEW, {}), (FEW, {"prefill_chunk_size": 3}), (64, {"max_batch_size": 2})]
)
def test_greedy_answers_in_company_equal_generate(case: Any, pages: int, limits: dict[str, int]) -> None:
    """With prefix hits, extents that move, preemptions and small chunks."""
    model, answers = case
    executor = _executor(model, pages, **limits)
    requests = [
        request(number, prompt, max_tokens=TOKENS, temperature=0.0, ignore_eos=True)
        for number, prompt in enumerate(PROMPTS)
    ]
    played = play(executor, [Arrival(asked, step) for step, asked in enumerate(requests)])
    assert [ids(played.answers[str(number)][0]) for number in range(len(PROMPTS))] == answers
    assert executor.stats.memory.pages_used == 0
    # Where pages are shared, prompts in small pieces come one after the other and leave each other room.
    crowded = pages == FEW and (executor._runner.contiguous_pages or not limits)
    assert (executor.stats.preemptions > 0) == crowded
