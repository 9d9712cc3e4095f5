"""Paths and methods that there are not: 404 that says what to use, 405 that says which methods there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from in_process import started
from mock_process import ROOT

from handlers.nowhere import Nowhere
from handlers.paths import PathTable
from handlers.service import Service

ServiceFor = Callable[..., Service]
ROUTES: dict[str, Any] = yaml.safe_load((ROOT / "generated" / "routes.yaml").read_text(encoding="utf-8"))["paths"]
NOWHERE = Nowhere(ROUTES, {"/metrics": ("GET",)})
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def taken(path: str) -> set[str]:
    """The methods of a path of the contract."""
    return {method.upper() for method in ROUTES[path]}


@pytest.mark.parametrize(
    ("method", "path", "use"),
    [
        ("POST", "/", "POST /v1/completions"),
        ("POST", "/generate", "POST /v1/completions"),
        ("POST", "/generate_stream", "POST /v1/completions"),
        ("POST", "/infer", "POST /v1/completions"),
        ("POST", "/infer_token", "list of token ids"),
        ("POST", "/v2/models/mock/infer", "list of token ids"),
        ("POST", "/v2/models/mock/generate", "POST /v1/completions"),
        ("POST", "/v2/models/mock/generate_stream", "POST /v1/completions"),
        ("POST", "/v2/models/mock/versions/1/generate", "POST /v1/completions"),
        ("GET", "/v2/models/mock/versions/1/ready", "leave /versions"),
        ("GET", "/v2/models/mock/versions/1", "leave /versions"),
        ("GET", "/v2/models/team/mock/versions/1/config", "leave /versions"),
        ("POST", "/v2/models/mock/versions/1/stopInfer", "leave /versions"),
        ("GET", "/v2/models/mock/versions/1/getSlotCount", "leave /versions"),
        ("GET", "/dresult", "GET /v1/status"),
        ("POST", "/v1/role/prefill", "GET /v1/status"),
        ("POST", "/v2/role/decode", "GET /v1/status"),
        ("GET", "/v2/status", "GET /v1/status"),
        ("GET", "/metrics-json", "GET /metrics"),
        ("GET", "/v1/engine-server/running-status", "GET /health"),
        ("POST", "/v1/engine-server/fault-handling-command", "GET /health"),
        ("GET", "/getSlotCount", "/v2/models/"),
        ("POST", "/stopInfer", "/v2/models/"),
        ("POST", "/tokenize", "POST /v1/tokenizer"),
        ("POST", "/detokenize", "POST /v1/tokenizer"),
        ("POST", "/v1/embeddings", "only generates text"),
        ("POST", "/v1/rerank", "only generates text"),
        ("POST", "/v1/responses", "POST /v1/chat/completions"),
        ("POST", "/v1/messages", "POST /v1/chat/completions"),
    ],
)
async def test_what_others_offer_is_answered_with_what_to_use(
    service_for: ServiceFor, method: str, path: str, use: str
) -> None:
    """404, by whatever method and with whatever body."""
    async with started(service_for()) as client:
        for answer in (await client.request(method, path, json={"id": "x"}), await client.get(path)):
            error = answer.json()
            assert (answer.status_code, error["code"], error["error_type"]) == (404, "not_found", "NotFoundError")
            assert error["error"].startswith("There is nothing at this path: ")
            assert use in error["error"]


@pytest.mark.parametrize(
    ("method", "path", "meant"),
    [
        ("POST", "/v1/chat/completions/", "POST /v1/chat/completions"),
        ("POST", "//v1//completions", "POST /v1/completions"),
        ("POST", "/v1/chat/completion", "POST /v1/chat/completions"),
        ("POST", "/chat/completions", "POST /v1/chat/completions"),
        ("POST", "/V1/Completions", "POST /v1/completions"),
        ("POST", "/v1/v1/chat/completions", "POST /v1/chat/completions"),
        ("GET", "/models", "GET /v1/models"),
        ("GET", "/v2/models", "GET /v1/models"),
        ("GET", "/v1/models/", "GET /v1/models"),
        ("GET", "/v1/models/mock/", "GET /v1/models/{model}"),
        ("GET", "/healthz", "GET /health"),
        ("GET", "/health/live", "GET /v2/health/live"),
        ("GET", "/stopservice", "GET /stopService"),
        ("GET", "/v2/models/mock/Ready", "GET /v2/models/{model}/ready"),
        ("GET", "/v2/models/mock/getSlotCounts", "GET /v2/models/{model}/getSlotCount"),
        ("POST", "/v2/models/mock/stopinfer", "POST /v2/models/{model}/stopInfer"),
        ("POST", "/v1/tokenizers", "POST /v1/tokenizer"),
        ("GET", "/metric", "GET /metrics"),
    ],
)
async def test_a_slip_of_the_pen_is_answered_with_what_is_meant(
    service_for: ServiceFor, method: str, path: str, meant: str
) -> None:
    """404 with the nearest operation."""
    async with started(service_for()) as client:
        answer = await client.request(method, path)

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer.json()["error"] == f"There is nothing at this path; {meant} may be meant"


@pytest.mark.parametrize(
    "path", ["/nope", "/v1", "/v3/models/mock/infer2", "/ready", "/" + "x" * 4000, "/%00", "/温度"]
)
async def test_what_is_like_nothing_is_answered_plainly(service_for: ServiceFor, path: str) -> None:
    """404 without a guess."""
    async with started(service_for()) as client:
        answer = await client.get(path)

    assert (answer.status_code, answer.json()["error"]) == (404, "There is nothing at this path")


@pytest.mark.parametrize(
    ("path", "method"), [(path, method) for path in ROUTES for method in sorted(METHODS - taken(path))]
)
async def test_a_method_that_a_path_does_not_take_is_405_and_the_answer_names_those_it_takes(
    service_for: ServiceFor, path: str, method: str
) -> None:
    """Every path of the contract: Allow, and the same in words."""
    allowed = {"get": "GET, HEAD", "post": "POST"}[next(iter(ROUTES[path]))]
    async with started(service_for()) as client:
        answer = await client.request(method, path.replace("{model}", "mock").replace("{seconds}", "7"))

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allowed
    assert answer.json()["error"] == f"This path takes {allowed.replace(', ', ' and ')} only"


@pytest.mark.parametrize("path", [path for path in ROUTES if "GET" in taken(path) and path != "/stopService"])
async def test_head_is_answered_where_there_is_get(service_for: ServiceFor, path: str) -> None:
    """The same status, and for a name that is not deployed 404 as well."""
    async with started(service_for()) as client:
        for name in ("mock", "other"):
            asked = path.replace("{model}", name).replace("{seconds}", "7")
            head, got = await client.head(asked), await client.get(asked)
            assert head.status_code == got.status_code
            assert head.headers.get("content-type") == got.headers.get("content-type")


async def test_a_model_of_that_name_is_served(service_for: ServiceFor) -> None:
    """Names may look like paths that are offered elsewhere."""
    async with started(service_for(model_name="team/generate")) as client:
        assert (await client.get("/v2/models/team/generate")).json()["name"] == "team/generate"
        assert (await client.get("/v2/models/team/generate/ready")).status_code == 200


async def test_the_metrics_are_named_only_where_they_are_offered(service_for: ServiceFor) -> None:
    """Without them there is nothing near."""
    async with started(service_for(metrics=False)) as client:
        assert (await client.get("/metric")).json()["error"] == "There is nothing at this path"
        assert (await client.get("/metrics")).status_code == 404


@given(path=st.text(max_size=60).map("/".__add__), method=st.sampled_from(["GET", "POST"]))
def test_whatever_is_asked_is_a_404_or_a_405_with_methods(path: str, method: str) -> None:
    """Any text; a 405 always has an Allow."""
    problem = NOWHERE.problem(method, path)
    assert (problem.status, "Allow" in problem.headers) in {(404, False), (405, True)}


def test_of_two_paths_that_fit_the_one_with_more_text_is_meant() -> None:
    """In whatever order they stand."""
    for paths in (["/m/{a}", "/m/{a}/ready"], ["/m/{a}/ready", "/m/{a}"]):
        table = PathTable(paths)
        assert [table.find(path) for path in ("/m/x/ready", "/m/x/y", "/m/ready", "/m/", "/n")] == [
            "/m/{a}/ready", "/m/{a}", "/m/{a}", None, None,
        ]  # fmt: skip


def test_the_router_looks_at_them_in_that_order() -> None:
    """A path in the routes is never hidden by an earlier one that fits too."""
    paths = [path for path in ROUTES if "{" in path]
    for index, path in enumerate(paths):
        asked = path.replace("{model}", "x").replace("{seconds}", "7")
        assert [known for known in paths[:index] if PathTable([known]).find(asked)] == []
