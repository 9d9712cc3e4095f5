"""Drafts on the native step: the same bits as without them, for each model family, whatever a draft leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from native_models import FAMILIES, PAGE, VOCAB, model, need_native, runner, span, tokens
from packed_play import Arrival, play, request

from engine.batching import BatchLimits
from engine.native.runner import NativeRunner
from engine.ngrams import NgramDrafts
from engine.packed_executor import PackedExecutor
from engine.plan import Plan

PROMPT = tokens(20)


PROMPTS = [PROMPT * 2, PROMPT[::-1] * 2]


def answers(step: NativeRunner, draft_tokens: int) -> tuple[Any, PackedExecutor]:
    """Two answers of 150 tokens side by side, the second one sampled, with logprobs."""
    common = {"max_tokens": 150, "ignore_eos": True, "logprobs": 5}
    asked = [
        request(0, PROMPTS[0], temperature=0.0, **common),
        request(1, PROMPTS[1], temperature=1.0, seed=1, repetition_penalty=1.2, **common),
    ]
    executor = PackedExecutor(step, BatchLimits(draft_tokens=draft_tokens))
    played = play(executor, [Arrival(each) for each in asked])
    assert played.failures == []
    return played.answers, executor


@pytest.mark.parametrize("family", list(FAMILIES))
def test_drafted_is_not_drafted_to_the_last_bit(
    family: str, library_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens and logprobs of 300 rows, two of three of which are drafts, which end in a wrong one now and then."""
    need_native()
    step = runner(model(family), library_cache)
    plain, _ = answers(step, 0)
    whole = {tuple(prompt): plain[str(number)][0] for number, prompt in enumerate(PROMPTS)}

    def guess(self: NgramDrafts, ids: list[int], most: int) -> list[int]:
        coming = [token.token_id for token in whole[tuple(ids[:40])][len(ids) - 40 :]][:most]
        return [token if (len(ids) + place) % 7 else (token + 1) % VOCAB for place, token in enumerate(coming)]

    monkeypatch.setattr(NgramDrafts, "guess", guess)
    drafted, executor = answers(step, 3)
    assert drafted == plain
    assert 300 > executor.stats.drafted_tokens > executor.stats.accepted_tokens > 180


def test_the_last_rows_of_a_span_can_be_wanted(library_cache: Path) -> None:
    """They come in order, beside spans that want one and none, and are those of one token at a time."""
    need_native()
    step = runner(model("llama"), library_cache)
    alone = torch.cat([step.run(Plan([span(0, place, PROMPT[place : place + 1])], 1)) for place in range(20)])
    found = step.run(
        Plan([span(1, 0, PROMPT[:4], 3), span(2, 0, PROMPT, 0), span(3, 0, PROMPT[:9]), span(4, 0, PROMPT, 20)], 0)
    )
    assert torch.equal(found, torch.cat([alone[1:4], alone[8:9], alone]))


@pytest.mark.parametrize("wanted", [-1, 5])
def test_more_rows_than_a_span_has_cannot_be_wanted(library_cache: Path, wanted: int) -> None:
    """The step would write beyond them."""
    need_native()
    step = runner(model("llama"), library_cache)
    with pytest.raises(ValueError, match=f"span 0 wants the logits of {wanted} of its 4 tokens"):
        step.run(Plan([span(0, 0, PROMPT[:4], wanted)], 0))


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_what_a_draft_without_numbers_leaves_reaches_no_answer(
    library_cache: Path, monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    """A token whose embedding is infinite is guessed again and again: same bits, and nobody fails."""
    need_native()
    reduced = model("llama")
    with torch.no_grad():
        reduced.get_input_embeddings().weight[99] = torch.inf
    step = runner(reduced, library_cache)
    assert step.run(Plan([span(0, 0, [99])], 0)).isnan().all()
    plain, _ = answers(step, 0)
    assert all(99 not in [token.token_id for token in choices[0]] for choices in plain.values())
    right = NgramDrafts.guess

    def guess(self: NgramDrafts, ids: list[int], most: int) -> list[int]:
        guessed = right(self, ids, most)
        return [99 if place == wrong and len(ids) > 2 * PAGE else token for place, token in enumerate(guessed)]

    monkeypatch.setattr(NgramDrafts, "guess", guess)
    drafted, executor = answers(step, 3)
    assert executor.stats.drafted_tokens > 0
    assert drafted == plain
