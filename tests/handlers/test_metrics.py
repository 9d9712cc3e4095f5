"""GET /metrics over the whole chain: names, buckets and values, what is counted, and where it is served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from in_process import started
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from engine.scheduler import Limits
from engine.stats import EngineStats, ExecutorStats, MediaStats, MemoryStats
from handlers.app import build
from handlers.service import Service

CHAT = "/v1/chat/completions"
HELLO = {"model": "mock", "messages": [{"role": "user", "content": "hello"}], "ignore_eos": True, "max_tokens": 5}
ServiceFor = Callable[..., Service]

# What MindIE's documentation lists, typed in here once more.
COUNTERS = [
    "request_received",
    "request_success",
    "request_failed",
    "num_preemptions",
    "prompt_tokens",
    "generation_tokens",
]
GAUGES = [
    "num_requests_running",
    "num_requests_waiting",
    "num_requests_swapped",
    "avg_prompt_throughput_toks_per_s",
    "avg_generation_throughput_toks_per_s",
    "failed_request_perc",
    "npu_cache_usage_perc",
    "cpu_cache_usage_perc",
    "npu_prefix_cache_hit_rate",
    "all_radix_match_num",
    "npu_radix_match_hit_num",
]
TOKEN_ENDS = "10 50 100 200 500 1000 2000 5000 10000 16000 20000 32000 50000 64000 128000 +Inf"
HISTOGRAMS = {
    "time_to_first_token_seconds": "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 +Inf",
    "time_per_output_token_seconds": "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 +Inf",
    "e2e_request_latency_seconds": "1 2.5 5 10 15 20 30 40 50 60 +Inf",
    "request_prompt_tokens": TOKEN_ENDS,
    "request_generation_tokens": TOKEN_ENDS,
}


async def families(client: httpx.AsyncClient) -> dict[str, Metric]:
    """All metrics by name."""
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


async def values(client: httpx.AsyncClient) -> dict[str, float]:
    """Every sample but those of buckets, by its name and its labels' values besides the model's name."""
    found = {}
    for family in (await families(client)).values():
        for sample in family.samples:
            labels = [value for name, value in sample.labels.items() if name != "model_name"]
            if not sample.name.endswith("_bucket"):
                found[" ".join([sample.name.removeprefix("mindspec_"), *labels])] = sample.value
    return found


async def test_every_name_of_mindies_is_there_with_its_kind_and_its_one_label(service_for: ServiceFor) -> None:
    """Exactly these, besides those that are called mindspec_."""
    async with started(service_for()) as client:
        found = await families(client)

    kinds = {name: family.type for name, family in found.items() if not name.startswith("mindspec_")}
    assert kinds == {
        **dict.fromkeys(COUNTERS, "counter"),
        **dict.fromkeys(GAUGES, "gauge"),
        **dict.fromkeys(HISTOGRAMS, "histogram"),
    }
    for name in kinds:
        for sample in found[name].samples:
            assert {key: value for key, value in sample.labels.items() if key != "le"} == {"model_name": "mock"}
    assert {sample.name for name in COUNTERS for sample in found[name].samples} == {
        f"{name}_total" for name in COUNTERS
    }


async def test_buckets_end_where_mindies_do(service_for: ServiceFor) -> None:
    """The same numbers in the same spelling, and no series of times of creation."""
    async with started(service_for()) as client:
        found = await families(client)

    for name, ends in HISTOGRAMS.items():
        samples = found[name].samples
        assert " ".join(sample.labels["le"] for sample in samples if "le" in sample.labels) == ends
        assert {sample.name.removeprefix(name) for sample in samples} == {"_bucket", "_count", "_sum"}


async def test_vllms_names_come_with_a_switch(service_for: ServiceFor) -> None:
    """Beside MindIE's, with the same values."""
    async with started(service_for(metrics_vllm=True)) as client:
        await client.post(CHAT, json=HELLO)
        found = await values(client)

    assert found["vllm:request_success_total length"] == found["request_success_total"] == 1
    assert found["vllm:generation_tokens_total"] == found["generation_tokens_total"] == 5
    assert found["vllm:inter_token_latency_seconds_count"] == found["time_per_output_token_seconds_count"] == 4
    assert found["vllm:num_requests_running"] == found["vllm:kv_cache_usage_perc"] == 0


async def test_a_server_that_did_nothing_says_zero(service_for: ServiceFor) -> None:
    """Everything that there is of its own; pages are missing, because the mock engine has none."""
    async with started(service_for()) as client:
        found = await values(client)

    states = {name: value for name, value in found.items() if name.startswith("engine_state")}
    assert states == {
        "engine_state loading": 0,
        "engine_state ready": 1,
        "engine_state draining": 0,
        "engine_state down": 0,
    }
    own = ["sequences_running", "sequences_waiting", "engine_restarts_total", "log_lines_lost_total"]
    own += ["draft_tokens_total", "draft_tokens_accepted_total"]
    assert set(own) <= set(found)
    assert set(found.values()) == {0, 1}


async def test_answers_are_counted_by_endpoint_and_status(service_for: ServiceFor) -> None:
    """A name in a path does not become a label, and neither does a path that does not exist."""
    async with started(service_for()) as client:
        for body in (HELLO, HELLO, {**HELLO, "stream": True}, {**HELLO, "n": 0}):
            await client.post(CHAT, json=body)
        for path in ("/v1/models", "/v1/models/mock", "/v1/models/a/b", "/nope", "/nope/more", "/health", "/metrics"):
            await client.get(path)
        found = await values(client)

    assert {name: value for name, value in found.items() if name.startswith("requests_total")} == {
        "requests_total /v1/chat/completions 200": 3,
        "requests_total /v1/chat/completions 422": 1,
        "requests_total /v1/models 200": 1,
        "requests_total /v1/models/{model} 200": 1,
        "requests_total /v1/models/{model} 404": 1,
        "requests_total other 404": 2,
        "requests_total /health 200": 1,
        "requests_total /metrics 200": 1,
    }


async def test_tokens_are_those_of_the_answers_usage(service_for: ServiceFor) -> None:
    """Three choices of five tokens, after a prompt that is counted once."""
    async with started(service_for()) as client:
        body = {**HELLO, "n": 3, "best_of": 3, "temperature": 1}
        usage = (await client.post(CHAT, json=body)).json()["usage"]
        found = await values(client)

    assert (found["prompt_tokens_total"], found["generation_tokens_total"]) == (usage["prompt_tokens"], 15)
    assert (found["request_prompt_tokens_sum"], found["request_generation_tokens_sum"]) == (usage["prompt_tokens"], 15)
    assert found["time_to_first_token_seconds_count"] == found["e2e_request_latency_seconds_count"] == 1
    assert found["time_per_output_token_seconds_count"] == 12
    assert 0 < found["time_to_first_token_seconds_sum"] <= found["e2e_request_latency_seconds_sum"]


async def test_received_is_succeeded_and_failed_whatever_ends_a_request(service_for: ServiceFor) -> None:
    """Answers whole and streamed, 422, 413, 415, 424 and 429, an error in a stream, and clients that hang up."""
    service = service_for({"limits": Limits(max_batch_size=1, max_queue=0)}, max_iter_times=10**6, max_request_length=1)
    long = {**HELLO, "max_tokens": 10**6, "stream": True}
    async with started(service) as client:
        assert (await client.post(CHAT, json=HELLO)).status_code == 200
        assert (await client.post("/v1/completions", json={"model": "mock", "prompt": "a"})).status_code == 200
        assert (await client.post(CHAT, json={**HELLO, "stream": True})).text.endswith("[DONE]\n\n")
        refused = [
            await client.post(CHAT, json={**HELLO, "top_p": 7}),
            await client.post(CHAT, content=b"{", headers={"content-type": "application/json"}),
            await client.post(CHAT, content=b"x", headers={"content-type": "text/plain"}),
            await client.post(CHAT, content=b" " * 1_100_000, headers={"content-type": "application/json"}),
        ]
        assert [answer.status_code for answer in refused] == [422, 422, 415, 413]
        assert (await client.get(CHAT)).status_code == 405

        stream = asyncio.create_task(client.post(CHAT, json=long))
        async with asyncio.timeout(30):
            found = await values(client)
            while found["num_requests_running"] != 1:
                await asyncio.sleep(0)
                found = await values(client)
        busy = await client.post(CHAT, json=HELLO)
        assert busy.status_code == 429
        found = await values(client)
        assert (found["request_received_total"], found["request_success_total"]) == (9, 3)
        await service.front.drain(0)
        assert '"code":"stopping"' in (await stream).text
        assert (await client.post(CHAT, json=HELLO)).status_code == 503
        found = await values(client)

    counts = [found[f"request_{name}_total"] for name in ("received", "success", "failed")]
    assert counts == [10, 3, 7]
    assert found["failed_request_perc"] == 0.7
    assert found["requests_total /v1/chat/completions 200"] == 3
    assert found["e2e_request_latency_seconds_count"] == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_hung_up_is_a_failed_request(service_for: ServiceFor, stream: bool) -> None:
    """Whether it waited for a whole answer or read a stream: 499, and all of its tokens are counted."""
    service = service_for({"step_delay_s": 0.001}, max_iter_times=10**6)
    app = build(service)
    await service.front.start()
    body = httpx.Request("POST", "http://x", json={**HELLO, "max_tokens": 10**6, "stream": stream}).content
    events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    scope = {
        "type": "http",
        "method": "POST",
        "path": CHAT,
        "raw_path": CHAT.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "root_path": "",
        "app": app,
    }

    async def send(_: Any) -> None:
        return None

    await events.put({"type": "http.request", "body": body, "more_body": False})
    asked = asyncio.ensure_future(app(scope, events.get, send))
    async with asyncio.timeout(30):
        while service.front.counts.generated_tokens < 3:  # noqa: ASYNC110 - the front has no event for it
            await asyncio.sleep(0)
    await events.put({"type": "http.disconnect"})
    await asked
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://in-process") as client:
        found = await values(client)
    await service.front.stop()

    assert (found["request_received_total"], found["request_failed_total"]) == (1, 1)
    assert found["requests_total /v1/chat/completions 499"] == 1
    assert found["request_generation_tokens_sum"] == found["generation_tokens_total"] >= 3
    assert len(service.live) == 0


async def test_running_and_waiting_requests_are_told_apart(service_for: ServiceFor) -> None:
    """A batch of one: of three requests one runs."""
    service = service_for({"limits": Limits(max_batch_size=1), "step_delay_s": 0.01}, max_iter_times=10**6)
    body = {**HELLO, "max_tokens": 10**6}
    async with started(service) as client:
        asked = [asyncio.create_task(client.post("/v1/chat/completions", json=body)) for _ in range(3)]
        async with asyncio.timeout(30):
            found = await values(client)
            while found["num_requests_waiting"] != 2 or found["sequences_running"] != 1:
                await asyncio.sleep(0)
                found = await values(client)
        assert found["num_requests_running"] == 1
        await service.front.drain(0)
        await asyncio.gather(*asked)
        found = await values(client)

    assert found["num_requests_running"] == found["num_requests_waiting"] == found["sequences_running"] == 0
    assert found["engine_state draining"] == 1
    assert found["requests_total /v1/chat/completions 503"] == 3


async def test_an_engine_with_pages_shows_them(service_for: ServiceFor) -> None:
    """Cached pages are not in use; what an earlier engine did is not forgotten."""
    service = service_for()
    async with started(service) as client:
        memory = MemoryStats(100, 20, 30, 6, 5, 400, 300)
        service.front.engine_stats = EngineStats(5, 1, True, ExecutorStats(3, 2, 1, 9, 8, 7, memory))
        service.front.counts.preemptions = 4
        found = await values(client)

    assert [found[name] for name in ("pages_in_use", "pages_cached", "pages_total")] == [20, 30, 100]
    assert [found[name] for name in ("sequences_running", "sequences_waiting", "num_preemptions_total")] == [3, 2, 13]
    assert [found[name] for name in ("draft_tokens_total", "draft_tokens_accepted_total")] == [8, 7]
    names = ("npu_cache_usage_perc", "npu_prefix_cache_hit_rate", "all_radix_match_num", "npu_radix_match_hit_num")
    assert [found[name] for name in names] == [0.2, 0.75, 400, 300]


async def test_an_engine_that_takes_media_shows_what_its_encoder_did(service_for: ServiceFor) -> None:
    """Of seven items four were encoded and two kept from before, in 1.5 s."""
    service = service_for()
    async with started(service) as client:
        media = MediaStats(7, 2, 4, 1_500_000, 4096)
        service.front.engine_stats = EngineStats(5, 1, True, ExecutorStats(3, media=media))
        found = await values(client)

    names = ("media_encoded_total", "media_reused_total", "encoder_seconds_total", "media_embedding_bytes")
    assert [found[name] for name in names] == [4, 2, 1.5, 4096]


async def test_another_method_is_refused(service_for: ServiceFor) -> None:
    """405 in the contract's form, and Allow."""
    async with started(service_for()) as client:
        answer = await client.post("/metrics", json={})

    assert (answer.status_code, answer.json()["code"], answer.headers["allow"]) == (405, "method_not_allowed", "GET")


@pytest.mark.parametrize(("settings", "status"), [({}, 200), ({"host": "0.0.0.0"}, 200), ({"metrics": False}, 404)])
async def test_metrics_are_served_unless_they_are_switched_off(
    service_for: ServiceFor, settings: dict[str, Any], status: int
) -> None:
    """On by default, on any address."""
    async with started(service_for(**settings)) as client:
        assert (await client.get("/metrics")).status_code == status


async def test_a_connection_refused_before_its_request_is_counted(service_for: ServiceFor) -> None:
    """By its status, under no endpoint."""
    service = service_for()
    async with started(service) as client:
        service.traffic.refused(503)
        assert (await values(client))["requests_total other 503"] == 1
