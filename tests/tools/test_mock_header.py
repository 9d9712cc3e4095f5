"""X-Mock: what each directive does, what is refused, and that a server that is no mock does not read it."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest
import yaml
from in_process import started
from mock_app import CHAT, COMPLETIONS, TOOL, answered, ask, events, mock_client
from mock_process import ROOT

from engine.mock_front import MockFront
from generated.models import Error
from handlers.app import build
from handlers.service import Service
from handlers.settings import Settings
from tools.mock.app import mock_app
from tools.mock.directives import DIRECTIVES
from tools.mock.faults import FAULTS
from tools.mock.middleware import MockMiddleware

DOCUMENTED = {
    int(status)
    for methods in yaml.safe_load((ROOT / "spec" / "openapi.yaml").read_text(encoding="utf-8"))["paths"].values()
    for operation in methods.values()
    for status in operation["responses"]
    if status != "200"
}


def test_every_documented_error_status_can_be_asked_for() -> None:
    """All of the spec's, and those of connections: malformed, too slow, too large headers."""
    assert set(FAULTS) == DOCUMENTED | {400, 408, 431}


@pytest.mark.parametrize("status", FAULTS)
async def test_a_status_comes_with_its_documented_body(status: int) -> None:
    """For each code of each status, on both endpoints, streamed or not, and before the body is judged."""
    async with mock_client() as client:
        for code in FAULTS[status]:
            for url, stream in ((CHAT, True), (COMPLETIONS, False)):
                answer = await ask(client, f"status={status}/{code}", url, stream=stream, temperature=-1)
                assert (answer.status_code, answer.json()["code"]) == (status, code)
                assert list(answer.json()) == ["error", "error_type", "param", "code"]
                if status != 400:  # of connections alone, so that no operation documents it
                    Error.model_validate(answer.json())


@pytest.mark.parametrize(
    ("status", "header"), [(429, "Retry-After"), (503, "Retry-After"), (401, "WWW-Authenticate"), (405, "Allow")]
)
async def test_a_status_comes_with_its_documented_header(status: int, header: str) -> None:
    """What a client decides by."""
    async with mock_client() as client:
        assert (await ask(client, f"status={status}")).headers[header]


async def test_a_status_is_answered_in_openais_form_where_that_is_set() -> None:
    """The body has the deployment's form."""
    async with mock_client(open_ai_support="openai") as client:
        assert (await ask(client, "status=429")).json()["error"]["code"] == "queue_full"


async def test_a_status_concerns_every_path() -> None:
    """Clients ask for models too."""
    async with mock_client() as client:
        answer = await client.get("/v1/models", headers={"X-Mock": "status=503/loading"})
        assert (answer.status_code, answer.json()["code"]) == (503, "loading")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("status=429, foo=1", 'X-Mock has the directive "foo"; there are ' + "status=..., "),
        ("status=418", 'X-Mock: status was given "418"; it must be one of 400, 401, '),
        ("status=429/loading", "it must be 429 alone, or with one of its codes: queue_full"),
        ("ttft=2", 'X-Mock: ttft was given "2"; it must be a time such as 200ms or 1.5s, at most 600s'),
        ("ttft=601s", "at most 600s"),
        ("slow-token=-1s", "it must be a time such as"),
        ("tokens=0", 'X-Mock: tokens was given "0"; it must be a whole number from 1 to 1000000'),
        ("tokens=1000001", "from 1 to 1000000"),
        ("tokens", "from 1 to 1000000"),
        ("finish=eos", 'X-Mock: finish was given "eos"; it must be stop, length, tool_calls'),
        ("seed-ignored=1", "seed-ignored takes no value"),
        ("tokens=1; tokens=1", "tokens twice"),
        ("disconnect-after=1, error-after=2", "an answer ends once"),
    ],
)
async def test_a_directive_that_cannot_be_read_is_refused_by_name(header: str, message: str) -> None:
    """422 with the directive, what was given and what there is."""
    async with mock_client() as client:
        answer = await ask(client, header)
        assert (answer.status_code, answer.json()["param"]) == (422, "X-Mock")
        assert message in answer.json()["error"]


async def test_a_header_that_is_too_long_is_refused() -> None:
    """More than 1024 bytes."""
    async with mock_client() as client:
        answer = await ask(client, "tokens=1," + " " * 1024)
        assert (answer.status_code, answer.json()["code"]) == (422, "too_long")


async def test_the_refusal_names_every_directive() -> None:
    """What there is."""
    async with mock_client() as client:
        message = (await ask(client, "nothing")).json()["error"]
        assert [name for name in DIRECTIVES if name not in message] == []


@pytest.mark.parametrize("url", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("tokens", [1, 2, 5, 40, 300])
async def test_tokens_is_the_length_of_every_choice(url: str, tokens: int) -> None:
    """Whole and streamed alike, ended by an end-of-sequence token that is counted."""
    async with mock_client() as client:
        wanted = {"n": 2, "temperature": 0.7, "seed": 5, "max_tokens": 500}
        choices, _, total = answered(await ask(client, f"tokens={tokens}", url, **wanted))
        assert (total, {choice["finish_reason"] for choice in choices}) == (2 * tokens, {"stop"})
        last = [event for event in events(await ask(client, f"tokens={tokens}", url, stream=True, **wanted))
                if event["choices"][0]["finish_reason"]]  # fmt: skip
        assert [event["usage"]["completion_tokens"] for event in last] == [tokens, tokens]


async def test_max_tokens_wins_over_tokens() -> None:
    """The request forbids more: cut with finish length, as a real model would be."""
    async with mock_client() as client:
        (choice,), _, total = answered(await ask(client, "tokens=40", max_tokens=7))
        assert (choice["finish_reason"], total) == ("length", 7)


async def test_ignore_eos_wins_over_tokens() -> None:
    """The end that the mock writes is ignored, as the request says."""
    async with mock_client() as client:
        (choice,), _, total = answered(await ask(client, "tokens=4", max_tokens=30, ignore_eos=True))
        assert (choice["finish_reason"], total) == ("length", 30)


@pytest.mark.parametrize(
    ("header", "body", "finish", "total"),
    [
        ("finish=length", {}, "length", 64),
        ("finish=length", {"max_tokens": 200}, "length", 200),
        ("finish=length; tokens=9", {"max_tokens": 200}, "length", 9),
        ("finish=stop", {"max_tokens": 3}, "stop", 3),
        ("finish=stop,tokens=12", {"max_tokens": 100}, "stop", 12),
    ],
)
async def test_finish_decides_how_an_answer_ends(header: str, body: dict[str, int], finish: str, total: int) -> None:
    """Length runs to the bound, stop fits within it."""
    async with mock_client() as client:
        (choice,), _, tokens = answered(await ask(client, header, **body))
        assert (choice["finish_reason"], tokens) == (finish, total)


@pytest.mark.parametrize("choice", [None, "auto", {"type": "function", "function": {"name": "get_weather"}}])
async def test_finish_tool_calls_writes_a_call_of_a_listed_tool(choice: object) -> None:
    """With arguments under its schema; a stream brings the same call."""
    async with mock_client() as client:
        wanted = {"tools": [TOOL], "tool_choice": choice}
        (whole,), _, _ = answered(await ask(client, "finish=tool_calls", **wanted))
        assert whole["finish_reason"] == "tool_calls"
        assert whole["message"]["tool_calls"] == [
            {"type": "function", "function": {"name": "get_weather", "arguments": '{"city": ""}'}}
        ]
        deltas = [event["choices"][0]["delta"] for event in events(
            await ask(client, "finish=tool_calls", stream=True, **wanted))]  # fmt: skip
        pieces = [call["function"].get("arguments", "") for delta in deltas for call in delta.get("tool_calls", [])]
        assert "".join(pieces) == '{"city": ""}'


@pytest.mark.parametrize("body", [{}, {"tools": [TOOL], "tool_choice": "none"}])
async def test_a_call_that_the_request_forbids_stays_text(body: dict[str, object]) -> None:
    """A real model that writes one without tools in use is shown as it writes."""
    async with mock_client() as client:
        (choice,), _, _ = answered(await ask(client, "finish=tool_calls", **body))
        assert (choice["finish_reason"], choice["message"]["tool_calls"]) == ("stop", [])
        assert choice["message"]["content"].startswith('<tool_call>\n{"name": ')


async def test_equal_requests_get_equal_answers_unless_the_seed_is_ignored() -> None:
    """Without a seed too; with seed-ignored three answers of one seed are three texts."""
    async with mock_client() as client:
        assert answered(await ask(client)) == answered(await ask(client))
        assert answered(await ask(client, seed=7)) == answered(await ask(client, seed=7))
        texts = [str(answered(await ask(client, "seed-ignored", seed=7))) for _ in range(3)]
        assert len(set(texts)) == 3


async def test_delays_pass_before_tokens_and_are_measured() -> None:
    """150 ms and then three times 30 ms for four tokens; the first is in prefill_time."""
    async with mock_client() as client:
        began_s = time.monotonic()
        slow = (await ask(client, "ttft=150ms, slow-token=30ms, tokens=4")).json()
        assert time.monotonic() - began_s >= 0.240
        assert slow["prefill_time"] >= 149


async def test_a_slow_request_does_not_hold_up_another() -> None:
    """The engine goes on with those that are due."""
    async with mock_client() as client:
        slow = asyncio.create_task(ask(client, "ttft=500s"))
        answer = await ask(client, "tokens=3")
        assert answer.status_code == 200
        slow.cancel()


async def test_error_after_is_an_error_event_in_a_stream_and_a_500_otherwise() -> None:
    """What came before stays; there is no finish_reason."""
    async with mock_client() as client:
        whole = await ask(client, "error-after=2")
        assert (whole.status_code, whole.json()["code"]) == (500, "internal")
        *before, last = events(await ask(client, "error-after=2", stream=True))
        assert len(before) == 3
        assert {event["choices"][0]["finish_reason"] for event in before} == {None}
        assert last["error"]["code"] == "internal"


async def test_a_server_that_is_no_mock_does_not_read_the_header() -> None:
    """The chain of `serve` has no layer for it: answers are the same with it, and nothing names it as ignored."""
    service = Service(Settings(model_name="mock"), MockFront())
    async with started(service) as client:
        plain = await ask(client, seed=1)
        for header in ("status=429", "nonsense", "tokens=3", "finish=length", "disconnect-after=1", "seed-ignored"):
            answer = await ask(client, header, seed=1)
            assert answered(answer) == answered(plain)
            assert "x-ignored-parameters" not in answer.headers
    assert MockMiddleware not in layers(build(service))
    assert MockMiddleware in layers(mock_app(service))


def layers(app: object) -> list[object]:
    """The classes of the middlewares of a Connexion application."""
    return [layer.func if isinstance(layer, partial) else layer for layer in app.middleware.middlewares]  # type: ignore[attr-defined] # Connexion has no types
