"""Every honoured key of config.json changes what a request or a probe is answered: one row each."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from config_samples import DEPLOY, GONE, MOCK, MODEL, SCHEDULE, changed, written
from config_server import TEMPLATE, Server, save_weights, served

from engine.text.byte_tokenizer import mock_tokenizer
from handlers.server import bind
from tests.engine.peft_adapters import save
from tests.engine.tiny_models import build

Probe = Callable[[Server], Awaitable[Any]]
TINY: dict[str, Any] = changed(
    MOCK,
    {
        MODEL: {"modelName": "tiny", "modelWeightPath": "weights", "npuMemSize": 1},
        f"{SCHEDULE}.cacheBlockSize": 16,
    },
)
"""A model of 256 positions; see config_server.py."""
THINKS = {f"{MODEL}.models.llama.enable_reasoning": True}
CACHED = {f"{MODEL}.plugin_params": '{"plugin_type": "prefix_cache"}'}
IDS = [65 + index % 20 for index in range(40)]
LORAS = {f"{DEPLOY}.maxLoras": 2, f"{DEPLOY}.maxLoraRank": 8, f"{DEPLOY}.loraDirectory": "adapters"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@dataclass(frozen=True)
class Row:
    """A change, and what the probe says before and after it."""

    key: str
    changes: dict[str, Any]
    probe: Probe
    before: Any
    after: Any
    base: dict[str, Any] = field(default_factory=lambda: MOCK)
    also: dict[str, Any] = field(default_factory=dict)
    """Changes that hold before, too."""
    before_environment: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    """Of the change."""

    def __str__(self) -> str:
        return f"{self.key}={next(iter((self.changes or self.environment).values()))}"[:80]


async def status(server: Server, **fields: Any) -> int:
    """Of a completion."""
    return (await server.completion(**fields)).status_code


def completes(**fields: Any) -> Probe:
    """The status of a completion with these fields."""
    return lambda server: status(server, **fields)


async def address(server: Server) -> str:
    """Where the business plane listens."""
    settings = server.service.settings
    with bind(settings.host, settings.port) as listener:
        host, port = listener.getsockname()
    return f"{host}:{port}"


async def error_form(server: Server) -> list[str]:
    """The keys of a refusal."""
    return sorted((await server.completion(top_p=7)).json())


async def last_event(server: Server) -> list[str]:
    """The keys of a chat stream's last event."""
    events = (await server.chat(stream=True)).text.split("\n\n")
    return sorted(json.loads(events[-3].removeprefix("data: ")))


async def late(server: Server) -> str:
    """What a request is told that an engine never answers."""
    server.front.step_delay_s = 3600.0
    answer = await server.complete()
    return str(answer["error"]).partition(",")[0] + answer["error"].partition("(")[2]


async def timeouts(server: Server) -> list[float]:
    """How long an answer may take: a token, and all of it."""
    return [server.service.timeouts.token_s, server.service.timeouts.whole_s]


async def large_body(server: Server) -> int:
    """The status of a body of 1.5 MB, whose prompt is too long for the model."""
    return await status(server, prompt="ab " * 2**19)


async def deep_body(server: Server) -> int:
    """The status of a body with 15 lists inside each other."""
    value: Any = 1
    for _ in range(15):
        value = [value]
    return await status(server, metadata=value)


async def tokens(server: Server) -> int:
    """How many tokens an answer has that may have 100."""
    return int((await server.complete([65] * 10, max_tokens=100))["usage"]["completion_tokens"])


def kept(ask: str) -> Probe:
    """Which part of a prompt of 8 tokens a deployment of 4 answers, on one of the endpoints."""

    async def probe(server: Server) -> str:
        fields = {"max_tokens": 8}
        if ask == "prompt":
            whole = await server.completion([97, 98, 99, 100, 101, 102, 103, 104], **fields)
            text = "" if whole.status_code != 200 else whole.json()["choices"][0]["text"]
            parts = {
                "beginning": (await server.complete([97, 98, 99, 100], **fields))["choices"][0]["text"],
                "end": (await server.complete([101, 102, 103, 104], **fields))["choices"][0]["text"],
            }
        else:
            whole = await server.chat("abcdefgh", chat_template="{{ messages[0].content }}", **fields)
            text = "" if whole.status_code != 200 else whole.json()["choices"][0]["message"]["content"]
            parts = {}
            for name, part in (("beginning", "abcd"), ("end", "efgh")):
                answer = await server.chat(part, chat_template="{{ messages[0].content }}", **fields)
                parts[name] = answer.json()["choices"][0]["message"]["content"]
        return f"{whole.status_code} {next((name for name, value in parts.items() if value == text), 'neither')}"

    return probe


async def models(server: Server) -> list[str]:
    """GET /v1/models."""
    return [entry["id"] for entry in (await server.client.get("/v1/models")).json()["data"]]


async def text(server: Server) -> str:
    """Of a greedy answer."""
    return str((await server.complete([65, 66, 67], max_tokens=12))["choices"][0]["text"])


async def differs(server: Server) -> bool:
    """Whether the adapter ``french`` answers otherwise than the model."""
    plain = await text(server)
    answer = await server.complete([65, 66, 67], max_tokens=12, model="french")
    return bool(answer["choices"][0]["text"] != plain)


async def loading(server: Server) -> list[int]:
    """The statuses of loading two adapters of rank 4 while the server runs."""
    bodies = [{"lora_name": name, "lora_path": "french"} for name in ("one", "two")]
    return [(await server.client.post("/v1/load_lora_adapter", json=body)).status_code for body in bodies]


async def pages(server: Server) -> int:
    """Pages for keys and values, in thousands (1024)."""
    return round(server.front._scheduler.stats.executor.memory.pages_total / 1024)


async def thought(server: Server) -> bool:
    """Whether an answer that is thought comes apart."""
    message = (await server.chat()).json()["choices"][0]["message"]
    return bool(message.get("reasoning_content")) and not message["content"]


async def said_at_the_end(server: Server) -> bool:
    """Whether a thought of two tokens ends with the deployment's words."""
    kwargs = {"thinking_budget": 2}
    answer = await server.chat(max_tokens=20, ignore_eos=True, chat_template_kwargs=kwargs)
    return bool(answer.json()["choices"][0]["message"]["reasoning_content"].endswith("Enough."))


async def mocked(server: Server) -> bool:
    """Whether the answers are made up."""
    return (await text(server)) != "" and server.front.forces_tool_calls


async def two_choices_with_tools(server: Server) -> int:
    """The status."""
    return (await server.chat(tools=[TOOL], n=2, temperature=1)).status_code


async def prompt_tokens(server: Server) -> int:
    """Of a conversation."""
    return int((await server.chat()).json()["usage"]["prompt_tokens"])


async def called(server: Server) -> list[str]:
    """The calls that are read in what the model writes."""
    server.front.executor._replies = lambda _: '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    message = (await server.chat(tools=[TOOL], max_tokens=200)).json()["choices"][0]["message"]
    return [call["function"]["name"] for call in message["tool_calls"]]


async def cached(server: Server) -> int:
    """Tokens of a prompt of 40 that come from the cache the second time."""
    answers = [await server.complete(IDS) for _ in range(2)]
    return int(answers[1]["usage"]["prompt_tokens_details"]["cached_tokens"])


async def beside(server: Server) -> int:
    """How many sequences ran in the step of a prompt that came while another answer was written."""
    events = server.client.stream(
        "POST",
        "/v1/completions",
        json={"model": server.model, "prompt": [65], "max_tokens": 200, "ignore_eos": True, "stream": True},
    )
    running = asyncio.create_task(_read(events))
    while not server.front._scheduler.stats.executor.running:  # noqa: ASYNC110 - the engine is on this loop
        await asyncio.sleep(0)
    answer = await server.complete([66, 67], max_tokens=2)
    await running
    return int(answer["usage"]["batch_size"][0])


async def _read(events: Any) -> None:
    async with events as answer:
        await answer.aread()


def steps(*lengths: int) -> Probe:
    """In which step each of several prompts that come together has its first token."""
    prompts = [[65 + place, *IDS[: length - 1]] for place, length in enumerate(lengths)]
    return lambda server: server.first_tokens(prompts)


async def greedy(server: Server) -> bool:
    """Whether an answer without sampling fields is greedy."""
    plain = (await server.complete([65, 66], max_tokens=12, temperature=None, seed=5))["choices"][0]["text"]
    return bool(plain == (await server.complete([65, 66], max_tokens=12))["choices"][0]["text"])


async def metrics(server: Server) -> int:
    """The status of GET /metrics."""
    return (await server.client.get("/metrics")).status_code


async def logged(_: Server) -> str:
    """The level from which on lines are logged."""
    await asyncio.sleep(0)  # what runs beside the requests begins
    return logging.getLevelName(logging.getLogger().level)


ROWS = [
    Row("ipAddress", {"ServerConfig.ipAddress": "127.0.0.5"}, address, "127.0.0.1:21025", "127.0.0.5:21025",
        also={"ServerConfig.port": 21025}),
    Row("port", {"ServerConfig.port": 21026}, address, "127.0.0.1:21025", "127.0.0.1:21026",
        also={"ServerConfig.port": 21025}),
    Row("MIES_CONTAINER_IP", {}, address, "127.0.0.6:21025", "127.0.0.5:21025", environment={
        "MIES_CONTAINER_IP": "127.0.0.5"}, also={"ServerConfig.port": 21025, "ServerConfig.ipAddress": "127.0.0.6"}),
    Row("fullTextEnabled", {"ServerConfig.fullTextEnabled": True}, last_event,
        ["choices", "created", "id", "model", "object", "usage"],
        ["choices", "created", "full_text", "id", "model", "object", "usage"]),
    Row("openAiSupport", {"ServerConfig.openAiSupport": "openai"}, error_form,
        ["code", "error", "error_type", "param"], ["error"]),
    Row("tokenTimeout", {"ServerConfig.tokenTimeout": 1}, late,
        "The answer was not complete within 2 sits setting e2eTimeout)", "No token came within 1 sits setting "
        "tokenTimeout)", also={"ServerConfig.e2eTimeout": 2}),
    Row("e2eTimeout", {"ServerConfig.e2eTimeout": 1}, late, "No token came within 2 sits setting tokenTimeout)",
        "The answer was not complete within 1 sits setting e2eTimeout)", also={"ServerConfig.tokenTimeout": 2}),
    Row("EnableDynamicAdjustTimeoutConfig", {"EnableDynamicAdjustTimeoutConfig": True}, timeouts, [7, 8],
        [3600, 65535], also={"ServerConfig.tokenTimeout": 7, "ServerConfig.e2eTimeout": 8}),
    Row("maxRequestLength", {"ServerConfig.maxRequestLength": 1}, large_body, 424, 413),
    Row("maxJsonDepth", {"ServerConfig.maxJsonDepth": 10}, deep_body, 200, 422),
    Row("strictUnknown", {"ServerConfig.strictUnknown": True}, completes(unknown=1), 200, 422),
    Row("relaxedRules", {"ServerConfig.relaxedRules": ["tools-exclude-n"]},
        two_choices_with_tools, 422, 200),
    Row("compatRefusals", {"ServerConfig.compatRefusals": True}, completes(logprobs=1), 200, 422, also=CACHED),
    Row("maxSeqLen", {f"{DEPLOY}.maxSeqLen": 20}, tokens, 100, 10),
    Row("maxSeqLen from the weights", {f"{DEPLOY}.maxSeqLen": 20}, completes(prompt=[65] * 20), 200, 424, TINY),
    Row("maxInputTokenLen", {f"{DEPLOY}.maxInputTokenLen": 5}, completes(prompt=[65] * 6), 200, 424),
    *(Row("truncation", {f"{DEPLOY}.truncation": value}, kept(ask), "424 neither", f"200 {part}",
          also={f"{DEPLOY}.maxInputTokenLen": 4})
      for ask in ("prompt", "messages") for value, part in ((-1, "beginning"), (True, "beginning"), (1, "end"))),
    Row("truncation", {f"{DEPLOY}.truncation": False}, kept("prompt"), "200 end", "424 neither",
        also={f"{DEPLOY}.maxInputTokenLen": 4, f"{DEPLOY}.truncation": 1}),
    Row("maxLoras", {f"{DEPLOY}.maxLoras": 1}, loading, [200, 200], [200, 503], TINY, also=LORAS),
    Row("maxLoraRank", {f"{DEPLOY}.maxLoraRank": 2}, loading, [200, 200], [503, 503], TINY, also=LORAS),
    Row("loraDirectory", {f"{DEPLOY}.loraDirectory": GONE}, loading, [200, 200], [404, 404], TINY, also=LORAS),
    Row("LoraModules", {f"{DEPLOY}.LoraModules": [{"name": "french", "path": "adapters/french",
        "baseModelName": "tiny"}]}, models, ["tiny"], ["tiny", "french"], TINY),
    Row("modelInstanceType", {f"{MODEL}.modelInstanceType": "StandardMock"},
        mocked, False, True, TINY),
    Row("modelName", {f"{MODEL}.modelName": "other"}, models, ["mock"], ["other"]),
    Row("npuMemSize", {f"{MODEL}.npuMemSize": 2}, pages, 256, 512, TINY),
    Row("enable_reasoning", THINKS, thought, False, True, TINY),
    Row("chat_template", {f"{MODEL}.models.llama.chat_template": "templates/short.jinja"}, prompt_tokens, 26, 1, TINY),
    Row("early_stopping_text", {f"{MODEL}.models.llama.early_stopping_text": "Enough."},
        said_at_the_end, False, True, TINY, also=THINKS),
    Row("tool_call_parser", {f"{MODEL}.models.any.tool_call_options.tool_call_parser": "llama3"}, called, ["f"], [],
        also={f"{MODEL}.models.any.tool_call_options.tool_call_parser": "qwen3"}),
    Row("plugin_params", CACHED, cached, 0, 32, TINY),
    Row("cacheBlockSize", {f"{SCHEDULE}.cacheBlockSize": 32}, pages, 256, 128, TINY),
    Row("templateType", {f"{SCHEDULE}.templateType": "Standard"}, beside, 2, 1, TINY),
    Row("maxPrefillBatchSize", {f"{SCHEDULE}.maxPrefillBatchSize": 1}, steps(10, 10), [1, 1], [1, 2], TINY),
    Row("maxPrefillBatchSize", {f"{SCHEDULE}.maxPrefillBatchSize": 0}, steps(10, 10), [1, 2], [1, 1], TINY,
        also={f"{SCHEDULE}.maxPrefillBatchSize": 1}),
    Row("maxPrefillTokens", {f"{SCHEDULE}.maxPrefillTokens": 10}, steps(20, 10), [1, 1], [2, 3], TINY),
    Row("maxBatchSize", {f"{SCHEDULE}.maxBatchSize": 1}, steps(10, 10), [1, 1], [1, 5], TINY),
    Row("maxIterTimes", {f"{SCHEDULE}.maxIterTimes": 7}, tokens, 100, 7),
    Row("maxN", {f"{SCHEDULE}.maxN": 2}, completes(n=3, temperature=1), 200, 422),
    Row("prefillChunkSize", {f"{SCHEDULE}.prefillChunkSize": 10}, steps(40, 3), [1, 1], [4, 1], TINY),
    Row("maxNumPartialPrefills", {f"{SCHEDULE}.maxNumPartialPrefills": 1}, steps(30, 30, 3), [3, 3, 4], [3, 5, 1], TINY,
        also={f"{SCHEDULE}.prefillChunkSize": 10, f"{SCHEDULE}.maxPrefillTokens": 20}),
    Row("maxLongPartialPrefills", {f"{SCHEDULE}.maxLongPartialPrefills": 1}, steps(30, 30, 3), [3, 3, 4], [3, 5, 1],
        TINY, also={f"{SCHEDULE}.prefillChunkSize": 10, f"{SCHEDULE}.maxPrefillTokens": 20,
                    f"{SCHEDULE}.longPrefillTokenThreshold": 20}),
    Row("longPrefillTokenThreshold", {f"{SCHEDULE}.longPrefillTokenThreshold": 19}, steps(20, 20, 3), [2, 2, 3],
        [2, 3, 1], TINY, also={f"{SCHEDULE}.prefillChunkSize": 10, f"{SCHEDULE}.maxPrefillTokens": 20,
                               f"{SCHEDULE}.maxLongPartialPrefills": 1, f"{SCHEDULE}.longPrefillTokenThreshold": 20}),
    Row("LogConfig", {"LogConfig.dynamicLogLevel": "error"}, logged, "WARNING", "ERROR"),
    Row("dynamicLogLevelValidHours", {"LogConfig.dynamicLogLevelValidHours": 1}, logged, "ERROR", "WARNING",
        also={"LogConfig.dynamicLogLevel": "error", "LogConfig.dynamicLogLevelValidHours": 168,
              "LogConfig.dynamicLogLevelValidTime": "{two hours ago}"}),
    Row("MINDIE_LOG_LEVEL", {}, logged, "WARNING", "DEBUG", environment={"MINDIE_LOG_LEVEL": "DEBUG"}),
    Row("MIES_SERVICE_MONITOR_MODE", {}, metrics, 200, 404, environment={"MIES_SERVICE_MONITOR_MODE": "0"}),
    Row("REMOVE_GENERATION_CONFIG_DICT", {}, greedy, True, False, TINY, environment={
        "REMOVE_GENERATION_CONFIG_DICT": "1"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights, others, an adapter of rank 4 and a template, for the paths of the rows."""
    made = tmp_path_factory.mktemp("deployment")
    save_weights(made / "weights")
    save_weights(made / "others", seed=2)
    save(
        build("llama", 1, mock_tokenizer(TEMPLATE, ("<think>", "</think>")).vocab_size), made / "adapters" / "french", 3
    )
    (made / "templates").mkdir()
    (made / "templates" / "short.jinja").write_text("x")
    return made


@pytest.fixture
def quiet() -> Iterator[None]:
    """The log level that a row sets is taken back."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)


def file_of(folder: Path, config: dict[str, Any], name: str = "config.json") -> Path:
    """A file in the folder of the deployment."""
    past = (datetime.now() - timedelta(hours=2)).strftime("%Y-%m-%d %H:%M:%S")
    return written(folder, json.dumps(config).replace("{two hours ago}", past), name)


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.usefixtures("quiet")
async def test_a_key_changes_what_is_answered(row: Row, folder: Path) -> None:
    """The probe of the row, before and after its change."""
    before = changed(row.base, row.also)
    found = []
    for config, environment in ((before, {}), (changed(before, row.changes), row.environment)):
        logging.getLogger().setLevel(logging.WARNING)
        async with served(file_of(folder, config), environment=environment) as server:
            found.append(await row.probe(server))
    assert found == [row.before, row.after]
