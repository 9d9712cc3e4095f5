"""Adapters through the front: loaded and unloaded in the engine process while requests run, and after it died."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import asynccontextmanager

import pytest

from engine.front import EngineSpec, ProcessFront
from engine.lora_book import AdapterBook, AdapterLimits
from engine.mock_front import MockFront
from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.output import merge_deltas
from engine.types import AdapterError, AdapterSource, EngineError, Request, SamplingParams
from tests.engine import peft_adapters
from tests.engine.tiny_models import build

ENDLESS = 10**9
PROMPT = tuple(range(3, 43))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A llama that knows the mock tokenizer's ids, and adapters a and b for it."""
    root = tmp_path_factory.mktemp("deployment")
    model = build("llama", 0, mock_tokenizer().vocab_size)
    model.save_pretrained(root / "model")
    for seed, name in enumerate("ab"):
        peft_adapters.save(model, root / name, seed)
    return root


@asynccontextmanager
async def _started(folders, *names):
    """A front whose model and first adapters are loaded."""
    options = {"path": str(folders / "model"), "dtype": "float32", "page_size": 8, "memory_bytes": 2**22}
    spec = EngineSpec("engine.packed_loader:load_executor", options)
    sources = [AdapterSource(name, str(folders / name)) for name in names]
    front = ProcessFront(mock_tokenizer(), spec, adapters=AdapterBook(sources, AdapterLimits(3, 8)))
    await front.start()
    try:
        yield front
    finally:
        await front.stop()


def _request(adapter=None, max_tokens=12, **sampling):
    settings = SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True, logprobs=0, **sampling)
    return Request("r", PROMPT, settings, adapter=adapter)


async def _whole(generation):
    """(token ids, cached tokens) of a request with one choice."""
    (choice,) = merge_deltas([deltas async for deltas in generation])
    return [token.token.token_id for token in choice.tokens], generation.stats.cached_tokens


async def _answers(front, *adapters):
    return [(await _whole(front.submit(_request(adapter))))[0] for adapter in adapters]


async def test_adapters_come_and_go_while_requests_run(folders):
    """Loads and unloads under a stream of requests: every answer is that of its adapter, none is lost."""
    async with _started(folders, "a") as front:
        await asyncio.wait_for(front.wait_ready(), 60)
        base, of_a = await _answers(front, None, "a")
        await front.load_adapter(AdapterSource("b", str(folders / "b")))
        (of_b,) = await _answers(front, "b")
        assert len({tuple(base), tuple(of_a), tuple(of_b)}) == 3
        right = {None: base, "a": of_a, "b": of_b, "c": of_b}
        done = asyncio.Event()

        async def ask(adapter):
            asked = 0
            while not done.is_set():
                assert (await _whole(front.submit(_request(adapter))))[0] == right[adapter]
                asked += 1
            return asked

        clients = [asyncio.create_task(ask(adapter)) for adapter in (None, "a", "b", None)]
        for _ in range(6):
            await front.load_adapter(AdapterSource("c", str(folders / "b")))
            running = [asyncio.create_task(_whole(front.submit(_request("c")))) for _ in range(3)]
            await asyncio.sleep(0)
            front.unload_adapter("c")
            assert [tokens for tokens, _ in await asyncio.gather(*running)] == [of_b] * 3
        done.set()
        assert min(await asyncio.gather(*clients)) >= 1


async def test_a_running_request_keeps_an_unloaded_adapter_and_new_ones_are_refused(folders):
    """The endless one goes on; the name is unknown at once, and its place is free when it ends."""
    async with _started(folders, "a") as front:
        await asyncio.wait_for(front.wait_ready(), 60)
        endless = front.submit(_request("a", max_tokens=150))
        await anext(endless)
        front.unload_adapter("a")
        with pytest.raises(EngineError) as caught:
            front.submit(_request("a"))
        assert caught.value.code == "unknown_model"
        await anext(endless)
        rest = [deltas async for deltas in endless]
        assert rest[-1][0].finish_reason == "length"
        assert front.adapters.ready == []


async def test_a_name_that_is_loaded_again_shares_no_prefix_with_its_past(folders):
    """40 tokens in pages of 8: 32 are cached for the same load, none after b's weights came under the name a."""
    async with _started(folders, "a", "b") as front:
        await asyncio.wait_for(front.wait_ready(), 60)
        base, base_cached = await _whole(front.submit(_request()))
        of_a, cached = await _whole(front.submit(_request("a")))
        of_b, _ = await _whole(front.submit(_request("b")))
        assert (base_cached, cached) == (0, 0)
        assert await _whole(front.submit(_request("a"))) == (of_a, 32)
        front.unload_adapter("a")
        await front.load_adapter(AdapterSource("a", str(folders / "b")))
        assert await _whole(front.submit(_request("a"))) == (of_b, 0)
        assert await _whole(front.submit(_request())) == (base, 32)


async def test_a_broken_adapter_hurts_nobody(folders, tmp_path):
    """The loads fail with a sentence, beside a request that goes on; then the same name can be loaded."""
    broken = shutil.copytree(folders / "a", tmp_path / "broken")
    file = broken / "adapter_model.safetensors"
    whole = file.read_bytes()
    async with _started(folders) as front:
        await asyncio.wait_for(front.wait_ready(), 60)
        (base,) = await _answers(front, None)
        running = front.submit(_request())
        for content in (whole[:-9], b"\xff" * 64):
            file.write_bytes(content)
            with pytest.raises(AdapterError, match="no whole safetensors file"):
                await front.load_adapter(AdapterSource("x", str(broken)))
        peft_adapters.edit_config(broken, r=9)
        with pytest.raises(AdapterError, match=r"is 9; at most 8 is taken \(maxLoraRank\)"):
            await front.load_adapter(AdapterSource("x", str(broken)))
        assert (await _whole(running))[0] == base
        assert front.adapters.ready == []
        await front.load_adapter(AdapterSource("x", str(folders / "a")))
        assert (await _answers(front, "x"))[0] != base


async def test_an_engine_that_died_comes_back_with_the_same_adapters(folders, tmp_path):
    """kill -9: those of the start and those loaded since are there again, but for one whose files are gone."""
    shutil.copytree(folders / "b", tmp_path / "b")
    async with _started(folders, "a") as front:
        await asyncio.wait_for(front.wait_ready(), 60)
        await front.load_adapter(AdapterSource("b", str(folders / "b")))
        await front.load_adapter(AdapterSource("gone", str(tmp_path / "b")))
        before = await _answers(front, None, "a", "b")
        shutil.rmtree(tmp_path / "b")
        running = asyncio.create_task(_whole(front.submit(_request("a", max_tokens=200))))
        await asyncio.sleep(0)
        os.kill(front.pid, signal.SIGKILL)
        with pytest.raises(EngineError):
            await asyncio.wait_for(running, 30)
        await asyncio.wait_for(front.wait_ready(), 60)
        assert [source.name for source in front.adapters.ready] == ["a", "b"]
        assert await _answers(front, None, "a", "b") == before


async def test_a_load_that_an_engine_takes_with_it_fails_with_it(folders):
    """The caller hears of the death, and the name is free."""
    async with _started(folders) as front:
        await asyncio.wait_for(front.wait_ready(), 60)
        os.kill(front.pid, signal.SIGSTOP)
        load = asyncio.create_task(front.load_adapter(AdapterSource("a", str(folders / "a"))))
        await asyncio.sleep(0)
        os.kill(front.pid, signal.SIGKILL)
        with pytest.raises(EngineError) as caught:
            await asyncio.wait_for(load, 30)
        assert caught.value.code == "engine_down"
        assert front.adapters.ready == front.adapters.commands() == []


async def test_a_first_adapter_that_cannot_be_loaded_stops_the_start(folders):
    """The front is down and says which adapter, and why."""
    async with _started(folders, "a", "missing") as front:
        with pytest.raises(EngineError) as caught:
            await asyncio.wait_for(front.wait_ready(), 60)
        assert caught.value.message == (
            "The adapter 'missing' cannot be loaded: there is no adapter folder named 'missing'."
        )
        assert front.state == "down"


async def test_adapters_are_not_loaded_while_the_model_is():
    """Loading, stopping and down are said as for requests."""
    front = MockFront(adapters=AdapterBook(limits=AdapterLimits(1, 1)))
    with pytest.raises(EngineError) as caught:
        await front.load_adapter(AdapterSource("a", "a"))
    assert caught.value.code == "loading"


async def test_the_mock_answers_otherwise_under_each_name():
    """Without any weights: a name is enough, and the same name says the same."""
    front = MockFront(adapters=AdapterBook([AdapterSource("a", "a")], AdapterLimits(2, 1)))
    await front.start()
    await front.load_adapter(AdapterSource("b", "b"))
    base, of_a, of_b, again = await _answers(front, None, "a", "b", "a")
    assert len({tuple(base), tuple(of_a), tuple(of_b)}) == 3
    assert of_a == again
    await front.stop()
