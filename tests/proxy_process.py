"""A proxy in a process of its own, as an operator starts it, and what it told."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mock_process import ROOT

_END_S = 60


class Told:
    """The proxy's address and, once it has ended, its report."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.breaches: list[tuple[str, str, str | None]] = []
        """(side, law, field) of each breach, in the order of their coming."""
        self.lines: list[dict[str, Any]] = []
        """The same as they were written."""
        self.counts: dict[str, Any] = {}
        self.told_in_all = 0
        """Breaches that the counts at the end tell."""
        self.code: int | None = None


@contextlib.contextmanager
def proxy_server(upstream: str, folder: Path, *options: str, end: signal.Signals = signal.SIGTERM) -> Iterator[Told]:
    """A proxy before a server; when the block is left it is ended by a signal and its report read."""
    report = folder / "proxy.jsonl"
    command = [sys.executable, "-m", "tools.cli", "proxy", upstream, "--port", "0", "--format", "json"]
    command += ["--report", str(report), *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"mindspec proxies \S+ on (http://127\.0\.0\.1:\d+)\n", line)
        assert found, line
        told = Told(found[1])
        yield told
        process.send_signal(end)
        told.code = process.wait(_END_S)
    finally:
        process.kill()
        process.wait()
    *lines, last = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    told.breaches = [(one["side"], one["law"], one["field"]) for one in lines]
    told.lines = lines
    told.counts = last["counts"]
    told.told_in_all = sum(breach["count"] for breach in last["breaches"])
