"""Fixtures of the engine's tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def library_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the libraries of the native step are built, once for all tests."""
    return tmp_path_factory.mktemp("native")
