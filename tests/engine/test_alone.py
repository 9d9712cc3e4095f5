"""The executor that runs each sequence alone: the same bits in any company, and memory for all that it admits."""

from __future__ import annotations

import pytest
import torch
from tiny_models import build, executor, ids, run

from engine.loader import LoadedModel
from engine.packed_executor import PackedExecutor
from engine.packed_loader import load_executor
from engine.runner import TorchExecutor
from engine.types import ModelInfo, Request, SamplingParams

BYTES_PER_TOKEN = 2 * 2 * 2 * 8 * 4
"""Of the tiny llama: keys and values, 2 layers, 2 heads of 8, float32."""


def _with_room_for(tokens: int) -> TorchExecutor:
    model = build("llama", 0)
    info = ModelInfo(96, 256, (2,), "float32", "cpu", "LlamaForCausalLM")
    return TorchExecutor(LoadedModel(model, info), memory_bytes=tokens * BYTES_PER_TOKEN)


def _request(name: str, prompt: int, output: int, n: int = 1, beams: bool = False) -> Request:
    sampling = SamplingParams(max_tokens=output, n=n, use_beam_search=beams, temperature=0.7, seed=5, logprobs=0)
    return Request(name, tuple(range(3, 3 + prompt)), sampling)


def test_a_request_waits_for_memory_that_others_may_need() -> None:
    """With room for 100 tokens, 60 are promised, so 41 more do not fit and 40 do."""
    alone = _with_room_for(100)
    alone.add(_request("first", 10, 50))
    assert not alone.can_admit(_request("second", 10, 31))
    assert alone.can_admit(_request("second", 10, 30))


def test_memory_comes_back_with_the_end_of_a_request() -> None:
    """After the first request is dropped the second one fits."""
    alone = _with_room_for(100)
    alone.add(_request("first", 10, 50))
    alone.remove("first")
    assert alone.can_admit(_request("second", 10, 90))


@pytest.mark.parametrize(("n", "beams", "needed"), [(1, False, 101), (2, False, 202), (2, True, 404)])
def test_a_request_that_can_never_fit_is_refused_with_both_numbers(n: int, beams: bool, needed: int) -> None:
    """Choices count each, and beams twice, since a fork is there before its parent goes."""
    alone = _with_room_for(100)
    refusal = alone.refuse(_request("wide", 1, 100, n, beams))
    assert refusal == f"This request needs memory for up to {needed} tokens; this deployment has memory for 100."
    with pytest.raises(ValueError, match="memory"):
        alone.add(_request("wide", 1, 100, n, beams))


def test_logprobs_are_the_same_bits_in_any_company() -> None:
    """A sampled request has equal tokens and equal logprobs alone and beside five others."""
    model = build("llama", 3)
    mine = _request("mine", 9, 12)
    others = [_request(f"other {n}", n, 12, n=2) for n in range(1, 6)]
    (alone,) = run(executor(model), mine).values()
    company = run(executor(model), *others, mine)["mine"]
    assert ids(company[0]) == ids(alone[0])
    assert [token.logprob for token in company[0]] == [token.logprob for token in alone[0]]


def test_a_deterministic_deployment_runs_sequences_alone(tmp_path) -> None:
    """The setting chooses the executor."""
    with torch.random.fork_rng(devices=[]):
        build("llama", 0).save_pretrained(tmp_path)
    assert isinstance(load_executor(str(tmp_path), device="cpu", deterministic=True), TorchExecutor)
    assert isinstance(load_executor(str(tmp_path), device="cpu", memory_bytes=1 << 20), PackedExecutor)
