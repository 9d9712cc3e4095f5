"""`mindspec serve` on a tiny model that takes media, in processes of its own, and a host that has media."""

from __future__ import annotations

import contextlib
import http.server
import os
import queue
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
CHAT = "/v1/chat/completions"
MODELS = {"Qwen2-VL": "qwen2_vl", "Qwen2-Audio": "qwen2_audio", "Qwen3-VL": "qwen3_vl", "InternVL": "internvl"}
"""The documents' names of models and two more, and what stands for them."""
ClientOf = Callable[[str], httpx.Client]
_TIME_S = 180.0


@contextlib.contextmanager
def media_server(
    model: Path, name: str, folder: Path, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[httpx.Client]:
    """A client of a server that is ready.

    Args:
        model: the model's folder.
        name: what requests call it.
        folder: of local media.
        options: further ones of the command line.
        environment: further variables.
    """
    command = [sys.executable, "-m", "tools.cli", "serve", "--model", str(model), "--model-name", name, "--port", "0"]
    command += [
        "--dtype",
        "float32",
        "--threads",
        "1",
        "--media-folder",
        str(folder),
        "--npu-mem-size",
        "0.05",
        *options,
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    )
    watchdog = threading.Timer(_TIME_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        found = None
        while found is None:
            line = process.stdout.readline()
            assert line, f"the server ended with {process.wait(_TIME_S)}"
            found = re.match(rf"mindspec serves {re.escape(name)} on (http://\S+)", line)
        watchdog.cancel()
        with httpx.Client(base_url=found[1], timeout=_TIME_S, trust_env=False) as client:
            yield client
    finally:
        watchdog.cancel()
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def media_host(folder: Path) -> Iterator[str]:
    """The address of a host on loopback that has the files of a folder."""

    class Files(http.server.SimpleHTTPRequestHandler):
        """Says nothing of its requests."""

        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, directory=str(folder), **options)  # type: ignore[arg-type, misc] # the base's own

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def hanging_host() -> Iterator[HangingHost]:
    """A host that begins an answer and never ends it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host = HangingHost(f"http://127.0.0.1:{listening.getsockname()[1]}")
        thread = threading.Thread(target=host.serve, args=(listening,), daemon=True)
        thread.start()
        yield host


class HangingHost:
    """Tells when somebody has asked, and when that one has gone."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.asked: queue.Queue[None] = queue.Queue()
        self.left: queue.Queue[None] = queue.Queue()

    def serve(self, listening: socket.socket) -> None:
        """Serve one after the other until the listener closes."""
        with contextlib.suppress(OSError):
            while True:
                link, _ = listening.accept()
                threading.Thread(target=self._hang, args=(link,), daemon=True).start()

    def _hang(self, link: socket.socket) -> None:
        with link, contextlib.suppress(OSError):
            link.recv(65536)
            link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n\x89PNG")
            self.asked.put(None)
            while link.recv(65536):
                pass
        self.left.put(None)
