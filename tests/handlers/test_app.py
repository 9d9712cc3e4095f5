"""The whole chain in process: statuses, forms, failures, disconnects."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
import pytest
from in_process import started

from engine.generation import Generation
from engine.scheduler import Limits
from engine.types import Request as EngineRequest
from handlers.app import build
from handlers.service import Service

CHAT = "/v1/chat/completions"
HELLO = {"model": "mock", "messages": [{"role": "user", "content": "hello"}]}
ServiceFor = Callable[..., Service]


@pytest.fixture
async def client(service_for: ServiceFor) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a plain deployment."""
    async with started(service_for()) as made:
        yield made


def events(text: str) -> list[Any]:
    """The data of a stream's events, [DONE] left out."""
    *data, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in data]


async def test_a_whole_answer_has_the_contracts_keys_in_order(client: httpx.AsyncClient) -> None:
    """The key order of chat answers, measurements included."""
    body = (await client.post(CHAT, json=HELLO)).json()

    assert list(body) == [
        "id", "object", "created", "model", "choices", "usage", "prefill_time", "decode_time_arr",
    ]  # fmt: skip
    assert list(body["choices"][0]) == ["index", "message", "logprobs", "finish_reason"]
    assert list(body["choices"][0]["message"]) == ["role", "content", "tool_calls"]
    assert len(body["usage"]["batch_size"]) == len(body["usage"]["queue_wait_time"]) == 8
    assert len(body["decode_time_arr"]) == 7


@pytest.mark.parametrize(("path", "text"), [(CHAT, "delta"), ("/v1/completions", "text")])
async def test_a_stream_spells_the_whole_answer(client: httpx.AsyncClient, path: str, text: str) -> None:
    """The same request whole and streamed gives the same text, reasons and counts, choice by choice."""
    request = {**HELLO, "prompt": "hello", "n": 3, "best_of": 3, "seed": 5, "temperature": 0.7}
    whole = (await client.post(path, json=request)).json()
    stream = events((await client.post(path, json={**request, "stream": True})).text)

    for choice in whole["choices"]:
        own = [event["choices"][0] for event in stream if event["choices"][0]["index"] == choice["index"]]
        spelled = "".join(piece["delta"]["content"] if text == "delta" else piece["text"] for piece in own)
        assert spelled == (choice["message"]["content"] if text == "delta" else choice["text"])
        assert [piece["finish_reason"] for piece in own if piece["finish_reason"]] == [choice["finish_reason"]]
    counted = [event["usage"]["completion_tokens"] for event in stream if "usage" in event]
    assert sum(counted) == whole["usage"]["completion_tokens"]


async def test_a_completion_goes_on_with_its_prompt_and_a_message_does_not(
    service_for: ServiceFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a continuation keeps its first space with every tokenizer, and a message begins without one."""
    service = service_for()
    submit = service.front.submit
    continues: list[bool] = []

    def noted(request: EngineRequest) -> Generation:
        continues.append(request.continues_prompt)
        return submit(request)

    monkeypatch.setattr(service.front, "submit", noted)
    async with started(service) as client:
        for path in (CHAT, "/v1/completions"):
            assert (await client.post(path, json={**HELLO, "prompt": "hello"})).status_code == 200

    assert continues == [False, True]


async def test_best_of_is_ranked_by_mean_logprob(client: httpx.AsyncClient) -> None:
    """best_of above n returns best_of choices, the likeliest first, indices in order, offsets running on."""
    request = {"model": "mock", "prompt": "hello", "n": 1, "best_of": 5, "logprobs": 0, "seed": 3}
    choices = (await client.post("/v1/completions", json=request)).json()["choices"]

    means = [statistics.fmean(choice["logprobs"]["token_logprobs"]) for choice in choices]
    assert means == sorted(means, reverse=True)
    assert len(set(means)) > 1
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3, 4]
    starts = [choice["logprobs"]["text_offset"][0] for choice in choices]
    assert starts == [sum(len(other["text"]) for other in choices[:index]) for index in range(5)]


async def test_req_id_becomes_the_id(client: httpx.AsyncClient) -> None:
    """A usable header is taken, anything else numbered; an id may come again when its request is over."""
    twice = [await client.post(CHAT, json=HELLO, headers={"req-id": "mine-1"}) for _ in range(2)]
    odd = await client.post(CHAT, json=HELLO, headers={"req-id": "x" * 257})

    assert [answer.json()["id"] for answer in twice] == ["mine-1", "mine-1"]
    assert odd.json()["id"].startswith("endpoint_common_")


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"),
    [
        ("GET", "/nope", {}, 404, "not_found"),
        ("POST", "/v1/models/", {"Content-Type": "text/plain"}, 404, "not_found"),
        ("GET", "/v1/models/other", {}, 404, "not_found"),
        ("GET", CHAT, {}, 405, "method_not_allowed"),
        ("DELETE", "/v1/models", {}, 405, "method_not_allowed"),
        ("POST", CHAT, {"Content-Type": "text/plain"}, 415, "media_type"),
        ("POST", CHAT, {"Content-Type": "Application/JSON", "Content-Encoding": "gzip"}, 415, "media_type"),
        ("POST", CHAT, {"Content-Length": "41943041"}, 413, "body_too_large"),
        ("POST", CHAT, {}, 422, "json_invalid"),
    ],
)
async def test_refusals_before_the_contract(
    client: httpx.AsyncClient, method: str, path: str, headers: Mapping[str, str], status: int, code: str
) -> None:
    """Paths, methods, media types and sizes, each with its own status and the flat body."""
    answer = await client.request(method, path, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert list(answer.json()) == ["error", "error_type", "param", "code"]
    assert answer.headers["content-type"] == "application/json"


async def test_a_flood_of_headers_is_refused(client: httpx.AsyncClient) -> None:
    """Two hundred headers are plenty."""
    answer = await client.get("/health", headers={f"x-{number}": "1" for number in range(300)})

    assert answer.status_code == 431
    assert answer.headers["connection"] == "close"


async def test_405_names_the_allowed_methods(client: httpx.AsyncClient) -> None:
    """As HTTP wants it."""
    assert (await client.get(CHAT)).headers["allow"] == "POST"


async def test_a_body_without_content_length_is_cut_off_at_the_limit(service_for: ServiceFor) -> None:
    """Reading stops when the limit is passed, whatever the client goes on to send."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 2**26:
            sent += 2**16
            yield b" " * 2**16

    async with started(service_for(max_request_length=1)) as client:
        answer = await client.post(CHAT, content=endless())

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert sent <= 2**20 + 2**17


async def test_openais_form_of_an_error(service_for: ServiceFor) -> None:
    """Every error has OpenAI's shape then, 404 included."""
    async with started(service_for(open_ai_support="openai")) as client:
        for answer in (await client.get("/nope"), await client.post(CHAT, json={**HELLO, "n": 0})):
            assert list(answer.json()) == ["error"]
            assert list(answer.json()["error"]) == ["message", "type", "param", "code"]


async def test_unknown_members_are_named_in_the_header_of_streams_too(client: httpx.AsyncClient) -> None:
    """Whole or streamed, the header is the same."""
    for stream in (False, True):
        answer = await client.post(CHAT, json={**HELLO, "stream": stream, "温度": 1, "user": "u"})
        assert answer.headers["x-ignored-parameters"] == "%E6%B8%A9%E5%BA%A6, user"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_failure_before_the_first_token_is_plain_json(service_for: ServiceFor, stream: bool) -> None:
    """Also for a stream: 500, and no event."""
    async with started(service_for({"fail_at": 1})) as client:
        answer = await client.post(CHAT, json={**HELLO, "stream": stream})

    assert answer.status_code == 500
    assert answer.json()["error_type"] == "Incomplete Generation"


async def test_a_later_failure_is_an_error_event_and_no_finish_reason(service_for: ServiceFor) -> None:
    """The stream ends with the error event and [DONE]."""
    async with started(service_for({"fail_at": 4})) as client:
        answer = await client.post(CHAT, json={**HELLO, "stream": True})

    *texts, last = events(answer.text)
    assert answer.status_code == 200
    assert list(last) == ["error", "error_type"]
    assert all(event["choices"][0]["finish_reason"] is None for event in texts)


async def test_loading_draining_and_down_are_503(service_for: ServiceFor) -> None:
    """Each state has its code and Retry-After, and health says the same."""
    service = service_for()
    async with started(service) as client:
        for state, code in (("loading", "loading"), ("draining", "stopping"), ("down", "engine_down")):
            service.front.state = state  # type: ignore[assignment] # a plain str in this loop
            answer, health = await client.post(CHAT, json=HELLO), await client.get("/health")
            assert (answer.status_code, answer.json()["code"]) == (503, code)
            assert int(answer.headers["retry-after"]) >= 1
            assert (health.status_code, health.json()["status"]) == (503, state)
        service.front.state = "ready"
        assert (await client.get("/health")).json() == {"status": "ready"}


async def test_a_full_queue_is_429_with_retry_after(service_for: ServiceFor) -> None:
    """One request runs, none may wait: the second is told to come back, and the first is served."""
    limits = Limits(max_batch_size=1, max_queue=0)
    service = service_for({"limits": limits, "step_delay_s": 0.01})
    async with started(service) as client:
        first = asyncio.create_task(client.post(CHAT, json=HELLO))
        async with asyncio.timeout(30):
            while not service.front.running:  # type: ignore[attr-defined]  # noqa: ASYNC110 - the mock front counts
                await asyncio.sleep(0)
        second = await client.post(CHAT, json={**HELLO, "stream": True})

        assert (second.status_code, second.json()["code"]) == (429, "queue_full")
        assert second.json()["error_type"] == "Service Unavailable"
        assert int(second.headers["retry-after"]) >= 1
        assert (await first).status_code == 200


class Caller:
    """A raw ASGI client that can hang up."""

    def __init__(self, service: Service, body: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self._app = build(service)
        self._body: bytes | None = json.dumps(body).encode()
        self._hung_up = asyncio.Event()

    async def call(self) -> None:
        """Send the request and run the application to its end."""
        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": headers, "query_string": b""}
        await self._app(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)
        if message.get("more_body"):
            self.hang_up()

    def hang_up(self) -> None:
        """The client goes away."""
        self._hung_up.set()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_hangs_up_ends_its_request(service_for: ServiceFor, stream: bool) -> None:
    """The engine has nothing left to run, a whole answer is not sent, and a stream has no end."""
    service = service_for({"step_delay_s": 0.01}, max_iter_times=100_000)
    caller = Caller(service, {**HELLO, "stream": stream, "ignore_eos": True})
    await service.front.start()
    calling = asyncio.create_task(caller.call())
    async with asyncio.timeout(30):
        while not service.front.running:  # type: ignore[attr-defined]  # noqa: ASYNC110 - the mock front counts them
            await asyncio.sleep(0)
    if not stream:
        caller.hang_up()

    await asyncio.wait_for(calling, 30)

    assert service.front.running == 0  # type: ignore[attr-defined] # the mock front counts them
    assert bool(caller.sent) == stream
    assert all(b'finish_reason":"' not in message.get("body", b"") for message in caller.sent)
    await service.front.stop()


async def test_a_forced_call_comes_whole_and_streamed(service_for: ServiceFor) -> None:
    """tool_choice required makes the mock call the first tool, with the arguments that its schema requires."""
    parameters = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 2}}, "required": ["n"]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    request = {**HELLO, "tools": tools, "tool_choice": "required"}
    async with started(service_for(max_iter_times=200)) as client:
        whole = (await client.post(CHAT, json=request)).json()["choices"][0]
        stream = events((await client.post(CHAT, json={**request, "stream": True})).text)

    (call,) = whole["message"]["tool_calls"]
    assert (call["function"], whole["message"]["content"]) == ({"name": "f", "arguments": '{"n": 2}'}, "")
    assert whole["finish_reason"] == stream[-1]["choices"][0]["finish_reason"] == "tool_calls"
    pieces = [event["choices"][0]["delta"].get("tool_calls", []) for event in stream]
    assert "".join(piece[0]["function"]["arguments"] for piece in pieces if piece) == '{"n": 2}'


@pytest.mark.parametrize("member", [{"tool_choice": "required"}, {"strict": True}])
async def test_an_engine_without_grammars_refuses_to_promise_calls(
    service_for: ServiceFor, monkeypatch: pytest.MonkeyPatch, member: dict[str, Any]
) -> None:
    """required and strict are 422 unsupported there, in the engine's words."""
    service = service_for()
    monkeypatch.setattr(service.front, "forces_tool_calls", False)
    function = {"name": "f", **{key: value for key, value in member.items() if key == "strict"}}
    request = {**HELLO, "tools": [{"type": "function", "function": function}]}
    request |= {key: value for key, value in member.items() if key == "tool_choice"}
    async with started(service) as client:
        answer = await client.post(CHAT, json=request)

    error = answer.json()
    assert (answer.status_code, error["code"], error["error"]) == (
        422,
        "unsupported",
        "The mock cannot hold answers to a grammar.",
    )


async def test_a_fault_of_our_own_shows_nothing(service_for: ServiceFor, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception is a 500 whose body has none of its text."""
    service = service_for()

    def broken(_: str) -> None:
        raise RuntimeError("secret /path")

    monkeypatch.setattr(service, "check_model", broken)
    async with started(service) as client:
        answer = await client.post(CHAT, json=HELLO)

    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "secret" not in answer.text


@pytest.mark.parametrize("path", ["Qwen/Qwen2-7B", "Qwen%2FQwen2-7B"])
async def test_a_model_name_may_have_a_slash(service_for: ServiceFor, path: str) -> None:
    """GET of such a model finds it, written plainly or percent-encoded."""
    async with started(service_for(model_name="Qwen/Qwen2-7B")) as client:
        answer = await client.get(f"/v1/models/{path}")

    assert (answer.status_code, answer.json()["id"]) == (200, "Qwen/Qwen2-7B")
