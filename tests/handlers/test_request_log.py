"""The one line of each request: what it says, at which level, and what it never says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from in_process import started

from handlers.log_settings import LogSettings
from handlers.service import Service

CHAT = "/v1/chat/completions"
SECRET = "the-secret-word"
HELLO = {"model": "mock", "messages": [{"role": "user", "content": SECRET}], "ignore_eos": True, "max_tokens": 5}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ServiceFor = Callable[..., Service]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    """The fields of the lines so far, with their level."""
    caplog.set_level(logging.DEBUG, logger="handlers.watch")

    def read() -> list[dict[str, Any]]:
        found = [record for record in caplog.records if record.name == "handlers.watch"]
        return [{"level": record.levelname, **record.__dict__["fields"]} for record in found]

    return read


Lines = Callable[[], list[dict[str, Any]]]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_has_one_line(service_for: ServiceFor, lines: Lines, stream: bool) -> None:
    """Ids, model, tokens, times and why it ended; a stream is told at its end."""
    headers = {"req-id": "mine", "X-Request-Id": "theirs", "traceparent": TRACE}
    async with started(service_for()) as client:
        answer = await client.post(CHAT, json={**HELLO, "stream": stream}, headers=headers)
    (line,) = lines()

    times = [line.pop(name) for name in ("duration_ms", "ttft_ms")]
    assert times[0] >= times[1] >= 0
    assert line.pop("prompt_tokens") > 0
    assert {name: value for name, value in line.items() if value is not None} == {
        "level": "INFO",
        "request_id": "mine",
        "uuid": answer.headers["RequestUUID"],
        "client_id": "theirs",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "method": "POST",
        "endpoint": CHAT,
        "status": 200,
        "model": "mock",
        **({"stream": True} if stream else {}),
        "generated_tokens": 5,
        "finish_reason": "length",
    }


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({**HELLO, "top_p": 7}, 422, "out_of_range", "top_p"),
        ({**HELLO, "messages": SECRET}, 422, "wrong_type", "messages"),
        ({**HELLO, "model": SECRET}, 422, "unknown_model", "model"),
    ],
)
async def test_a_refusal_says_why_and_shows_no_value(
    service_for: ServiceFor, lines: Lines, body: dict[str, Any], status: int, code: str, param: str
) -> None:
    """Code and place; what a client sent there stays out, except the name of a model."""
    async with started(service_for()) as client:
        await client.post(CHAT, json=body)
    (line,) = lines()

    assert (line["status"], line["code"], line["param"], line["level"]) == (status, code, param, "INFO")
    assert "reason" not in line
    line.pop("model")
    assert SECRET not in str(line)


async def test_a_refusal_about_an_adapter_says_why(service_for: ServiceFor, lines: Lines, tmp_path: Path) -> None:
    """There is no prompt in it, and its operator has to mend something."""
    settings = {"max_loras": 1, "max_lora_rank": 8, "lora_dir": tmp_path}
    async with started(service_for(**settings)) as client:
        await client.post("/v1/load_lora_adapter", json={"lora_name": "french", "lora_path": "gone"})
    (line,) = lines()

    assert (line["status"], line["code"], line["param"]) == (422, "adapter", "lora_path")
    assert line["reason"].startswith("Input invalid lora path: there is no such folder")


async def test_a_tokenized_text_and_a_stopped_id_stay_out_of_the_log(service_for: ServiceFor, lines: Lines) -> None:
    """What is counted may be a prompt; refused, too."""
    async with started(service_for()) as client:
        for body in ({"inputs": SECRET}, {"inputs": "a", "do_decode": SECRET}):
            await client.post("/v1/tokenizer", json=body)
        await client.post("/v2/models/mock/stopInfer", json={"id": SECRET})

    assert [line["status"] for line in lines()] == [200, 422, 404]
    assert SECRET not in str(lines())


async def test_failures_of_ours_say_what_happened(service_for: ServiceFor, lines: Lines) -> None:
    """A failed round is a 500, and its sentence is our own."""
    async with started(service_for({"fail_at": 1})) as client:
        await client.post(CHAT, json=HELLO)
    (line,) = lines()

    assert (line["status"], line["code"], line["level"]) == (500, "internal", "WARNING")
    assert line["reason"] == "The engine failed while it ran this request."


async def test_an_error_event_in_a_stream_is_a_failure_in_the_log(service_for: ServiceFor, lines: Lines) -> None:
    """The status was 200 already; the line tells the code and warns."""
    service = service_for({"step_delay_s": 0.001}, max_iter_times=10**6)
    async with started(service) as client:
        asked = asyncio.create_task(client.post(CHAT, json={**HELLO, "max_tokens": 10**6, "stream": True}))
        async with asyncio.timeout(30):
            while service.front.counts.generated_tokens < 3:  # noqa: ASYNC110 - the front has no event for it
                await asyncio.sleep(0)
        await service.front.drain(0)
        await asked
    (line,) = lines()

    assert (line["status"], line["code"], line["level"]) == (200, "stopping", "WARNING")
    assert line["generated_tokens"] >= 3


async def test_probes_are_for_debugging_and_unknown_paths_are_shown(service_for: ServiceFor, lines: Lines) -> None:
    """A path that there is not stands in the line as the client wrote it; the form escapes it."""
    async with started(service_for()) as client:
        await client.get("/health")
        await client.get("/metrics")
        await client.get("/v1/nope%0aINFO%20forged")
    health, metrics, nope = lines()

    assert [(line["level"], line["endpoint"]) for line in (health, metrics)] == [
        ("DEBUG", "/health"),
        ("DEBUG", "/metrics"),
    ]
    assert (nope["level"], nope["endpoint"], nope["path"]) == ("INFO", "other", "/v1/nope\nINFO forged")


@pytest.mark.parametrize("stream", [False, True])
async def test_prompts_and_answers_are_shown_only_where_that_is_asked_for(
    service_for: ServiceFor, lines: Lines, stream: bool
) -> None:
    """Not a word of either by default."""
    async with started(service_for()) as client:
        await client.post(CHAT, json={**HELLO, "stream": stream})
    async with started(service_for(logs=LogSettings(prompts=True))) as client:
        answer = await client.post(CHAT, json={**HELLO, "temperature": 0})
        await client.post(CHAT, json={**HELLO, "temperature": 0, "stream": stream})
    hidden, _, shown = lines()

    assert SECRET not in str(hidden)
    assert not {"prompt", "answer"} & set(hidden)
    assert SECRET in shown["prompt"]
    assert shown["answer"] == answer.json()["choices"][0]["message"]["content"]


async def test_a_fault_of_ours_shows_no_prompt_in_its_trace(
    service_for: ServiceFor, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is marked, so that the forms leave the exception's text out."""
    service = service_for()

    def fail(*_: Any) -> Any:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(service.front, "submit", fail)
    async with started(service) as client:
        answer: httpx.Response = await client.post(CHAT, json=HELLO)
    found = [record for record in caplog.records if record.exc_info]

    assert answer.status_code == 500
    assert [record.__dict__["private"] for record in found] == [True]
