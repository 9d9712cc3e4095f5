"""A disk that is full under whatever the server writes: its log, the lines for its operator, its cache."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fault_server import COMPLETIONS, ROOT, asked, client_of, is_ready, metric, process_of, until

from engine.native.build import find_compiler, with_library
from engine.native.variants import VARIANTS

MOCK = ("-m", "tools.cli", "mock", "--port", "0")


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A folder on a tmpfs of 1 MB, full to the last byte."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("no tmpfs can be mounted here; the rows on /dev/full run instead")
    try:
        with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextlib.contextmanager
def full_file(kind: str, folder: Path) -> Iterator[Path]:
    """A file that takes not a byte more: on a full tmpfs, or the device that is always full."""
    if kind == "tmpfs":
        with small_disk(folder / "disk") as disk:
            yield disk / "log"
    else:
        yield Path("/dev/full")


@pytest.mark.parametrize("kind", ["tmpfs", "device"])
async def test_log_lines_are_lost_and_answers_are_not(kind, tmp_path):
    """Each of 20 answers is whole; the lost lines are counted; SIGTERM ends with 0."""
    with (
        full_file(kind, tmp_path) as file,
        file.open("w") as log,
        process_of(*MOCK, stderr=log) as (process, url),
    ):
        async with client_of(url) as client:
            for _ in range(20):
                answer = await client.post(COMPLETIONS, json=asked("hello", max_tokens=4))
                assert answer.json()["usage"]["completion_tokens"] == 4

            async def counted():
                return await metric(client, "mindspec_log_lines_lost_total") >= 20

            await until(counted)
        process.terminate()
        assert process.wait(60) == 0


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


@contextlib.contextmanager
def speechless(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server with an engine process, whose standard output and standard error take nothing."""
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen([sys.executable, "-c", SPEECHLESS, str(port)], cwd=ROOT, stdout=full, stderr=full)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


SPEECHLESS = """
import sys
from argparse import Namespace
from engine.front import EngineSpec, ProcessFront
from engine.text.byte_tokenizer import mock_tokenizer
from handlers.listeners import open_listeners
from handlers.service import Service
from handlers.settings import Settings
from tools import cli, serving

def make():
    front = ProcessFront(mock_tokenizer(), EngineSpec("engine.mock:make_executor"), on_progress=serving.teller("text"))
    settings = Settings("mock", port=int(sys.argv[1]))
    return Service(settings, front), open_listeners(settings)

if __name__ == "__main__":
    sys.exit(cli._run(Namespace(log_form="text"), make))
"""


async def test_lines_for_the_operator_may_all_be_lost():
    """The server gets ready, answers and ends with 0; what an engine says while it loads is such a line, too."""
    port = free_port()
    with speechless(port) as process:
        async with client_of(f"http://127.0.0.1:{port}") as client:

            async def ready():
                with contextlib.suppress(httpx.TransportError):
                    return await is_ready(client)
                return False

            await until(ready)
            answer = await client.post(COMPLETIONS, json=asked("hello", max_tokens=4))
            assert answer.status_code == 200
        process.terminate()
        assert process.wait(60) == 0


def test_the_code_of_a_failed_start_is_not_lost_with_its_line():
    """78 for a configuration that is not there, with nowhere to say so."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "tools.cli", "serve", "--config", "none.json"]
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=full, timeout=120, check=False)
    assert done.returncode == 78


@pytest.mark.skipif(find_compiler() is None, reason="this machine has no C++ compiler")
def test_a_full_cache_does_not_stop_the_native_step(tmp_path):
    """Its library is built in the folder for temporary files instead, and used from there."""
    with small_disk(tmp_path / "disk") as disk:
        used = with_library(VARIANTS[-1], lambda path: (path, path.stat().st_size), cache=disk / "native")
        assert disk not in used[0].parents
        assert used[1] > 10_000
        assert not list((disk / "native").iterdir())
