"""Tests that need the real torch_npu; they run in processes that ``tests/npu/test_npu_path.py`` starts only."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

collect_ignore_glob = [] if "MINDSPEC_INSIDE_NPU" in os.environ else ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> Iterator[None]:
    """CPU kernels behind torch_npu's operators."""
    import kernels

    library = kernels.register()
    yield
    del library
