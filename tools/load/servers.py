"""The servers under load: what one is, its start to the first answer, its freezing between turns, its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from tools.load.client import Address, exchange, read
from tools.load.processes import listener, memory_bytes, trees

COMPLETIONS: Final = "/v1/completions"
_POLL_S: Final = 0.05
_STOP_S: Final = 20.0
_LOG_SHOWN: Final = 1500


class ServerError(Exception):
    """A server cannot take part; the text is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One server of a comparison."""

    name: str
    address: Address
    model: str | None = None
    """The name that requests must use; None asks the server for the first it lists."""
    command: tuple[str, ...] | None = None
    """Starts it in the foreground; None: it runs already, and is left running."""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    """Set in every request; null takes a field out that this server refuses."""
    pid: int | None = None
    """The root process of a server that runs already; None looks for whoever listens on the port."""
    files: tuple[Path, ...] = ()
    """Files and folders (program, model) to push out of the page cache before a cold start."""
    fresh: tuple[str, ...] = ()
    """Environment variables that name the folder of a cache that the server keeps itself. A cold start finds an empty
    one, and the later starts of that run find what it left."""

    def request(self, prompt: str, max_tokens: int, model: str) -> dict[str, Any]:
        """The body of one streamed, greedy completion of fixed length."""
        body: dict[str, Any] = {
            "model": model,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "ignore_eos": True,
            "stream_options": {"include_usage": True},
        }
        body |= self.body
        return {name: value for name, value in body.items() if value is not None}


class Server:
    """A server that was started here, or found running."""

    def __init__(self, spec: ServerSpec, log_folder: Path) -> None:
        self.spec = spec
        self.model = spec.model or ""
        self._log_path = log_folder / f"{spec.name}.log"
        self._log: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._root: int | None = spec.pid
        self._frozen = False
        self._caches: dict[str, str] = {}

    @property
    def roots(self) -> list[int]:
        """Root processes, as far as they are known."""
        return [] if self._root is None else [self._root]

    @property
    def owned(self) -> bool:
        """It was started here, so it may be frozen and ended."""
        return self.spec.command is not None

    async def start(self, timeout_s: float, *, cold: bool = False) -> float | None:
        """Start it and wait for its first answer; of a running server, only that it answers.

        Returns:
            Seconds from the process's start to the first whole answer; None for a server that ran before.

        Raises:
            ServerError: it ended, or did not answer in time.
        """
        begun_s = time.perf_counter()
        if self.spec.command is not None:
            begun_s = self._spawn(self.spec.command, cold)
        elif self._root is None:
            self._root = listener(self.spec.address.port)
        last = "no connection"
        while time.perf_counter() - begun_s < timeout_s:
            if self._process is not None and self._process.poll() is not None:
                raise ServerError(f"{self.spec.name} ended with code {self._process.returncode}.\n{self._log_end()}")
            last = await self._answers(timeout_s)
            if not last:
                return time.perf_counter() - begun_s if self.owned else None
            await asyncio.sleep(_POLL_S)
        raise ServerError(f"{self.spec.name} gave no answer within {timeout_s:g} s ({last}).\n{self._log_end()}")

    async def _answers(self, timeout_s: float) -> str:
        """Ask for one token; returns an empty text on success, else the reason."""
        if not self.model:
            listed = read(await exchange(self.spec.address, "/v1/models", timeout_s=10))
            if listed.status != 200:
                return f"GET /v1/models: {listed.status}"
            self.model = first_model(listed.body)
        body = self.spec.request("Hello", 1, self.model)
        reply = read(await exchange(self.spec.address, COMPLETIONS, body, timeout_s=timeout_s))
        if reply.status == 200 and reply.whole:
            return ""
        if 400 <= reply.status < 500:
            shown = reply.body.decode("utf-8", "replace")[:300]
            raise ServerError(f"{self.spec.name} refuses the requests of this load: HTTP {reply.status}: {shown}")
        return f"HTTP {reply.status}" if reply.status else "no connection"

    def _spawn(self, command: tuple[str, ...], cold: bool) -> float:
        if (other := listener(self.spec.address.port)) is not None:
            # It would answer in place of the server, which could not listen.
            raise ServerError(f"{self.spec.name}: process {other} listens on port {self.spec.address.port} already.")
        if cold:
            self.forget_caches()
            self._caches = {name: tempfile.mkdtemp(prefix="mindspec-bench-") for name in self.spec.fresh}
            evict(self.spec.files)
        env = {**os.environ, **self.spec.env, **self._caches}
        self._log = self._log_path.open("ab")
        begun_s = time.perf_counter()
        try:
            self._process = subprocess.Popen(
                command,
                env=env,
                cwd=self.spec.cwd,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ServerError(f"{self.spec.name} cannot be started: {error}") from error
        self._root = self._process.pid
        return begun_s

    def freeze(self) -> None:
        """Take every processor away from a server that waits for its turn: an idle one may still poll or spin."""
        if self.owned and not self._frozen:
            self._signal(signal.SIGSTOP)
            self._frozen = True

    def thaw(self) -> None:
        """Let it go on."""
        if self._frozen:
            self._signal(signal.SIGCONT)
            self._frozen = False

    def memory_mb(self) -> float:
        """Of all its processes, in megabytes; shared pages count once. 0: not to be seen."""
        return sum(memory_bytes(stat.pid) for stat in trees(self.roots)) / 1e6

    async def stop(self) -> None:
        """End a server that was started here, with all its processes."""
        if self._process is None:
            return
        self.thaw()
        pids = [stat.pid for stat in trees(self.roots)]
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._process.wait, _STOP_S)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                # A process number is not given to another process so soon.
                os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(self._process.wait)
        self._process = self._root = None
        if self._log is not None:
            self._log.close()

    def forget_caches(self) -> None:
        """Remove the folders that a cold start made."""
        for folder in self._caches.values():
            shutil.rmtree(folder, ignore_errors=True)
        self._caches = {}

    def _signal(self, number: signal.Signals) -> None:
        for stat in trees(self.roots):
            with contextlib.suppress(ProcessLookupError):
                os.kill(stat.pid, number)

    def _log_end(self) -> str:
        try:
            text = self._log_path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return f"The end of {self._log_path}:\n{text[-_LOG_SHOWN:]}"


def first_model(body: bytes) -> str:
    """The first name in an answer of GET /v1/models.

    Raises:
        ServerError: there is none.
    """
    try:
        return str(json.loads(body)["data"][0]["id"])
    except (ValueError, LookupError, TypeError) as error:
        raise ServerError("GET /v1/models names no model; give its name") from error


def evict(paths: tuple[Path, ...]) -> None:
    """Push files out of the page cache, as far as nobody uses them: what a start after a reboot finds."""
    for file in _files(paths):
        with contextlib.suppress(OSError):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _files(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        if path.is_file():
            yield path
        for folder, _, names in os.walk(path):
            yield from (Path(folder, name) for name in names)


def own_command(arguments: tuple[str, ...], port: int) -> tuple[str, ...]:
    """The command that serves with this program."""
    return (sys.executable, "-m", "tools.cli", "serve", "--port", str(port), *arguments)
