"""A mock in this process for the conformance tests, and tries of single laws on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from in_process import InProcessApp
from mock_transport import MockTransport

from engine.mock_front import MockFront
from generated.rules import PLAIN
from handlers.engine_settings import EngineSettings
from handlers.service import Service
from handlers.settings import Settings
from tools.conform.cases import Cases
from tools.conform.law import Law
from tools.conform.registry import all_laws
from tools.mock.app import mock_app


@pytest.fixture(scope="session")
def mock() -> Iterator[MockTransport]:
    """The whole application on the mock engine, with the settings that `mindspec mock` has by itself."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="conform's mock", daemon=True)
    thread.start()
    engine = EngineSettings(instance_type="StandardMock")
    app = InProcessApp(Service(Settings(model_name="mock", engine=engine), MockFront()), loop, mock_app)
    yield MockTransport(app)
    app.close()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


@pytest.fixture(scope="session")
def laws() -> dict[str, Law]:
    """All laws by id."""
    found = all_laws(Cases(PLAIN))
    assert len({law.id for law in found}) == len(found), "two laws share an id"
    return {law.id: law for law in found}
