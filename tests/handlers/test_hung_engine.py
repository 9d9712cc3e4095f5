"""HTTP while the engine process hangs: it answers all the while, and serves again afterwards."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from in_process import started

from engine.front import EngineSpec, HangLimits, ProcessFront
from engine.text.byte_tokenizer import mock_tokenizer
from handlers.service import Service
from handlers.settings import Settings

COMPLETION = {"model": "mock", "prompt": "hello", "max_tokens": 10**6, "ignore_eos": True}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stopped_engine_fails_its_requests_and_comes_back(stream: bool) -> None:
    """A whole answer gets 503, a stream that had begun an error event, both engine_down; GET /health never fails."""
    spec = EngineSpec("engine.mock:make_executor", {"step_delay_s": 0.001})
    front = ProcessFront(mock_tokenizer(), spec, hang=HangLimits(1.0, 1e6))
    statuses = []
    async with started(Service(Settings("mock", max_iter_times=10**6), front)) as client, asyncio.timeout(60):
        await front.wait_ready()
        body = {**COMPLETION, "stream": stream}
        asking = asyncio.create_task(client.post("/v1/completions", json=body))
        while not front.counts.generated_tokens:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        assert front.pid is not None
        os.kill(front.pid, signal.SIGSTOP)
        while not asking.done():
            statuses.append((await client.get("/health")).status_code)
            await asyncio.sleep(0.01)
        answer = await asking
        await front.wait_ready()
        again = await client.post("/v1/completions", json={**COMPLETION, "max_tokens": 2})

    assert set(statuses) <= {200, 503}
    assert len(statuses) > 3
    assert again.status_code == 200
    if stream:
        assert answer.status_code == 200
        *_, event, done, _ = answer.text.split("\n\n")
        assert done == "data: [DONE]"
        assert '"code":"engine_down"' in event
    else:
        assert (answer.status_code, answer.json()["code"]) == (503, "engine_down")
