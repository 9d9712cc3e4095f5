"""A mock server in a process of its own, as an operator starts it."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG = {
    "model": "mock",
    "messages": [{"role": "user", "content": "hello"}],
    "stream": True,
    "ignore_eos": True,
    "max_tokens": 40,
}


@contextlib.contextmanager
def mock_server(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A mock server in a process of its own, and its address from the ready line."""
    command = [sys.executable, "-m", "tools.cli", "mock", "--port", "0", *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"mindspec serves mock on (http://127\.0\.0\.1:\d+)\n", line)
        assert found, line
        yield process, found[1]
    finally:
        process.kill()
        process.wait()
