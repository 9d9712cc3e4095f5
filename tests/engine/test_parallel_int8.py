"""Models with int8 weights on two ranks over gloo: what one process computes that rounds both halves of a row apart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from packed_play import Arrival, ids, play

from engine.batching import BatchLimits
from engine.front import EngineSpec, HangLimits, ProcessFront
from engine.loader import load
from engine.packed_executor import PackedExecutor
from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.output import merge_deltas
from engine.torch_runner import build
from engine.types import Request, SamplingParams
from tests.engine import rank_play, tiny_models
from tests.engine.int8_models import in_parts, shared_out, with_biases, write_modelslim
from tests.engine.rank_play import PROMPTS, TOKENS

KINDS = {
    "qwen2": {"DecoderLayer", "Int8Product"},
    "llama": {"DecoderLayer", "Int8Product"},
    "starcoder2": {"Int8Product"},
    "glm4": {"Int8Product", "Int8Linear"},
}
"""Modules of interest that run, by family."""
BOUND = 0.1
"""Largest distance of logits from one rank's, as a part of their spread; see the tests of models."""
ONE_NUMBER = 0.005
"""The same from those of the halves: more than one int8 number here or there changes, which the last bit of a float
may decide."""
WAYS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.9, "seed": 7, "top_k": 20},
    {"temperature": 1.0, "seed": 5, "n": 2, "frequency_penalty": 0.5},
]


def distance(found: Any, wanted: torch.Tensor) -> float:
    """Of a folder's logits from others ``[vocab]``, as a part of their spread."""
    return float((torch.tensor(found["logits"]) - wanted).square().mean().sqrt() / wanted.std())


def test_two_ranks_compute_what_one_process_computes_in_halves(tmp_path: Path) -> None:
    """Its tokens, and its logits; these are not one rank's, and as near to them as int8 is to floats, also in half
    precision."""
    cases = [shared_out(family, tmp_path, PROMPTS, TOKENS) for family in KINDS]
    *found, half = rank_play.play(*(case.folder for case in cases), f"{cases[-1].folder}:bfloat16")[0]
    assert [one["answers"] for one in found] == [case.answers for case in cases]
    for case, one in zip(cases, found, strict=True):
        assert distance(one, case.logits(case.halves, PROMPTS[0])) < ONE_NUMBER
        assert ONE_NUMBER < distance(one, case.logits(case.whole, PROMPTS[0])) < BOUND
    assert ONE_NUMBER < distance(half, cases[-1].logits(cases[-1].whole, PROMPTS[0])) < BOUND
    every = set().union(*KINDS.values())
    assert [every.intersection(one["kinds"]) for one in found] == list(KINDS.values())
    assert [one["int8_left"] for one in found] == [0] * len(KINDS)


async def test_two_ranks_draw_what_one_process_draws(tmp_path: Path) -> None:
    """Greedy and random choices of requests that run together, one of them with penalties."""
    requests = [
        Request(
            str(place),
            tuple(range(3, 30 + 5 * place)),
            SamplingParams(max_tokens=10, ignore_eos=True, logprobs=0, **way),
        )
        for place, way in enumerate(WAYS)
    ]
    model = tiny_models.build("qwen2", 0, mock_tokenizer().vocab_size).requires_grad_(False)
    write_modelslim(with_biases(model), tmp_path)
    loaded = load(tmp_path, dtype="float32", device="cpu")
    runner = build(replace(loaded, model=in_parts(loaded.model, 2)), page_size=8, max_tokens=2048)
    played = play(PackedExecutor(runner, BatchLimits()), [Arrival(request) for request in requests])
    wanted = [[ids(tokens) for tokens in played.answers[request.request_id].values()] for request in requests]

    kwargs = {"path": str(tmp_path), "dtype": "float32", "page_size": 8, "memory_bytes": 2**21, "device": "cpu"}
    spec = EngineSpec("engine.packed_loader:load_executor", kwargs, ranks=2, threads=1, trace=False)
    front = ProcessFront(mock_tokenizer(), spec, hang=HangLimits(1.0, 300.0))

    async def answer(request: Request) -> list[list[int]]:
        choices = merge_deltas([deltas async for deltas in front.submit(request)])
        return [[token.token.token_id for token in choice.tokens] for choice in choices]

    await front.start()
    try:
        await asyncio.wait_for(front.wait_ready(), 120)
        assert await asyncio.gather(*map(answer, requests)) == wanted
    finally:
        await front.stop()
