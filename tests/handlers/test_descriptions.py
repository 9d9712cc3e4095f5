"""What the server and its model are said to be: the whole answers, and what they follow."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from in_process import started

from engine.mock_front import MockFront
from engine.scheduler import Limits
from handlers.adapter_book import adapter_book
from handlers.engine_settings import EngineSettings
from handlers.service import Service
from handlers.settings import LoraModule, Settings
from handlers.version import VERSION

ROOT = Path(__file__).parents[2]
SIZES = EngineSettings(
    max_batch_size=8, max_prefill_batch_size=4, max_prefill_tokens=512, cache_block_size=16, npu_mem_size=2
)
DEPLOYED: dict[str, Any] = {
    "model_name": "mock", "weights_name": "SmolLM2", "engine": SIZES, "max_seq_len": 1000, "max_iter_times": 300,
    "max_input_token_len": 700, "max_n": 16, "lora_modules": (LoraModule("french", Path("adapters/fr-v2")),),
}  # fmt: skip
MODEL = {
    "model_device_type": "none", "model_dtype": "none", "model_id": "mock", "model_pipeline_tag": "text-generation",
    "model_sha": None, "max_total_tokens": 1000,
}  # fmt: skip
DESCRIBED = {
    "/v2": {
        "name": "MindIE Server", "version": VERSION, "extensions": {
            "max_iter_times": 300, "prefill_policy_type": 0, "decode_policy_type": 0, "max_prefill_batch_size": 4,
            "max_prefill_tokens": 512,
        },
    },
    "/v2/models/mock": {
        "name": "mock", "platform": "MindIE Server",
        "inputs": [{"name": "input0", "shape": [-1], "datatype": "UINT32"}],
        "outputs": [{"name": "output0", "shape": [-1], "datatype": "UINT32"}],
    },
    "/v2/models/mock/config": {
        "model_name": "mock", "input_datatype": "UINT32", "output_datatype": "UINT32", "max_seq_len": 1000,
        "npu_mem_size": 2, "cpu_mem_size": 0, "world_size": 1, "model_weight_path": "SmolLM2",
        "model_instance_type": "Standard",
    },
    "/info": {
        "docker_label": None, "max_batch_total_tokens": 512, "max_best_of": 16, "max_concurrent_requests": 8,
        "max_stop_sequences": None, "max_waiting_tokens": None, "sha": None, "validation_workers": None,
        "version": VERSION, "waiting_served_ratio": None, "models": [MODEL], "max_input_length": 700,
    },
    "/v1/config": {
        "modelName": "mock", "maxSeqLen": 1000, "npuMemSize": 2, "cpuMemSize": 0, "worldSize": 1, "maxOutputLen": 300,
        "cacheBlockSize": 16,
    },
}  # fmt: skip
"""By path, in the order of the keys."""


def deployed(**changes: Any) -> Service:
    """A service of these settings on the mock."""
    settings = Settings(**{**DEPLOYED, **changes})
    sizes = Limits(max_batch_size=settings.engine.max_batch_size)
    return Service(settings, MockFront(limits=sizes, adapters=adapter_book(settings)))


@pytest.mark.parametrize("path", DESCRIBED)
async def test_a_description_is_what_the_deployment_has(path: str) -> None:
    """Every key in MindIE's order, with the sizes that are in force."""
    async with started(deployed()) as client:
        answer = await client.get(path)

    assert answer.status_code == 200
    assert answer.json() == DESCRIBED[path]
    assert list(answer.json()) == list(DESCRIBED[path])


async def test_lengths_are_the_models_where_nobody_says_less() -> None:
    """A setting above what the model can is not in force, and no answer is longer than the whole."""
    changes = {"max_seq_len": 10**6, "max_iter_times": 10**6, "max_input_token_len": None, "max_n": 8192}
    async with started(deployed(**changes)) as client:
        config, info = (await client.get("/v1/config")).json(), (await client.get("/info")).json()

    assert (config["maxSeqLen"], config["maxOutputLen"]) == (131072, 131072)
    assert (info["models"][0]["max_total_tokens"], info["max_input_length"]) == (131072, 131071)
    assert info["max_best_of"] == 128


@pytest.mark.parametrize(
    ("size_gb", "told"), [(None, "-1"), (2.0, "2"), (0.5, "0.5")], ids=["automatic", "whole", "part"]
)
async def test_memory_is_told_as_it_was_asked_for(size_gb: float | None, told: str) -> None:
    """-1 where nobody did; whole numbers as such."""
    async with started(deployed(engine=EngineSettings(npu_mem_size=size_gb))) as client:
        assert f'"npuMemSize":{told},' in (await client.get("/v1/config")).text
        assert f'"npu_mem_size":{told},' in (await client.get("/v2/models/mock/config")).text


async def test_an_adapter_is_described_under_its_own_name() -> None:
    """With its own folder."""
    async with started(deployed()) as client:
        config = (await client.get("/v2/models/french/config")).json()
        metadata = (await client.get("/v2/models/french")).json()

    assert (config["model_name"], config["model_weight_path"]) == ("french", "fr-v2")
    assert metadata["name"] == "french"


@pytest.mark.parametrize("name", ["team/mock", "a/b/c", "ready", "config"])
async def test_a_models_name_may_look_like_a_path(name: str) -> None:
    """What stands behind the name is what is asked of it."""
    async with started(deployed(model_name=name)) as client:
        answers = {tail: await client.get(f"/v2/models/{name}{tail}") for tail in ("", "/config", "/getSlotCount")}
        ready = await client.get(f"/v2/models/{name}/ready")

    assert (ready.status_code, ready.content) == (200, b"")
    assert answers["/config"].json()["model_name"] == name
    assert "free_slots" in answers["/getSlotCount"].json()
    assert answers[""].json()["name"] == name


@pytest.mark.parametrize("tail", ["", "/config", "/getSlotCount", "/ready"])
@pytest.mark.parametrize("name", ["other", "other/french", "Mock"])
async def test_an_unknown_model_is_described_nowhere(tail: str, name: str) -> None:
    """404 with the name, whatever is asked about it."""
    async with started(deployed()) as client:
        answer = await client.get(f"/v2/models/{name}{tail}")

    error = answer.json()
    assert (answer.status_code, error["code"], error["param"]) == (404, "not_found", "model")
    assert error["error"] == f"The model '{name}' is not deployed here"


class LoadingFront(MockFront):
    """Its model is never loaded."""

    async def start(self) -> None:
        """See ``Front.start``."""


@pytest.mark.parametrize("path", [path for path in DESCRIBED if path != "/v2/models/mock"])
async def test_sizes_that_the_model_decides_wait_for_it(path: str) -> None:
    """503 loading, and when to come back."""
    async with started(Service(Settings(model_name="mock"), LoadingFront())) as client:
        answer = await client.get(path)

    assert (answer.status_code, answer.json()["code"]) == (503, "loading")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize("path", DESCRIBED)
async def test_a_server_that_drains_still_says_what_it_is(path: str) -> None:
    """Sizes do not change."""
    service = deployed()
    async with started(service) as client:
        await service.front.drain(0)
        assert (await client.get(path)).json() == DESCRIBED[path]


def test_the_version_is_the_packages_and_the_contracts() -> None:
    """One number in three places."""
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    spec = yaml.safe_load((ROOT / "spec" / "openapi.yaml").read_text(encoding="utf-8"))

    assert package["project"]["version"] == spec["info"]["version"] == VERSION
