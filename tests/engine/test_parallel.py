"""One model on two ranks over gloo: the tokens of one rank, deaths and hangs of a rank, and what cannot be shared."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig

from engine.front import EngineSpec, HangLimits, ProcessFront
from engine.loader import LoadError, _refuse_ranks, load
from engine.packed_loader import load_executor
from engine.parallel.fit import heads_of, refusal
from engine.parallel.ranks import Followers
from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.output import merge_deltas
from engine.types import EngineError, Request, SamplingParams
from tests.engine import families
from tests.engine.rank_play import PROMPTS, TOKENS, play
from tests.engine.tiny_models import build

FACTORY = "engine.packed_loader:load_executor"
SHARED = [
    "llama",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "mistral",
    "gemma2",
    "gemma3_text",
    "glm4",
    "deepseek_v3",
    "starcoder2",
]
"""Families whose layers differ in what is shared out: biases, norms of heads, experts, latent attention."""
REPLACED = {"llama", "qwen2", "qwen3", "mistral"}
ENDLESS = SamplingParams(max_tokens=10_000, ignore_eos=True)
TOKENS_EACH = 10
WAYS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.9, "seed": 7, "top_k": 20},
    {"temperature": 1.0, "seed": 5, "n": 2, "frequency_penalty": 0.5},
    {"n": 2, "use_beam_search": True},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A llama of 4 heads and 2 key-value heads that knows the mock tokenizer's ids."""
    path = tmp_path_factory.mktemp("model")
    build("llama", 0, mock_tokenizer().vocab_size).save_pretrained(path)
    return path


def _front(folder: Path, ranks: int, **options: Any) -> ProcessFront:
    kwargs = {"path": str(folder), "dtype": "float32", "page_size": 8, "memory_bytes": 2**21, "device": "cpu"}
    spec = EngineSpec(FACTORY, {**kwargs, **options}, ranks=ranks, threads=1, trace=False)
    return ProcessFront(mock_tokenizer(), spec, hang=HangLimits(1.0, 300.0))


def _requests() -> list[Request]:
    """More than one page each, alike in their beginnings, of all ways to choose tokens."""
    prompts = [tuple(range(3, 30 + 5 * place)) for place in range(len(WAYS))]
    return [
        Request(f"r{place}", prompt, SamplingParams(max_tokens=TOKENS_EACH, ignore_eos=True, logprobs=0, **way))
        for place, (prompt, way) in enumerate(zip(prompts, WAYS, strict=True))
    ]


async def _answers(front: ProcessFront) -> list[list[list[int]]]:
    """Token ids of all choices of all requests, which run together. They stand beside logprobs."""

    async def answer(request: Request) -> list[list[int]]:
        choices = merge_deltas([deltas async for deltas in front.submit(request)])
        found = [[token.token.token_id for token in choice.tokens] for choice in choices]
        assert {len(token_ids) for token_ids in found} == {TOKENS_EACH}
        return found

    return await asyncio.gather(*map(answer, _requests()))


async def _down(front: ProcessFront, number: int) -> str:
    """Send a signal to rank 1 in the middle of a request; what that request is told."""
    running = front.submit(Request("endless", (5, 6, 7), ENDLESS))
    await anext(running)
    os.kill(front.pids[1], number)
    with pytest.raises(EngineError) as caught:
        await asyncio.wait_for(asyncio.create_task(_exhausted(running)), 60)
    assert caught.value.code == "engine_down"
    await asyncio.wait_for(front.wait_ready(), 120)
    return caught.value.message


async def _exhausted(running: Any) -> None:
    async for _ in running:
        pass


async def test_two_ranks_give_the_tokens_of_one_and_survive_a_rank(folder: Path, caplog: Any) -> None:
    """Also after kill -9 and after SIGSTOP of the second one, both of which are reported."""
    alone = _front(folder, 1, cpu_step="torch")
    await alone.start()
    try:
        await asyncio.wait_for(alone.wait_ready(), 120)
        wanted = await _answers(alone)
    finally:
        await alone.stop()
    front = _front(folder, 2)
    await front.start()
    try:
        await asyncio.wait_for(front.wait_ready(), 120)
        assert await _answers(front) == wanted
        assert await _down(front, signal.SIGKILL) == "The engine process ended unexpectedly."
        assert "lost its rank 1, which was ended by SIGKILL" in caplog.text
        assert await _answers(front) == wanted
        assert await _down(front, signal.SIGSTOP) == "The engine process did not answer any more and was ended."
        assert "did not answer any more and was killed; it is started again" in caplog.text
        assert await _answers(front) == wanted
        assert front.counts.engine_restarts == 2
    finally:
        await front.stop()


async def test_three_ranks_cannot_share_two_key_value_heads(folder: Path) -> None:
    """The first load says so by numbers, and is not tried again."""
    front = _front(folder, 3)
    await front.start()
    try:
        with pytest.raises(EngineError) as caught:
            await asyncio.wait_for(front.wait_ready(), 120)
        assert caught.value.message.endswith(
            f"worldSize is 3, and {folder.name!r} has 4 attention heads and 2 key-value heads, which 3 ranks cannot "
            "share equally; possible for it: 1, 2."
        )
        assert front.counts.engine_restarts == 0
    finally:
        await front.stop()


def test_the_families_of_models_answer_on_two_ranks_as_generate_does(tmp_path: Path) -> None:
    """Chunks, company and decode rows, with and without modules that are replaced; GPT-OSS has no plan for it."""
    answers = {}
    for family in SHARED:
        model, answers[family] = families.build_clear(family, PROMPTS, TOKENS)
        model.save_pretrained(tmp_path / family)
    families.build("gpt_oss").save_pretrained(tmp_path / "gpt_oss")
    (*found, last), log = play(*(tmp_path / family for family in (*SHARED, "gpt_oss")))
    assert {family: one["answers"] for family, one in zip(SHARED, found, strict=True)} == answers
    assert {family for family, one in zip(SHARED, found, strict=True) if "DecoderLayer" in one["kinds"]} == REPLACED
    assert last is None
    assert "transformers has no plan by which ranks could share a gpt_oss" in log


@pytest.mark.parametrize(
    ("options", "wish"),
    [
        ({"cpu_step": "native"}, "--cpu-step native"),
        ({"cpu_weights": "int8"}, "int8 weights"),
        ({"adapters": True}, "adapters"),
        ({"deterministic": True}, "--deterministic"),
    ],
)
def test_what_several_ranks_do_not_have_is_refused_by_name(options: dict[str, Any], wish: str) -> None:
    """Before anything is loaded."""
    with pytest.raises(LoadError, match=f"worldSize is 1, and {wish} cannot be had with more than 1"):
        load_executor("nowhere", followers=Followers([]), **options)


def test_a_model_without_a_plan_is_not_shared(tmp_path: Path) -> None:
    """Refused by the folder, before weights are read."""
    families.build("gpt_oss").save_pretrained(tmp_path)
    with pytest.raises(LoadError, match="no plan by which ranks could share a gpt_oss"):
        load(tmp_path, ranks=2)


def test_gguf_files_and_models_that_take_media_have_one_rank() -> None:
    """By name."""
    config = AutoConfig.for_model("llama")
    with pytest.raises(LoadError, match="worldSize is 2, and 'm' is a GGUF file, which runs on one device"):
        _refuse_ranks("m", config, 2, from_gguf=True)
    with pytest.raises(LoadError, match="worldSize is 2, and 'm' takes media; such models run on one device"):
        _refuse_ranks("m", AutoConfig.for_model("qwen2_vl"), 2, from_gguf=False)


@given(st.integers(1, 128), st.integers(1, 32), st.integers(2, 64))
def test_ranks_share_heads_equally_or_not_at_all(groups: int, kv_heads: int, ranks: int) -> None:
    """A number is refused exactly when it does not divide both counts; those that the sentence names do."""
    heads = groups * kv_heads, kv_heads
    found = refusal(heads, ranks, "m")
    assert (found is None) == (kv_heads % ranks == 0)
    if found is not None:
        possible = found.rpartition("possible for it: ")[2].split(", ")
        assert all(refusal(heads, int(number), "m") is None for number in possible)


def test_heads_are_those_of_the_text_part() -> None:
    """Of a configuration with parts; and 9 heads without key-value heads of their own are 9 of both."""
    text = {"num_attention_heads": 8, "num_key_value_heads": 2}
    assert heads_of({"text_config": text, "num_attention_heads": 3}) == (8, 2)
    assert heads_of({"num_attention_heads": 9}) == (9, 9)
    assert heads_of({"model_type": "mamba"}) is None
    assert refusal(None, 2, "m") is None
    assert refusal((9, 9), 2, "SmolLM2") == (
        "is 2, and SmolLM2 has 9 attention heads and 9 key-value heads, which 2 ranks cannot share equally; possible "
        "for it: 1, 3, 9"
    )
