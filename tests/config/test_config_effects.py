"""Every honoured key of config.json changes what a request or a probe is answered: one row each."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from config_probes import (
    Probe,
    averaged,
    beside,
    cached,
    called,
    completes,
    deep_body,
    error_form,
    greedy,
    half_used,
    instances,
    kept,
    large_body,
    last_event,
    late,
    listens,
    loading,
    log_stream,
    logged,
    media,
    metrics,
    mocked,
    models,
    pages,
    prompt_tokens,
    said_at_the_end,
    silent,
    slow,
    steps,
    stopped,
    thought,
    together,
    tokens,
    two_choices_with_tools,
)
from config_samples import DEPLOY, GONE, MOCK, MODEL, SCHEDULE, changed, written
from config_server import TEMPLATE, make, save_weights, served
from link_probes import GET, four_at_once, headers, patience, second_connection, sizes, unfinished

from engine.text.byte_tokenizer import mock_tokenizer
from tests.engine.peft_adapters import save
from tests.engine.tiny_models import build

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
LORAS = {f"{DEPLOY}.maxLoras": 2, f"{DEPLOY}.maxLoraRank": 8, f"{DEPLOY}.loraDirectory": "adapters"}
PORT = {"ServerConfig.port": 21025}
MEDIA_NUMBERS: dict[str, tuple[str, float, int, float]] = {
    "maxMediaItems": ("max_items", 20, 7, 7),
    "maxImages": ("max_images", 20, 0, 0),
    "maxVideos": ("max_videos", 20, 0, 0),
    "maxAudios": ("max_audios", 20, 0, 0),
    "maxMediaSize": ("max_total_bytes", 1000 * 2**20, 7, 7 * 2**20),
    "maxImageSize": ("max_image_bytes", 40 * 2**20, 7, 7 * 2**20),
    "maxVideoSize": ("max_video_bytes", 512 * 2**20, 7, 7 * 2**20),
    "maxAudioSize": ("max_audio_bytes", 40 * 2**20, 7, 7 * 2**20),
    "maxInputAudioSize": ("max_input_audio_bytes", 20 * 2**20, 7, 7 * 2**20),
    "maxMediaPixels": ("max_pixels", 2**26, 7, 7),
    "maxVideoTime": ("max_video_s", 3600, 7, 7),
    "maxAudioTime": ("max_audio_s", 1800, 7, 7),
    "mediaConnectTimeout": ("connect_s", 5, 7, 7),
    "mediaReadTimeout": ("read_s", 10, 7, 7),
    "mediaFetchTimeout": ("fetch_s", 60, 7, 7),
    "mediaQueueTimeout": ("fetch_wait_s", 60, 7, 7),
    "maxMediaRedirects": ("max_redirects", 3, 7, 7),
    "maxMediaFetches": ("max_fetches", 16, 7, 7),
    "mediaDecodeTimeout": ("decode_s", 60, 7, 7),
    "mediaDecodeMemory": ("decode_memory_bytes", 4 * 2**30, 700, 700 * 2**20),
    "mediaDecodeWorkers": ("decode_workers", 1, 7, 7),
}
"""Keys of numbers: the limit, its default, another value of the key, and what the limit is then."""


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


MEDIA_ROWS = [
    *(Row(key, {f"ServerConfig.{key}": value}, media(name), before, after)
      for key, (name, before, value, after) in MEDIA_NUMBERS.items()),
    Row("mediaDomains", {"ServerConfig.mediaDomains": ["Media.Test", "[FD12::1]:81"]}, media("domains"), (),
        ("media.test", "[fd12::1]:81")),
    Row("mediaDomains", {}, media("domains"), ("media.test",), ("a.test", "b.test:81"), environment={
        "ALLOWED_MEDIA_DOMAINS_ENV": " A.test,b.test:81,"}, also={"ServerConfig.mediaDomains": ["media.test"]}),
    Row("mediaDomains", {}, media("domains"), ("media.test",), (), environment={"ALLOWED_MEDIA_DOMAINS_ENV": ""},
        also={"ServerConfig.mediaDomains": ["media.test"]}),
    Row("mediaPrivateNetworks", {"ServerConfig.mediaPrivateNetworks": ["10.0.0.0/8"]}, media("private_networks"), (),
        (ip_network("10.0.0.0/8"),)),
    Row("mediaFolder", {"ServerConfig.mediaFolder": "/inputs"}, media("folder"), Path("/data/multimodal_inputs"),
        Path("/inputs")),
    Row("mediaFolder", {"ServerConfig.mediaFolder": ""}, media("folder"), Path("/data/multimodal_inputs"), None),
    Row("mediaSpoolFolder", {"ServerConfig.mediaSpoolFolder": "/spool"}, media("spool_folder"), None, Path("/spool")),
    Row("mediaSpoolFolder", {}, media("spool_folder"), Path("/spool"), Path("/cache"), environment={
        "LOCAL_CACHE_DIR": "/cache"}, also={"ServerConfig.mediaSpoolFolder": "/spool"}),
]  # fmt: skip
ROWS = [
    Row("ipAddress", {"ServerConfig.ipAddress": "127.0.0.5"}, listens("business"), "127.0.0.1:21025",
        "127.0.0.5:21025", also=PORT),
    Row("port", {"ServerConfig.port": 21026}, listens("business"), "127.0.0.1:21025", "127.0.0.1:21026", also=PORT),
    Row("MIES_CONTAINER_IP", {}, listens("business"), "127.0.0.6:21025", "127.0.0.5:21025", environment={
        "MIES_CONTAINER_IP": "127.0.0.5"}, also={**PORT, "ServerConfig.ipAddress": "127.0.0.6"}),
    Row("managementIpAddress", {"ServerConfig.managementIpAddress": "127.0.0.5"}, listens("management"),
        "127.0.0.1:21025", "127.0.0.5:21025", also=PORT),
    Row("MIES_CONTAINER_MANAGEMENT_IP", {}, listens("metrics"), "127.0.0.6:21025", "127.0.0.5:21025", environment={
        "MIES_CONTAINER_MANAGEMENT_IP": "127.0.0.5"}, also={**PORT, "ServerConfig.managementIpAddress": "127.0.0.6"}),
    Row("managementPort", {"ServerConfig.managementPort": 21026}, listens("management"), "127.0.0.1:21025",
        "127.0.0.1:21026", also=PORT),
    Row("metricsPort", {"ServerConfig.metricsPort": 21027}, listens("metrics"), "127.0.0.1:21026", "127.0.0.1:21027",
        also={**PORT, "ServerConfig.managementPort": 21026}),
    Row("npuUsageThreshold", {"ServerConfig.HealthCheckConfig.npuUsageThreshold": 60}, half_used, 503, 500,
        also={"ServerConfig.HealthCheckConfig.npuUsageThreshold": 40}),
    Row("modelInstanceNumber", {"BackendConfig.modelInstanceNumber": 2}, instances, 1, 2, TINY),
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
    Row("EnableDynamicAdjustTimeoutConfig", {"EnableDynamicAdjustTimeoutConfig": True}, slow, 500, 200,
        also={"ServerConfig.tokenTimeout": 1, "ServerConfig.e2eTimeout": 1}),
    Row("drainTimeout", {"ServerConfig.drainTimeout": 0}, stopped, 200, 503),
    Row("engineStallSeconds", {"BackendConfig.engineStallSeconds": 7}, silent, 60, 7, TINY),
    Row("maxRequestLength", {"ServerConfig.maxRequestLength": 1}, large_body, 424, 413),
    Row("maxJsonDepth", {"ServerConfig.maxJsonDepth": 10}, deep_body, 200, 422),
    Row("maxLinkNum", {"ServerConfig.maxLinkNum": 1}, four_at_once, [200] * 4, [200, 200, 200, 429]),
    Row("maxQueue", {f"{SCHEDULE}.maxQueue": 0}, four_at_once, [200] * 4, [200, 429, 429, 429],
        also={f"{SCHEDULE}.maxBatchSize": 1}),
    Row("maxConnections", {"ServerConfig.maxConnections": 1}, second_connection, b"HTTP/1.1 200 OK",
        b"HTTP/1.1 503 Service Unavailable"),
    Row("headerTimeout", {"ServerConfig.headerTimeout": 1}, unfinished(GET[:-2]), "408 2 s", "408 1 s",
        also={"ServerConfig.headerTimeout": 2}),
    Row("bodyTimeout", {"ServerConfig.bodyTimeout": 1},
        unfinished(b"POST /v1/completions HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n{"), "408 2 s", "408 1 s",
        also={"ServerConfig.bodyTimeout": 2}),
    Row("writeTimeout", {"ServerConfig.writeTimeout": 7}, patience, [30, 75, 5], [7, 75, 5]),
    Row("keepAliveTimeout", {"ServerConfig.keepAliveTimeout": 7}, patience, [30, 75, 5], [30, 7, 5]),
    Row("lingerTime", {"ServerConfig.lingerTime": 7}, patience, [30, 75, 5], [30, 75, 7]),
    Row("maxOtherConnections", {"ServerConfig.maxOtherConnections": 7}, sizes, [256, 262144], [7, 262144]),
    Row("sendBufferBytes", {"ServerConfig.sendBufferBytes": 4096}, sizes, [256, 262144], [256, 4096]),
    Row("maxHeaderBytes", {"ServerConfig.maxHeaderBytes": 1024}, headers(1, 2000), 200, 431),
    Row("maxHeaders", {"ServerConfig.maxHeaders": 16}, headers(20, 1), 200, 431),
    *MEDIA_ROWS,
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
    Row("maxLoras", {f"{DEPLOY}.maxLoras": 1}, loading, [200, 200], [200, 422], TINY, also=LORAS),
    Row("maxLoraRank", {f"{DEPLOY}.maxLoraRank": 2}, loading, [200, 200], [422, 422], TINY, also=LORAS),
    Row("loraDirectory", {f"{DEPLOY}.loraDirectory": GONE}, loading, [200, 200], [404, 404], TINY, also=LORAS),
    Row("LoraModules", {f"{DEPLOY}.LoraModules": [{"name": "french", "path": "adapters/french",
        "baseModelName": "tiny"}]}, models, ["tiny"], ["tiny", "french"], TINY),
    Row("modelInstanceType", {f"{MODEL}.modelInstanceType": "StandardMock"},
        mocked, False, True, TINY),
    Row("modelName", {f"{MODEL}.modelName": "other"}, models, ["mock"], ["other"]),
    Row("npuMemSize", {f"{MODEL}.npuMemSize": 2}, pages, 256, 512, TINY),
    Row("NPU_MEMORY_FRACTION", {}, pages, 448, 512, TINY, also={f"{MODEL}.npuMemSize": -1},
        environment={"NPU_MEMORY_FRACTION": "0.5"}),
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
    Row("maxQueue", {f"{SCHEDULE}.maxQueue": 1}, together, [200, 200, 200], [200, 200, 429],
        also={f"{SCHEDULE}.maxBatchSize": 1, f"{SCHEDULE}.maxN": 1}),
    Row("maxIterTimes", {f"{SCHEDULE}.maxIterTimes": 7}, tokens, 100, 7),
    Row("maxN", {f"{SCHEDULE}.maxN": 2}, completes(n=3, temperature=1), 200, 422),
    Row("prefillChunkSize", {f"{SCHEDULE}.prefillChunkSize": 10}, steps(40, 3), [1, 1], [4, 1], TINY),
    Row("maxNumPartialPrefills", {f"{SCHEDULE}.maxNumPartialPrefills": 1}, steps(30, 30, 3), [3, 3, 4], [3, 5, 1], TINY,
        also={f"{SCHEDULE}.prefillChunkSize": 10, f"{SCHEDULE}.maxPrefillTokens": 20}),
    Row("maxLongPartialPrefills", {f"{SCHEDULE}.maxLongPartialPrefills": 1}, steps(30, 30, 3), [3, 4, 1], [3, 5, 1],
        TINY, also={f"{SCHEDULE}.prefillChunkSize": 10, f"{SCHEDULE}.maxPrefillTokens": 20,
                    f"{SCHEDULE}.longPrefillTokenThreshold": 20}),
    Row("longPrefillTokenThreshold", {f"{SCHEDULE}.longPrefillTokenThreshold": 19}, steps(20, 20, 3), [2, 2, 3],
        [2, 3, 1], TINY, also={f"{SCHEDULE}.prefillChunkSize": 10, f"{SCHEDULE}.maxPrefillTokens": 20,
                               f"{SCHEDULE}.maxLongPartialPrefills": 1, f"{SCHEDULE}.longPrefillTokenThreshold": 20}),
    Row("LogConfig", {"LogConfig.dynamicLogLevel": "error"}, logged, "INFO", "ERROR"),
    Row("dynamicLogLevelValidHours", {"LogConfig.dynamicLogLevelValidHours": 1}, logged, "ERROR", "INFO",
        also={"LogConfig.dynamicLogLevel": "error", "LogConfig.dynamicLogLevelValidHours": 168,
              "LogConfig.dynamicLogLevelValidTime": "{two hours ago}"}),
    Row("MINDIE_LOG_LEVEL", {}, logged, "INFO", "DEBUG", environment={"MINDIE_LOG_LEVEL": "DEBUG"}),
    Row("DYNAMIC_AVERAGE_WINDOW_SIZE", {}, averaged, 3, 2, environment={"DYNAMIC_AVERAGE_WINDOW_SIZE": "2"}),
    Row("MIES_SERVICE_MONITOR_MODE", {}, metrics, 200, 404, environment={"MIES_SERVICE_MONITOR_MODE": "0"}),
    Row("MINDIE_LOG_TO_STDOUT", {}, log_stream, ["stderr"], ["stdout"], environment={"MINDIE_LOG_TO_STDOUT": "true"}),
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
def four_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What every machine has free."""
    monkeypatch.setattr("engine.machine_memory.available_bytes", lambda: 4 * 2**30)


def file_of(folder: Path, config: dict[str, Any], name: str = "config.json") -> Path:
    """A file in the folder of the deployment."""
    past = (datetime.now() - timedelta(hours=2)).strftime("%Y-%m-%d %H:%M:%S")
    return written(folder, json.dumps(config).replace("{two hours ago}", past), name)


def test_an_address_of_all_zeros_needs_the_file_s_word(folder: Path) -> None:
    """allowAllZeroIpListening; the fault without it stands in test_config_faults.py."""
    zeros = {"ServerConfig.ipAddress": "0.0.0.0", "ServerConfig.allowAllZeroIpListening": True}
    assert make(file_of(folder, changed(MOCK, zeros))).settings.planes.allow_all_zero


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.usefixtures("four_gigabytes")
async def test_a_key_changes_what_is_answered(row: Row, folder: Path) -> None:
    """The probe of the row, before and after its change."""
    before = changed(row.base, row.also)
    found = []
    for config, environment in ((before, {}), (changed(before, row.changes), row.environment)):
        logging.getLogger().setLevel(logging.WARNING)
        async with served(file_of(folder, config), environment=environment) as server:
            found.append(await row.probe(server))
    assert found == [row.before, row.after]
