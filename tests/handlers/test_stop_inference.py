"""POST /v2/models/{model}/stopInfer: which request ends, what its client gets, and what becomes free."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from in_process import started

from handlers.api_keys import Access
from handlers.record import Record
from handlers.service import Service

STOP = "/v2/models/mock/stopInfer"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ENDLESS = {"model": "mock", "ignore_eos": True, "max_tokens": 10**6}
BODIES = {CHAT: {**ENDLESS, "messages": [{"role": "user", "content": "hi"}]}, COMPLETIONS: {**ENDLESS, "prompt": "hi"}}
ServiceFor = Callable[..., Service]


def slow(service_for: ServiceFor) -> Service:
    """A service whose answers do not end by themselves."""
    return service_for({"step_delay_s": 0.001}, max_iter_times=10**6)


async def answering(service: Service, request_id: str) -> Record:
    """The request of this id, when its first token has come."""
    async with asyncio.timeout(30):
        while True:
            record = service.live.find(request_id)
            if record is not None and record.ttft_s is not None:
                return record
            await asyncio.sleep(0)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("by", ["req-id", "RequestUUID"])
async def test_a_whole_answer_ends_where_it_stands(service_for: ServiceFor, path: str, by: str) -> None:
    """Its client gets a 200 with what there is, finish_reason stop, and the right usage."""
    service = slow(service_for)
    async with started(service) as client:
        running = asyncio.create_task(client.post(path, json=BODIES[path], headers={"req-id": "mine"}))
        record = await answering(service, "mine")
        wanted = "mine" if by == "req-id" else record.uuid
        stopped = await client.post(STOP, json={"id": wanted})
        answer = (await running).json()

    assert (stopped.status_code, stopped.json()) == (200, {"id": wanted})
    assert answer["id"] == "mine"
    (choice,) = answer["choices"]
    text = choice["message"]["content"] if path == CHAT else choice["text"]
    usage = answer["usage"]
    assert text
    assert choice["finish_reason"] == "stop"
    assert record.generation is not None
    assert usage["completion_tokens"] == len(usage["batch_size"]) == record.generation.generated
    assert (service.traffic.succeeded, service.traffic.failed) == (1, 0)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_a_stream_ends_as_streams_do(service_for: ServiceFor, path: str) -> None:
    """A last event with finish_reason and usage, and [DONE]; a number of this server's is an id as well."""
    service = slow(service_for)
    async with started(service) as client:
        running = asyncio.create_task(client.post(path, json={**BODIES[path], "stream": True}))
        await answering(service, "endpoint_common_1")
        assert (await client.post(STOP, json={"id": "endpoint_common_1"})).status_code == 200
        *events, last, done = (await running).text.removesuffix("\n\n").split("\n\n")

    assert done == "data: [DONE]"
    ended = json.loads(last.removeprefix("data: "))
    assert ended["choices"][0]["finish_reason"] == "stop"
    assert ended["usage"]["completion_tokens"] >= 1
    assert all(json.loads(event.removeprefix("data: "))["choices"][0]["finish_reason"] is None for event in events)


async def test_only_the_named_request_ends(service_for: ServiceFor) -> None:
    """The other runs on, and its places and id are its own; the ended one's are free."""
    service = slow(service_for)
    async with started(service) as client:
        tasks = [
            asyncio.create_task(client.post(CHAT, json=BODIES[CHAT], headers={"req-id": name})) for name in ("a", "b")
        ]
        await answering(service, "a")
        await answering(service, "b")
        assert service.front.free_slots == service.front.total_slots - 2
        await client.post(STOP, json={"id": "a"})
        assert (await tasks[0]).json()["choices"][0]["finish_reason"] == "stop"
        assert service.live.find("a") is None
        assert service.live.find("b") is not None
        assert service.front.free_slots == service.front.total_slots - 1
        assert (await client.post(STOP, json={"id": "a"})).status_code == 404
        await client.post(STOP, json={"id": "b"})
        await tasks[1]


async def test_a_request_whose_prompt_is_still_prepared_ends_when_it_is_submitted(
    service_for: ServiceFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 for both; the answer has no tokens and the prompt's count."""
    service = slow(service_for)
    go, rendering = asyncio.Event(), asyncio.Event()
    async with started(service) as client:
        render = service.prompts.completion

        async def held(*arguments: Any) -> list[int]:
            rendering.set()
            await go.wait()
            return await render(*arguments)

        monkeypatch.setattr(service.prompts, "completion", held)
        running = asyncio.create_task(client.post(COMPLETIONS, json=BODIES[COMPLETIONS], headers={"req-id": "mine"}))
        await rendering.wait()
        assert (await client.post(STOP, json={"id": "mine"})).status_code == 200
        go.set()
        answer = (await running).json()

    assert (answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]) == ("", "stop")
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (2, 0)


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "param", "sentence"),
    [
        (STOP, {"id": "x"}, 404, "not_found", "id", "RequestId is x not found"),
        (STOP, {"id": "x" * 257}, 422, "too_long", "id", "string of 1 to 256 characters"),
        (STOP, {"id": 7}, 422, "wrong_type", "id", "id"),
        (STOP, {}, 422, "missing", "id", "id"),
        ("/v2/models/other/stopInfer", {"id": "x"}, 404, "not_found", "model", "'other' is not deployed"),
    ],
)
async def test_what_cannot_be_stopped_is_refused(
    service_for: ServiceFor, path: str, body: dict[str, Any], status: int, code: str, param: str, sentence: str
) -> None:
    """404 for ids and models that are not there, 422 for what is no id."""
    async with started(service_for()) as client:
        answer = await client.post(path, json=body)

    error = answer.json()
    assert (answer.status_code, error["code"], error["param"]) == (status, code, param)
    assert sentence in error["error"]


async def test_the_log_says_that_somebody_ended_it(service_for: ServiceFor, caplog: pytest.LogCaptureFixture) -> None:
    """A field of the request's line, absent from all others."""
    service = slow(service_for)
    caplog.set_level(logging.INFO)
    async with started(service) as client:
        running = asyncio.create_task(client.post(CHAT, json=BODIES[CHAT], headers={"req-id": "mine"}))
        await answering(service, "mine")
        await client.post(STOP, json={"id": "mine"})
        await running
        await client.post(CHAT, json={**BODIES[CHAT], "max_tokens": 2})

    lines: list[Any] = [vars(record)["fields"] for record in caplog.records if record.name == "handlers.watch"]
    chats = [line for line in lines if line["endpoint"] == CHAT]
    assert [line.get("stopped") for line in chats] == [True, None]
    assert chats[0]["finish_reason"] == "stop"
    assert {line["endpoint"] for line in lines} == {CHAT, "/v2/models/{model}/stopInfer"}


def test_ids_of_answers_are_found_before_uuids(service_for: ServiceFor) -> None:
    """A client may call itself as another request's RequestUUID is."""
    live = service_for().live
    one, other = Record(request_id="one"), Record()
    other.request_id = one.uuid
    live.enter(one)
    live.enter(other)

    assert live.find(one.uuid) is other
    assert live.find_uuid(one.uuid) is one
    assert live.find_uuid("nobody") is None


async def test_only_the_holder_of_the_same_key_may_stop_a_request(service_for: ServiceFor, tmp_path: Path) -> None:
    """To all others it is not there."""
    keys = tmp_path / "keys"
    keys.write_text("alice:sk-alice-0123\nbob:sk-bob-0123456\n")
    keys.chmod(0o600)
    alice, bob = ({"Authorization": f"Bearer {key}"} for key in ("sk-alice-0123", "sk-bob-0123456"))
    service = service_for({"step_delay_s": 0.001}, max_iter_times=10**6, access=Access(keys))
    async with started(service) as client:
        running = asyncio.create_task(client.post(CHAT, json=BODIES[CHAT], headers={"req-id": "mine", **alice}))
        record = await answering(service, "mine")
        for name in ("mine", record.uuid):
            assert (await client.post(STOP, json={"id": name}, headers=bob)).status_code == 404
            assert (await client.post(STOP, json={"id": name})).status_code == 401
        assert not record.stopped
        assert (await client.post(STOP, json={"id": "mine"}, headers=alice)).status_code == 200
        assert (await running).json()["choices"][0]["finish_reason"] == "stop"
