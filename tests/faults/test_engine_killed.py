"""The engine process is killed or stopped while it reads a prompt, while it answers, and while it is idle."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest
from fault_server import (
    COMPLETIONS,
    LONG,
    SHORT,
    asked,
    client_of,
    engine_of,
    events_of,
    fault_server,
    is_ready,
    metric,
    text_of,
    until,
)

STALL_S = 1.0
FAULTS = pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["kill", "stop"])


async def comes_back(client, process, record_property):
    """Wait until the server is ready again: another engine, the process alive, all requests counted."""

    async def again():
        live = await client.get("/v2/health/live")
        assert live.status_code == 200
        return await metric(client, "mindspec_engine_restarts_total") == 1 and await is_ready(client)

    record_property("ready_again_s", await until(again))
    answer = await client.post(COMPLETIONS, json=asked(SHORT, max_tokens=3))
    assert answer.json()["usage"]["completion_tokens"] == 3
    ended = [await metric(client, f"request_{kind}_total") for kind in ("received", "success", "failed")]
    assert ended[0] == ended[1] + ended[2]
    assert process.poll() is None


@FAULTS
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_in_the_prompt_a_client_gets_a_503_that_says_why(fault, stream, record_property):
    """Nothing has been answered, so a stream has not begun either; another client's whole answer came before."""
    with fault_server(STALL_S) as (process, url):
        async with client_of(url) as client:
            before = await client.post(COMPLETIONS, json=asked(SHORT, max_tokens=5))
            asking = asyncio.create_task(client.post(COMPLETIONS, json=asked(LONG, stream)))

            async def runs():
                return await metric(client, "mindspec_sequences_running") == 1

            await until(runs)
            os.kill(engine_of(process), fault)
            answer = await asking
            assert before.json()["usage"]["completion_tokens"] == 5
            assert (answer.status_code, answer.json()["code"]) == (503, "engine_down")
            assert answer.headers["content-type"] == "application/json"
            assert "retry-after" in answer.headers
            await comes_back(client, process, record_property)


@FAULTS
async def test_in_an_answer_a_stream_ends_with_the_error_event(fault, record_property):
    """The text that came is the beginning of the answer that an undisturbed engine gives; the last event is [DONE]."""
    with fault_server(STALL_S) as (process, url):
        async with client_of(url) as client:
            whole = asyncio.create_task(client.post(COMPLETIONS, json=asked(SHORT)))
            async with client.stream("POST", COMPLETIONS, json=asked(SHORT, stream=True)) as stream:
                lines = stream.aiter_lines()
                first = (await anext(lines)).removeprefix("data: ")
                os.kill(engine_of(process), fault)
                *events, error, done = [first, *await events_of(lines)]
            answer = await whole
            assert stream.status_code == 200
            assert done == "[DONE]"
            assert json.loads(error)["error"]["code"] == "engine_down"
            assert (answer.status_code, answer.json()["code"]) == (503, "engine_down")
            await comes_back(client, process, record_property)
            text = text_of(events)
            undisturbed = await client.post(COMPLETIONS, json=asked(SHORT, max_tokens=4 * len(text) + 8))
            assert undisturbed.json()["choices"][0]["text"].startswith(text)


@FAULTS
async def test_an_idle_engine_is_started_again_without_a_request(fault, record_property):
    """Readiness falls and comes back by itself; who asks meanwhile gets 503 and when to come back."""
    with fault_server(STALL_S) as (process, url):
        async with client_of(url) as client:
            os.kill(engine_of(process), fault)

            async def falls():
                return not await is_ready(client)

            await until(falls)
            answer = await client.post(COMPLETIONS, json=asked(SHORT, max_tokens=3))
            assert answer.status_code in (503, 200)
            if answer.status_code == 503:
                assert answer.json()["code"] in ("engine_down", "loading")
            await comes_back(client, process, record_property)


def test_a_stopped_engine_does_not_keep_the_server_from_ending():
    """Whether or not it counts as dead yet: it is killed when it does not take its leave, and the code is 0."""
    with fault_server(3600.0) as (process, _):
        engine = engine_of(process)
        os.kill(engine, signal.SIGSTOP)
        process.terminate()
        assert process.wait(60) == 0
        with pytest.raises(ProcessLookupError):
            os.kill(engine, 0)
