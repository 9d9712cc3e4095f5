"""Fixtures of the contract tests: the whole application on the mock engine, in process or behind a real socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from in_process import InProcessApp
from wire import MODEL

from engine.mock_front import MockFront
from handlers.adapter_book import adapter_book
from handlers.listeners import one_listener
from handlers.server import ApiServer
from handlers.service import Service
from handlers.settings import Settings
from tests.media.media_server import MODELS, ClientOf, media_host, media_server
from tests.tiny_media import MediaModels

MODEL_TYPES = frozenset({"deepseek"})

CONTEXT = 2_000_000
"""Positions of the mock: more than the contract's own limit on prompt tokens, so that only the contract refuses."""


def make_service(profile: frozenset[str], model_name: str, settings: Mapping[str, Any]) -> Service:
    """A service on a mock front. ``mock_fail_at_round`` makes the engine fail in that round."""
    chosen = dict(settings)
    fail_at = chosen.pop("mock_fail_at_round", None)
    chosen["features"] = tuple(sorted(profile - MODEL_TYPES))
    chosen["model_type"] = next(iter(profile & MODEL_TYPES), "")
    made = Settings(model_name=model_name, **chosen)
    front = MockFront(fail_at=fail_at, max_position_embeddings=CONTEXT, adapters=adapter_book(made))
    return Service(made, front)


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """One event loop in a thread, on which all in-process applications run."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="in-process apps", daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="session")
def client_for(loop_thread: asyncio.AbstractEventLoop) -> Iterator[Callable[..., InProcessApp]]:
    """Makes a client of an in-process server; one server per deployment and session."""
    apps: dict[Any, InProcessApp] = {}

    def make(profile: frozenset[str] = frozenset(), model_name: str = MODEL, **settings: Any) -> InProcessApp:
        key = (frozenset(profile), model_name, tuple(sorted(settings.items())))
        if key not in apps:
            apps[key] = InProcessApp(make_service(frozenset(profile), model_name, settings), loop_thread)
        return apps[key]

    yield make
    for app in apps.values():
        app.close()


@pytest.fixture(scope="session")
def server_url() -> Iterator[Callable[..., str]]:
    """Starts a real server on a free loopback port; returns its base address, without /v1. One per deployment."""
    urls: dict[Any, str] = {}
    stops: list[Callable[[], None]] = []

    def start(profile: frozenset[str] = frozenset(), model_name: str = MODEL, **settings: Any) -> str:
        key = (frozenset(profile), model_name, tuple(sorted(settings.items())))
        if key not in urls or "mock_fail_at_round" in settings:
            urls[key], stop = _start(make_service(frozenset(profile), model_name, settings))
            stops.append(stop)
        return urls[key]

    yield start
    for stop in stops:
        stop()


def _start(service: Service) -> tuple[str, Callable[[], None]]:
    """A server in a thread of its own, ready; and a function that stops it."""
    listener = one_listener("127.0.0.1", 0)
    ready = threading.Event()
    server = ApiServer(service, lambda _: ready.set())
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    assert ready.wait(30), "the server did not start"

    def stop() -> None:
        server.loop.call_soon_threadsafe(server.stop)
        server.loop.call_soon_threadsafe(server.stop)
        thread.join(30)

    url = listener.url
    assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
    return url, stop


@pytest.fixture(scope="session")
def demos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """``demo`` in every format, in one folder; the files by suffix."""
    from tests.media.files import write_demos

    return write_demos(tmp_path_factory.mktemp("demos"))


@pytest.fixture(scope="session")
def demo_host(demos: dict[str, Path]) -> Iterator[str]:
    """A host on loopback that has them."""
    with media_host(demos["png"].parent) as address:
        yield address


@pytest.fixture(scope="session")
def media_spool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where servers keep the files of running requests."""
    return tmp_path_factory.mktemp("spool")


@pytest.fixture(scope="session")
def client_of(media_models: MediaModels, demos: dict[str, Path], media_spool: Path) -> Iterator[ClientOf]:
    """A client of a model's server, by the name that the documents use; each is started when it is first asked for."""
    options = ("--media-domains", "127.0.0.1", "--media-private-networks", "127.0.0.0/8")
    options += ("--media-spool-folder", str(media_spool))
    started: dict[str, httpx.Client] = {}
    with ExitStack() as running:

        def client(name: str) -> httpx.Client:
            if name not in started:
                folder = media_models.folder(MODELS[name])
                started[name] = running.enter_context(media_server(folder, name, demos["png"].parent, *options))
            return started[name]

        yield client
