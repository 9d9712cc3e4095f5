"""What the endpoints tell of a configuration follows its keys: one row for each number."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from config_samples import DEPLOY, MOCK, MODEL, SCHEDULE, changed, written
from config_server import Server, save_weights, served

Probe = Callable[[Server], Awaitable[Any]]
TINY: dict[str, Any] = changed(
    MOCK,
    {
        MODEL: {"modelName": "tiny", "modelWeightPath": "weights", "npuMemSize": 1},
        f"{SCHEDULE}.cacheBlockSize": 16,
    },
)
"""A model of 256 positions, whose keys and values take 4 KB a token in float32."""


def shown(path: str, *keys: str | int) -> Probe:
    """A member of an endpoint's answer."""

    async def probe(server: Server) -> Any:
        answer = await server.client.get(path.replace("{model}", server.model))
        assert answer.status_code == 200, answer.text
        value = answer.json()
        for key in keys:
            value = value[key]
        return value

    return probe


@dataclass(frozen=True)
class Row:
    """A change, and what an endpoint says before and after it."""

    key: str
    value: Any
    probe: Probe
    before: Any
    after: Any
    base: dict[str, Any] = field(default_factory=lambda: MOCK)

    def __str__(self) -> str:
        return f"{self.key.rpartition('.')[2]}={self.value}"


CONFIG, STATUS, SLOTS = "/v1/config", "/v1/status", "/v2/models/{model}/getSlotCount"
OF_MODEL = "/v2/models/{model}/config"
EXTENSIONS = ("/v2", "extensions")
ROWS = [
    Row(f"{DEPLOY}.maxSeqLen", 100, shown(CONFIG, "maxSeqLen"), 131072, 100),
    Row(f"{DEPLOY}.maxSeqLen", 100, shown(OF_MODEL, "max_seq_len"), 131072, 100),
    Row(f"{DEPLOY}.maxSeqLen", 100, shown("/info", "models", 0, "max_total_tokens"), 256, 100, TINY),
    Row(f"{DEPLOY}.maxSeqLen", 100, shown("/info", "max_input_length"), 255, 99, TINY),
    Row(f"{DEPLOY}.maxSeqLen", 1000, shown(CONFIG, "maxSeqLen"), 256, 256, TINY),
    Row(f"{DEPLOY}.maxInputTokenLen", 50, shown("/info", "max_input_length"), 255, 50, TINY),
    Row(f"{DEPLOY}.maxSeqLen", 100, shown(CONFIG, "maxOutputLen"), 256, 100, TINY),
    Row(f"{SCHEDULE}.maxIterTimes", 7, shown(CONFIG, "maxOutputLen"), 131072, 7),
    Row(f"{SCHEDULE}.maxIterTimes", 7, shown(*EXTENSIONS, "max_iter_times"), 131072, 7),
    Row(f"{SCHEDULE}.maxPrefillBatchSize", 3, shown(*EXTENSIONS, "max_prefill_batch_size"), 50, 3),
    Row(f"{SCHEDULE}.maxPrefillBatchSize", 0, shown(*EXTENSIONS, "max_prefill_batch_size"), 50, 200),
    Row(f"{SCHEDULE}.maxPrefillTokens", 4096, shown(*EXTENSIONS, "max_prefill_tokens"), 8192, 4096),
    Row(f"{SCHEDULE}.maxPrefillTokens", 4096, shown("/info", "max_batch_total_tokens"), 8192, 4096),
    Row(f"{SCHEDULE}.maxBatchSize", 3, shown("/info", "max_concurrent_requests"), 200, 3, TINY),
    Row(f"{SCHEDULE}.maxBatchSize", 3, shown(*EXTENSIONS, "max_prefill_batch_size"), 50, 3),
    Row(f"{SCHEDULE}.maxBatchSize", 3, shown(STATUS, "resource", "availSlotsNum"), 200, 3),
    Row(f"{SCHEDULE}.maxBatchSize", 3, shown(SLOTS, "total_slots"), 200, 3, TINY),
    Row("BackendConfig.modelInstanceNumber", 2, shown(SLOTS, "free_slots"), 200, 400, TINY),
    Row("BackendConfig.modelInstanceNumber", 2, shown("/info", "max_concurrent_requests"), 200, 400, TINY),
    Row(f"{SCHEDULE}.maxN", 9, shown("/info", "max_best_of"), 128, 9),
    Row(f"{SCHEDULE}.cacheBlockSize", 64, shown(CONFIG, "cacheBlockSize"), 16, 64, TINY),
    Row(f"{SCHEDULE}.cacheBlockSize", 64, shown(STATUS, "resource", "totalNpuBlockNums"), 262144, 65536, TINY),
    Row(f"{MODEL}.npuMemSize", 2, shown(CONFIG, "npuMemSize"), 1, 2, TINY),
    Row(f"{MODEL}.npuMemSize", -1, shown(OF_MODEL, "npu_mem_size"), 1, -1, TINY),
    Row(f"{MODEL}.npuMemSize", 2, shown(SLOTS, "available_tokens_length"), 2**22, 2**23, TINY),
    Row(f"{MODEL}.modelName", "other", shown(CONFIG, "modelName"), "tiny", "other", TINY),
    Row(f"{MODEL}.modelName", "other", shown("/info", "models", 0, "model_id"), "mock", "other"),
    Row(f"{MODEL}.modelName", "other", shown("/v2/models/{model}", "name"), "mock", "other"),
    Row(f"{MODEL}.modelWeightPath", "others", shown(OF_MODEL, "model_weight_path"), "weights", "others", TINY),
    Row(f"{MODEL}.modelInstanceType", "StandardMock", shown(OF_MODEL, "model_instance_type"), "Standard",
        "StandardMock", TINY),
    Row(f"{MODEL}.modelInstanceType", "StandardMock", shown("/info", "models", 0, "model_device_type"), "cpu", "none",
        TINY),
    Row(f"{MODEL}.worldSize", 2, shown(CONFIG, "worldSize"), 1, 1, TINY),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights, and others."""
    made = tmp_path_factory.mktemp("shown")
    save_weights(made / "weights")
    save_weights(made / "others", seed=2)
    return made


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The log level that a file sets is taken back."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_an_endpoint_shows_what_a_key_says(row: Row, folder: Path) -> None:
    """Before and after the change."""
    found = []
    for config in (row.base, changed(row.base, {row.key: row.value})):
        async with served(written(folder, config)) as server:
            found.append(await row.probe(server))
    assert found == [row.before, row.after]


async def test_the_type_of_the_weights_is_shown(folder: Path) -> None:
    """As they are loaded."""
    async with served(written(folder, TINY)) as server:
        (model,) = await shown("/info", "models")(server)
    assert (model["model_dtype"], model["model_device_type"]) == ("float32", "cpu")


async def test_a_stopped_request_gives_its_pages_back(folder: Path) -> None:
    """While it runs, pages and a place are gone; after stopInfer all of them are there again."""
    async with served(written(folder, TINY)) as server:
        whole = await shown(STATUS, "resource")(server)
        running = asyncio.create_task(
            server.client.post(
                "/v1/completions",
                json={"model": "tiny", "prompt": [65] * 40, "max_tokens": 200, "ignore_eos": True, "n": 2,
                      "temperature": 1},
                headers={"req-id": "mine"},
            )
        )  # fmt: skip
        async with asyncio.timeout(60):
            while not server.front.engine_stats.executor.running:  # noqa: ASYNC110 - the engine is on this loop
                await asyncio.sleep(0)
        during = await shown(STATUS, "resource")(server)
        assert (await server.client.post("/v2/models/tiny/stopInfer", json={"id": "mine"})).status_code == 200
        answer = (await running).json()
        async with asyncio.timeout(60):
            while server.front.engine_stats.executor.running:  # noqa: ASYNC110 - the engine is on this loop
                await asyncio.sleep(0)
        after = await shown(STATUS, "resource")(server)

    assert during["availSlotsNum"] == whole["availSlotsNum"] - 2
    assert during["availBlockNum"] < whole["availBlockNum"] == whole["totalNpuBlockNums"]
    assert after == whole
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["stop", "stop"]
    assert answer["usage"]["completion_tokens"] < 400
