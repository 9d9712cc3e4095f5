"""The pages for readers: what each path answers, with which headers, on which address and to whom."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from in_process import started

from engine.mock_front import MockFront
from handlers.api_keys import OPEN_PATHS, Access
from handlers.app import build
from handlers.pages.files import PAGES
from handlers.pages.middleware import FACTS, PagesMiddleware
from handlers.planes import ListenerApp, Served
from handlers.service import Service
from handlers.settings import Settings
from tools.vendor.__main__ import wrong

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "handlers" / "pages" / "static"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """Of a server on the mock engine with a profile."""
    settings = Settings(model_name="mock", features=("mtp",), relaxed_rules=("tools-exclude-n",))
    async with started(Service(settings, MockFront())) as made:
        yield made


async def test_the_contract_is_offered_as_it_was_generated(client: httpx.AsyncClient) -> None:
    """Byte for byte, in both forms."""
    for name in ("openapi.json", "openapi-3.0.json"):
        answer = await client.get(f"/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.content == (ROOT / "generated" / name).read_bytes()


@pytest.mark.parametrize("path", PAGES)
async def test_each_file_is_sent_once_and_then_only_when_it_has_changed(path: str, client: httpx.AsyncClient) -> None:
    """An ETag and no-cache; the same tag again is a 304 without a body, another one is not."""
    first = await client.get(path)
    assert (first.status_code, first.headers["cache-control"]) == (200, "no-cache")
    assert first.headers["x-content-type-options"] == "nosniff"
    again = await client.get(path, headers={"If-None-Match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert (await client.get(path, headers={"If-None-Match": '"other"'})).status_code == 200


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip, br", "gzip"), ("GZIP;q=0.5", "gzip"), ("*", "gzip"), ("gzip;q=0", None), ("br", None), ("", None)],
)
async def test_a_client_that_reads_gzip_gets_it(accepted: str, encoding: str | None, client: httpx.AsyncClient) -> None:
    """As the header Accept-Encoding says; each form has a tag of its own."""
    request = client.build_request("GET", "/pages/cel.js", headers={"Accept-Encoding": accepted})
    answer = await client.send(request)
    assert answer.headers.get("content-encoding") == encoding
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.headers["etag"].endswith('-gzip"') == (encoding == "gzip")
    packed = (ROOT / "handlers" / "pages" / "assets" / "cel.js.gz").read_bytes()
    assert answer.content == gzip.decompress(packed)


async def test_pages_run_only_scripts_of_this_server(client: httpx.AsyncClient) -> None:
    """Their policy allows no inline script, no evaluation and no other host; no other site may frame them."""
    for path in ("/docs", "/play"):
        policy = dict(
            part.strip().partition(" ")[::2]
            for part in (await client.get(path)).headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in (await client.get("/play")).headers["content-security-policy"]


async def test_head_has_the_headers_alone_and_other_methods_are_told_so(client: httpx.AsyncClient) -> None:
    """HEAD says the length; POST is a 405 that names both methods."""
    head = await client.head("/docs")
    assert (head.status_code, head.headers["content-type"]) == (200, "text/html; charset=utf-8")
    posted = await client.post("/docs", json={})
    assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")


async def test_the_facts_are_what_the_rules_ask_about(client: httpx.AsyncClient) -> None:
    """In the words of the contract; never kept, since some of them reload."""
    answer = await client.get(FACTS)
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == {
        "model": "mock",
        "features": ["mtp"],
        "model_type": "",
        "openai_form": False,
        "relaxed_rules": ["tools-exclude-n"],
        "strict_unknown": False,
    }


async def test_pages_need_no_key_but_the_facts_do(tmp_path: Path) -> None:
    """Whoever may ask for the health may read the contract, which is the same everywhere."""
    keys = tmp_path / "keys"
    keys.write_text("team:secret-key")
    settings = Settings(model_name="mock", access=Access(keys, None, OPEN_PATHS))
    async with started(Service(settings, MockFront())) as client:
        assert [(await client.get(path)).status_code for path in PAGES] == [200] * len(PAGES)
        assert (await client.get(FACTS)).status_code == 401
        known = {"Authorization": "Bearer secret-key"}
        assert (await client.get(FACTS, headers=known)).status_code == 200


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", FACTS])
async def test_pages_are_offered_where_requests_are(path: str) -> None:
    """On the business plane; another address names it."""
    served = Served(frozenset({"management"}), {"business": "http://127.0.0.1:1", "management": "", "metrics": ""})
    app = ListenerApp(build(Service(Settings(model_name="mock"), MockFront())), served)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://in-process") as client:
        answer = await client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"] == f"{path} is offered on the business address of this server, http://127.0.0.1:1"


def test_nothing_is_read_before_it_is_asked_for() -> None:
    """Making the layer opens no file."""
    layer = PagesMiddleware(lambda *_: asyncio.sleep(0), service=None)  # type: ignore[arg-type] # not asked for anything
    assert layer._contents == {}


def test_every_file_of_the_pages_is_offered() -> None:
    """No script lies there that a page could not load, and none is named that does not exist."""
    offered = {file.name for file in PAGES.values() if file.package == "handlers.pages.static"}
    assert offered == {path.name for path in STATIC.iterdir() if path.name != "__pycache__"}


def test_the_code_of_others_is_what_its_manifest_says() -> None:
    """Each file's content has the SHA-256 that was noted when it was fetched."""
    assert wrong() == []
    manifest = json.loads((ROOT / "handlers" / "pages" / "assets" / "manifest.json").read_text(encoding="utf-8"))
    assert {entry["licence"] for entry in manifest.values()} == {"MIT", "Apache-2.0"}
