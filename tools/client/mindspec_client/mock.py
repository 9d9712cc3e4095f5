"""Starts the mock server in a process of its own, whatever folder and search path the caller has."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

READY: Final = re.compile(r"mindspec serves (.+) on (https?://\S+)\n?$")
LAST_LINES: Final = 40
"""Lines of a mock's output that are kept, for the message when it does not start."""
PACKAGES: Final = ("engine", "generated", "handlers", "tools")
"""Top-level packages of the server. A folder of the caller's that has one of these names must not be found first."""


class MockMissing(Exception):
    """No mindspec is installed here."""


class MockFailed(Exception):
    """The mock did not start; the message has its last lines."""


@dataclass(frozen=True)
class Mock:
    """A server to send requests to."""

    url: str
    """Its address, without a path."""
    model: str
    """The name that requests have to use."""

    @property
    def base_url(self) -> str:
        """What the openai package takes as ``base_url``."""
        return f"{self.url}/v1"


def running(url: str, model: str = "mock") -> Mock:
    """A server that runs already; ``url`` with or without ``/v1`` at its end.

    Raises:
        ValueError: it is no http address.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"the address of a server was given as {url!r}; it must be like http://127.0.0.1:1025")
    return Mock(url.rstrip("/").removesuffix("/v1"), model)


def mindspec_command() -> list[str]:
    """How mindspec is started here: the console script beside this Python, else the package, else the search path.

    Raises:
        MockMissing: there is none; the message says what to do.
    """
    script = Path(sys.executable).with_name("mindspec")
    if script.is_file():
        return [str(script)]
    try:
        distribution("mindspec")
        return [sys.executable, "-P", "-m", "tools.cli"]
    except PackageNotFoundError:
        found = shutil.which("mindspec")
    if found is None:
        raise MockMissing(
            "no mindspec is installed beside this Python or on PATH: install it, name its command with the ini option "
            "mindspec_command, or set MINDSPEC_URL to the address of a server that runs"
        )
    return [found]


def environment(given: dict[str, str]) -> dict[str, str]:
    """The environment of a mock: its own packages are found before any folder of the caller's.

    Entries of PYTHONPATH that hold a package or folder of one of the server's names are left out, unless the server
    itself is installed there; then that entry is the first.
    """
    try:
        home: str | None = str(Path(str(distribution("mindspec").locate_file(""))).resolve())
    except PackageNotFoundError:
        home = None
    entries = [entry for entry in given.get("PYTHONPATH", "").split(os.pathsep) if entry]
    kept = [entry for entry in entries if not any(Path(entry, name).exists() for name in PACKAGES)]
    own = [entry for entry in entries if home is not None and str(Path(entry).resolve()) == home]
    made = {name: value for name, value in given.items() if name != "PYTHONPATH"}
    path = [*own, *(str(Path(entry).resolve()) for entry in kept if entry not in own)]
    return {**made, "PYTHONSAFEPATH": "1", **({"PYTHONPATH": os.pathsep.join(path)} if path else {})}


@contextmanager
def started(
    options: Sequence[str] = (), command: str | Sequence[str] | None = None, start_timeout_s: float = 60.0
) -> Iterator[Mock]:
    """A mock on a free port, ended with the context.

    Args:
        options: of ``mindspec mock``.
        command: what starts mindspec, as words or as one text for a shell's rules; found where none is given.
        start_timeout_s: how long it may take until it answers.

    Raises:
        MockMissing: there is no mindspec to start.
        MockFailed: it ended, or was not ready in time.
    """
    words = (shlex.split(command) if isinstance(command, str) else list(command)) if command else mindspec_command()
    line = [*words, "mock", "--host", "127.0.0.1", "--port", "0", *options]
    with tempfile.TemporaryDirectory() as folder:  # so that no folder of the caller's is the current one
        try:
            process = subprocess.Popen(
                line,
                cwd=folder,
                env=environment(dict(os.environ)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except FileNotFoundError:
            raise MockMissing(f"{words[0]} is no program; correct mindspec_command") from None
        try:
            yield _ready(process, line, start_timeout_s)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ready(process: subprocess.Popen[str], line: list[str], timeout_s: float) -> Mock:
    """Wait for the line that says where it listens; a thread reads on for as long as the process lives."""
    lines: deque[str] = deque(maxlen=LAST_LINES)
    found: list[Mock] = []
    settled = threading.Event()

    def read() -> None:
        for text in process.stdout or ():
            lines.append(text)
            match = READY.match(text)
            if match is not None and not found:
                found.append(Mock(match[2], match[1]))
                settled.set()
        settled.set()

    threading.Thread(target=read, name="output of the mock", daemon=True).start()
    in_time = settled.wait(timeout_s)
    if found:
        return found[0]
    why = "ended before it was ready" if in_time else f"was not ready within {timeout_s:g} s"
    raise MockFailed(f"{shlex.join(line)} {why}; its last lines:\n{''.join(lines) or '(none)'}")
