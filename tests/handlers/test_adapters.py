"""Adapters over HTTP: named as the model, listed with their parent, loaded and unloaded where that is offered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from in_process import started

from engine.mock_front import MockFront
from engine.types import AdapterError, AdapterSource
from handlers.adapter_book import adapter_book
from handlers.service import Service
from handlers.settings import LoraModule, Settings

COMPLETIONS = "/v1/completions"
LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"


class BrokenFront(MockFront):
    """Its engine finds a fault in every adapter that is loaded later."""

    async def load_adapter(self, source: AdapterSource) -> None:
        """See ``Front.load_adapter``."""
        raise AdapterError("it uses DoRA, which is not served.")


def _settings(folder: Path | None, *modules: LoraModule, **settings: Any) -> Settings:
    limits: dict[str, Any] = {"max_loras": 3, "max_lora_rank": 8, "lora_dir": folder} if folder else {}
    return Settings(
        model_name="mock", weights_name="weights", lora_modules=modules, max_iter_times=8, **limits | settings
    )


@asynccontextmanager
async def _client(settings: Settings, front: type[MockFront] = MockFront) -> AsyncIterator[httpx.AsyncClient]:
    service = Service(settings, front(adapters=adapter_book(settings)))
    async with started(service) as client:
        yield client


def _folder(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text("{}")
    return folder


async def _text(client: httpx.AsyncClient, model: str) -> str:
    answer = await client.post(COMPLETIONS, json={"model": model, "prompt": "Hello", "temperature": 0})
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"] == model
    return str(answer.json()["choices"][0]["text"])


async def test_an_adapter_is_named_as_the_model_and_answers_otherwise() -> None:
    """Chat and completions; the answer repeats the name that was asked for."""
    async with _client(_settings(None, LoraModule("french", Path("adapters/french")))) as client:
        assert await _text(client, "mock") != await _text(client, "french")
        chat = {"model": "french", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0}
        of_adapter = (await client.post("/v1/chat/completions", json=chat)).json()
        of_base = (await client.post("/v1/chat/completions", json={**chat, "model": "mock"})).json()
        assert of_adapter["model"] == "french"
        assert of_adapter["choices"][0]["message"]["content"] != of_base["choices"][0]["message"]["content"]


@pytest.mark.parametrize("name", ["French", "french ", "other"])
async def test_a_name_is_compared_as_it_is(name: str) -> None:
    """Another case or a space more is an unknown model, not the base model."""
    async with _client(_settings(None, LoraModule("french", Path("adapters/french")))) as client:
        answer = await client.post(COMPLETIONS, json={"model": name, "prompt": "Hello"})
        assert (answer.status_code, answer.json()["code"]) == (422, "unknown_model")


async def test_the_list_of_models_has_the_adapters_with_their_parent() -> None:
    """The deployed model first; ``root`` is a folder's name, never its path."""
    async with _client(_settings(None, LoraModule("french", Path("adapters/fr-v2"), "mock"))) as client:
        models = (await client.get("/v1/models")).json()["data"]
        assert [(model["id"], model["parent"], model["root"]) for model in models] == [
            ("mock", None, "weights"),
            ("french", "mock", "fr-v2"),
        ]
        assert (await client.get("/v1/models/french")).json() == models[1]


async def test_an_adapter_of_the_start_is_known_while_the_model_loads() -> None:
    """503 loading as for the model itself, not 422."""

    class LoadingFront(MockFront):
        async def start(self) -> None:
            """Never ready."""

    async with _client(_settings(None, LoraModule("french", Path("french"))), LoadingFront) as client:
        answer = await client.post(COMPLETIONS, json={"model": "french", "prompt": "Hello"})
        assert (answer.status_code, answer.json()["code"]) == (503, "loading")


async def test_an_adapter_is_loaded_and_unloaded_at_run_time(tmp_path: Path) -> None:
    """It is listed and answers in between; by relative and by absolute path."""
    _folder(tmp_path, "team/french")
    async with _client(_settings(tmp_path)) as client:
        for path in ("team/french", str(tmp_path / "team" / "french")):
            body = {"lora_name": "french", "lora_path": path, "master_model": "mock"}
            loaded = await client.post(LOAD, json=body)
            assert (loaded.status_code, loaded.json()) == (200, {"status": "The adapter 'french' is loaded."})
            assert [model["id"] for model in (await client.get("/v1/models")).json()["data"]] == ["mock", "french"]
            assert await _text(client, "french")
            unloaded = await client.post(UNLOAD, json={"lora_name": "french"})
            assert (unloaded.status_code, unloaded.json()) == (200, {"status": "The adapter 'french' is unloaded."})
            answer = await client.post(COMPLETIONS, json={"model": "french", "prompt": "Hello"})
            assert (answer.status_code, answer.json()["code"]) == (422, "unknown_model")
            assert (await client.get("/v1/models/french")).status_code == 404


def _outside(root: Path) -> dict[str, str]:
    """Paths that lead out of ``root/inside``, and the reason that each is given."""
    elsewhere = _folder(root, "outside")
    inside = root / "inside"
    _folder(inside, "plain")
    (inside / "link").symlink_to(elsewhere)
    (_folder(inside, "leaking") / "adapter_model.safetensors").symlink_to(elsewhere / "adapter_config.json")
    return {
        "../outside": "must not have '..'",
        "plain/../../outside": "must not have '..'",
        str(elsewhere): "does not lie in",
        "link": "does not lie in",
        ".": "does not lie in",
        "missing": "there is no such folder",
        "plain/adapter_config.json": "there is no such folder",
        "leaking": "its 'adapter_model.safetensors' leads out of",
        "a\0b": "null characters",
        "x" * 4000: "cannot be looked at",
    }


async def test_no_path_leads_out_of_the_folder_for_adapters(tmp_path: Path) -> None:
    """Dots, links and absolute paths: 422 in MindIE's words, and why."""
    paths = _outside(tmp_path)
    async with _client(_settings(tmp_path / "inside")) as client:
        for path, reason in paths.items():
            answer = await client.post(LOAD, json={"lora_name": "french", "lora_path": path})
            error = answer.json()
            assert (answer.status_code, error["param"], error["code"]) == (422, "lora_path", "adapter"), path
            assert error["error"].startswith("Input invalid lora path: "), path
            assert reason in error["error"], path
            assert str(tmp_path) not in error["error"]
        assert (await client.post(LOAD, json={"lora_name": "french", "lora_path": "plain"})).status_code == 200


@pytest.mark.parametrize(
    ("body", "param", "sentence"),
    [
        ({"lora_name": "mock"}, "lora_name", "Input invalid lora name: 'mock' is the deployed model"),
        ({"master_model": "llama"}, "master_model", "Input invalid master model: 'llama' is not deployed, 'mock' is"),
        ({"lora_name": "first"}, None, "The adapter 'first' cannot be loaded: it is loaded already"),
    ],
)
async def test_names_that_cannot_be_are_refused(
    tmp_path: Path, body: dict[str, Any], param: str | None, sentence: str
) -> None:
    """422, and the sentence says which."""
    _folder(tmp_path, "plain")
    async with _client(_settings(tmp_path, LoraModule("first", tmp_path / "plain"))) as client:
        answer = await client.post(LOAD, json={"lora_name": "new", "lora_path": "plain", **body})
        error = answer.json()
        assert (answer.status_code, error["error"], error["param"]) == (422, sentence, param)
        assert error["error_type"] == "Input Validation Error"


async def test_an_adapter_that_the_engine_refuses_changes_nothing(tmp_path: Path) -> None:
    """422 with the engine's sentence; the list stays as it was."""
    _folder(tmp_path, "plain")
    async with _client(_settings(tmp_path), BrokenFront) as client:
        answer = await client.post(LOAD, json={"lora_name": "new", "lora_path": "plain"})
        sentence = "The adapter 'new' cannot be loaded: it uses DoRA, which is not served"
        assert (answer.status_code, answer.json()["error"]) == (422, sentence)
        assert len((await client.get("/v1/models")).json()["data"]) == 1


async def test_no_more_adapters_than_max_loras(tmp_path: Path) -> None:
    """The fourth is refused with the setting's name."""
    _folder(tmp_path, "plain")
    async with _client(_settings(tmp_path)) as client:
        answers = [await client.post(LOAD, json={"lora_name": f"n{n}", "lora_path": "plain"}) for n in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 422]
        assert "3 adapters are loaded; at most 3 fit (maxLoras)" in answers[3].json()["error"]


async def test_an_adapter_that_is_not_there_cannot_be_unloaded(tmp_path: Path) -> None:
    """Nor can the model itself."""
    async with _client(_settings(tmp_path)) as client:
        for name in ("french", "mock"):
            answer = await client.post(UNLOAD, json={"lora_name": name})
            sentence = f"The adapter '{name}' cannot be unloaded: it is not loaded"
            assert (answer.status_code, answer.json()["error"]) == (422, sentence)


@pytest.mark.parametrize("off", [{"max_loras": 0}, {"max_lora_rank": 0}, {"lora_dir": None}, {}])
async def test_loading_is_off_unless_all_three_settings_allow_it(tmp_path: Path, off: dict[str, Any]) -> None:
    """404, with what it needs; by default too."""
    settings = _settings(tmp_path, **off) if off else _settings(None)
    async with _client(settings) as client:
        for path in (LOAD, UNLOAD):
            answer = await client.post(path, json={"lora_name": "french", "lora_path": "french"})
            assert (answer.status_code, answer.json()["error_type"]) == (404, "NotFoundError")
            assert "maxLoras and maxLoraRank above 0" in answer.json()["error"]


@pytest.mark.parametrize(
    ("modules", "sentence"),
    [
        ([LoraModule("mock", Path("x"))], "an adapter cannot have the deployed model's name, 'mock'"),
        ([LoraModule("a", Path("x"), "llama")], "'a' is for the model 'llama' .its baseModelName., and 'mock' is"),
        ([LoraModule("a", Path("x")), LoraModule("a", Path("y"))], "the adapter 'a' cannot be used"),
        ([LoraModule("a b", Path("x"))], "a name has 1 to 256"),
    ],
)
def test_a_deployment_with_impossible_adapters_does_not_start(modules: list[LoraModule], sentence: str) -> None:
    """One sentence about the one that is wrong."""
    with pytest.raises(AdapterError, match=sentence):
        adapter_book(_settings(None, *modules))
