"""Tests that need the real torch_npu; they run in processes that ``tests/npu/test_npu_path.py`` starts only."""

from __future__ import annotations

import os

collect_ignore_glob = [] if "MINDSPEC_INSIDE_NPU" in os.environ else ["test_*.py"]
