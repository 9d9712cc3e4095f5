"""Tests on tensors that are said to lie on npu:0; they run in a process that ``tests/npu/test_npu_path.py`` starts."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("ACL_STAND_IN_DEVICES", "0") != "0" else ["test_*.py"]
