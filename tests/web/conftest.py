"""Fixtures for tests that run JavaScript: Node with the packages of package.json, and a way to run a script there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WEB = Path(__file__).parent
STAMP = WEB / "node_modules" / ".package-lock.json"
"""npm writes it last."""
NODE_TIME_S = 300.0


def _missing() -> str | None:
    """Why no script can run; None where one can."""
    if shutil.which("node") is None:
        return "there is no node on this machine"
    if not STAMP.is_file():
        return "tests/web has no node_modules: run `npm ci` there"
    return None


@pytest.fixture(scope="session")
def node() -> Callable[..., Any]:
    """Runs a script of tests/web in Node and gives what it printed last, read as JSON.

    Skips where Node or the packages are missing; fails instead where MINDSPEC_TEST_WEB is ``required``.
    """
    reason = _missing()
    if reason and os.environ.get("MINDSPEC_TEST_WEB") == "required":
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)

    def run(script: str, *arguments: str) -> Any:
        command = ["node", str(WEB / script), *arguments]
        done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=NODE_TIME_S, check=False)
        assert done.returncode == 0, f"{script}: {done.stderr or done.stdout}"
        return json.loads(done.stdout.splitlines()[-1])

    return run
