"""Where a decoder runs there is nothing to read but its file and the libraries, and nobody to talk to."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handlers.media.child import Children
from handlers.media.sandbox import Sandbox

needs_landlock = pytest.mark.skipif(Sandbox().version < 4, reason="the kernel has no Landlock with rules for TCP")


def inside(folder: Path, act: Callable[[], object]) -> str:
    """What an act comes to in a sandbox that may read ``given`` of a folder and write into ``made``."""
    (folder / "given").write_text("given")
    (folder / "made").mkdir()
    (folder / "secret").write_text("secret")
    sandbox = Sandbox()

    def confined(_: dict[str, Any]) -> dict[str, Any]:
        sandbox.enter(str(folder / "given"), str(folder / "made"))
        try:
            return {"result": str(act())}
        except OSError as error:
            return {"result": type(error).__name__}

    return str(Children(confined).ask({}, 60.0).get("result"))


@needs_landlock
def test_the_given_file_can_be_read(tmp_path: Path) -> None:
    """That is what it is for."""
    assert inside(tmp_path, (tmp_path / "given").read_text) == "given"


@needs_landlock
def test_files_can_be_made_in_the_folder_for_the_result(tmp_path: Path) -> None:
    """And take each other's place, as writers do."""

    def write() -> str:
        (tmp_path / "made" / "new").write_text("new")
        return (tmp_path / "made" / "new").rename(tmp_path / "made" / "result").name

    assert inside(tmp_path, write) == "result"
    assert (tmp_path / "made" / "result").read_text() == "new"


@needs_landlock
def test_libraries_can_be_read(tmp_path: Path) -> None:
    """Some are imported late."""
    import json.decoder

    assert inside(tmp_path, lambda: len(Path(json.decoder.__file__).read_text()) > 0) == "True"


@needs_landlock
@pytest.mark.parametrize(
    "act",
    [
        lambda folder: (folder / "secret").read_text(),
        lambda folder: (folder / "given").write_text("other"),
        lambda folder: (folder / "new").write_text("new"),
        lambda folder: (folder / "secret").unlink(),
        lambda folder: list(folder.iterdir()),
        lambda folder: (folder / "made" / "link").symlink_to(folder / "secret"),
        lambda _: Path("/etc/passwd").read_text(),
        lambda _: Path("/proc/self/environ").read_text(),
    ],
    ids=["read", "overwrite", "make", "remove", "list", "link", "system", "environment"],
)
def test_other_files_cannot_be_touched(act: Callable[[Path], object], tmp_path: Path) -> None:
    """Of other requests, of the server, of the system."""
    assert inside(tmp_path, lambda: act(tmp_path)) == "PermissionError"
    assert (tmp_path / "secret").read_text() == "secret"


@needs_landlock
def test_nobody_can_be_connected_to(tmp_path: Path) -> None:
    """Not even on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert inside(tmp_path, lambda: socket.create_connection(("127.0.0.1", port))) == "PermissionError"


@needs_landlock
def test_no_other_program_runs_beyond_it(tmp_path: Path) -> None:
    """What is started has no more rights."""
    code = f"print(open({str(tmp_path / 'secret')!r}).read())"
    assert inside(tmp_path, lambda: subprocess.run([sys.executable, "-c", code], capture_output=True).returncode) == "1"


@pytest.mark.skipif(Sandbox().version < 6, reason="the kernel has no Landlock with rules for signals")
def test_no_other_process_can_be_signalled(tmp_path: Path) -> None:
    """Not even to ask whether it is there."""
    os.kill(os.getpid(), 0)
    assert inside(tmp_path, lambda: os.kill(os.getppid(), 0)) == "PermissionError"


def test_a_kernel_without_landlock_leaves_everything_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits on memory and time, and the process of its own, are there all the same."""
    monkeypatch.setattr(Sandbox, "_call", lambda *_: -1)
    assert inside(tmp_path, (tmp_path / "secret").read_text) == "secret"
