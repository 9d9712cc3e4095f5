"""Weights that are gone or forbidden: when an engine has to load them again, and at the start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import httpx
import pytest
from fault_server import COMPLETIONS, ROOT, asked, engine_of, fault_server


def test_an_engine_that_cannot_load_again_ends_the_server_with_the_reason(tmp_path):
    """What was answered before stays answered; after three deaths the code is 70, the last line says which file."""
    weights = tmp_path / "weights"
    weights.write_text("x")
    factory = "tests.faults.fault_server:while_weights_are_there"
    with (
        (tmp_path / "stderr").open("w") as stderr,
        fault_server(5.0, "600", factory, environment={"WEIGHTS": str(weights)}, stderr=stderr) as (process, url),
    ):
        before = httpx.post(url + COMPLETIONS, json=asked("hello", max_tokens=4), trust_env=False)
        weights.unlink()
        os.kill(engine_of(process), signal.SIGKILL)
        code = process.wait(60)

    assert before.json()["usage"]["completion_tokens"] == 4
    assert code == 70
    said = (tmp_path / "stderr").read_text()
    last = said.splitlines()[-1]
    assert last.startswith("mindspec cannot go on serving mock: The engine process ended 3 times within 5 minutes")
    assert last.endswith(f"the last one could not load: [Errno 2] No such file or directory: {str(weights)!r}.")
    assert "Traceback" not in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything; the row with a folder in a file's place runs")
def test_weights_that_may_not_be_read_end_the_start_with_66(tmp_path):
    """One line that names the file."""
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"x")
    file.chmod(0)
    command = [sys.executable, "-m", "tools.cli", "serve", "--port", "0", "--model", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 66
    assert done.stderr.splitlines() == [f"mindspec: the weights {file} cannot be read: Permission denied"]
