"""The regeneration drill through a real server: the changed spec is served with no other edit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from test_drill import BODY, regenerated

ROOT = Path(__file__).resolve().parents[2]
__all__ = ["regenerated"]


@pytest.fixture(scope="module")
def url(regenerated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a mock that runs from a copy of the code beside the regenerated package."""
    copy = tmp_path_factory.mktemp("copy")
    for room in ("engine", "handlers", "tools"):
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(regenerated, copy / "generated")
    command = [sys.executable, "-m", "tools.cli", "mock", "--port", "0", "--model-name", BODY["model"]]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    with subprocess.Popen(command, cwd=copy, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        yield found[0]
        server.terminate()


def post(url: str, members: dict[str, Any]) -> httpx.Response:
    """One completions request."""
    return httpx.post(f"{url}/v1/completions", json={**BODY, "max_tokens": 1, **members}, trust_env=False)


def test_the_server_refuses_by_the_changed_bound(url: str) -> None:
    """n 7 is answered with seven choices; n 8 is refused with the new bound in the sentence."""
    assert len(post(url, {"n": 7}).json()["choices"]) == 7
    assert post(url, {"n": 8}).status_code == 422
    assert post(url, {"n": 8}).json()["error"] == "n was given 8; it must be an integer from 1 to 7, or null"


def test_the_server_knows_the_new_field(url: str) -> None:
    """The new field is checked and no longer named as ignored, a stranger still is."""
    answer = post(url, {"mirostat": 2, "stranger": 1})
    assert (answer.status_code, answer.headers["X-Ignored-Parameters"]) == (200, "stranger")
    refused = post(url, {"mirostat": 3})
    assert (refused.status_code, refused.json()["code"], refused.json()["param"]) == (422, "out_of_range", "mirostat")


def test_the_server_refuses_by_the_new_rule(url: str) -> None:
    """The new rule's id is the code, and its sentence is the message."""
    refused = post(url, {"mirostat": 1, "top_k": 5})
    assert (refused.status_code, refused.json()["code"]) == (422, "mirostat-excludes-top-k")
    assert "mirostat cannot be combined with top_k" in refused.json()["error"]
    assert post(url, {"mirostat": 1}).status_code == 200
