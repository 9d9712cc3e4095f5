"""What the handler tests share: services on a mock engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.mock_front import MockFront
from handlers.defaults import ModelDefaults
from handlers.service import Service
from handlers.settings import Settings


@pytest.fixture
def service_for() -> Callable[..., Service]:
    """Makes a service; ``front`` holds arguments of the mock front, the rest are settings."""

    def make(front: dict[str, Any] | None = None, defaults: ModelDefaults | None = None, **settings: Any) -> Service:
        chosen = {"model_name": "mock", "max_iter_times": 8, **settings}
        return Service(Settings(**chosen), MockFront(**(front or {})), defaults)

    return make
