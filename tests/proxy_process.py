"""A proxy in a process of its own, as its user starts it, and what it tells."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


class ProxyProcess:
    """It runs until ``stop``."""

    def __init__(self, upstream: str, *options: str) -> None:
        command = [sys.executable, "-m", "tools.cli", "proxy", upstream, "--port", "0", "--format", "json", *options]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(f"mindspec proxies {upstream} on "), line
        self.url = line.split()[-1]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, list[Any], Any]:
        """The exit code, the lines of breaches, and the counts."""
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=60)
        *lines, last = [json.loads(line) for line in out.splitlines()]
        return self.process.returncode, lines, last


@contextmanager
def proxy_before(upstream: str, *options: str) -> Iterator[ProxyProcess]:
    """A proxy, which is killed at the end if it still runs."""
    proxy = ProxyProcess(upstream, *options)
    try:
        yield proxy
    finally:
        proxy.process.kill()
        proxy.process.wait()
