"""A forked child that hangs, dies or takes too much costs its own call only."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.multimodal.features import content_hash, save_features
from handlers.media import worker
from handlers.media.child import Children
from tests.media.files import saved

MB = 1024 * 1024


def act(request: dict[str, Any]) -> dict[str, Any]:
    """What a test asks for."""
    match request["act"]:
        case "answer":
            return {"pid": os.getpid()}
        case "hang":
            time.sleep(3600)
        case "die":
            faulthandler.disable()  # the test runner's would write pages
            os.kill(os.getpid(), signal.SIGSEGV)
        case "leave":
            os._exit(3)
        case "raise":
            raise RuntimeError
        case "chatter":
            return {"long": "x" * MB}
        case "speak":
            os.write(1, b"to the server")
            return {"read": os.read(0, 10).decode()}
    return {}


@pytest.fixture
def children() -> Children:
    return Children(act)


def test_an_answer_comes_from_another_process(children: Children) -> None:
    """A new one for each call."""
    pids = {children.ask({"act": "answer"}, 60.0)["pid"] for _ in range(2)}
    assert len(pids | {os.getpid()}) == 3


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"act": "die"}, {"ended": signal.SIGSEGV}),
        ({"act": "leave"}, {"ended": 3}),
        ({"act": "raise"}, {"ended": 0}),
    ],
)
def test_the_end_of_a_child_is_told(request_: dict[str, Any], expected: dict[str, Any], children: Children) -> None:
    """By its signal, or what it returned; and the next is answered."""
    assert children.ask(request_, 60.0) == expected
    assert "pid" in children.ask({"act": "answer"}, 60.0)


@pytest.mark.parametrize("what", ["hang", "chatter"])
def test_what_goes_on_is_ended(what: str, children: Children) -> None:
    """One that takes an hour, or says a megabyte; the time is short since it would not come in any."""
    assert children.ask({"act": what}, 0.2 if what == "hang" else 60.0) == {"late": True}
    assert "pid" in children.ask({"act": "answer"}, 60.0)


def test_a_child_that_hangs_can_be_interrupted(children: Children) -> None:
    """From another thread here, from a handler of signals in the worker."""
    timer = threading.Timer(0.1, children.interrupt)
    timer.start()
    assert children.ask({"act": "hang"}, 60.0) == {"interrupted": True}
    assert "pid" in children.ask({"act": "answer"}, 60.0)


def test_an_interrupt_before_the_child_is_there_ends_it(children: Children) -> None:
    """It may come between the request and the fork."""
    children.interrupt()
    assert children.ask({"act": "hang"}, 60.0) == {"interrupted": True}
    assert "pid" in children.ask({"act": "answer"}, 60.0)


def test_a_child_cannot_speak_on_its_parents_pipes(children: Children, capfd: pytest.CaptureFixture[str]) -> None:
    """Standard input and output of the worker are its line to the server."""
    assert children.ask({"act": "speak"}, 60.0) == {"read": ""}
    assert capfd.readouterr().out == ""


def test_a_child_leaves_no_descriptor_open(children: Children) -> None:
    """Neither when it answers nor when it does not."""
    before = len(os.listdir("/proc/self/fd"))
    for what in ("answer", "die", "chatter"):
        children.ask({"act": what}, 60.0)
    assert len(os.listdir("/proc/self/fd")) == before


HANGING = """\
import os, sys, time
from handlers.media.child import Children

def hang(_):
    print(os.getpid(), file=sys.stderr, flush=True)
    time.sleep(3600)

Children(hang).ask({}, 3600.0)
"""


def test_a_child_ends_with_the_process_that_forked_it() -> None:
    """A worker that is killed leaves no decoder behind, which would go on in a file that nobody waits for."""
    with subprocess.Popen([sys.executable, "-c", HANGING], stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        pid = int(worker.stderr.readline())
        child = os.pidfd_open(pid)
        try:
            worker.kill()
            assert select.select([child], [], [], 20.0)[0]
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(child, signal.SIGKILL)
            os.close(child)


def test_a_picture_that_needs_more_memory_than_there_is_says_so(tmp_path: Path) -> None:
    """144 million pixels within 8 MB, and what the process of the tests has freed before."""
    from PIL import Image

    path = tmp_path / "picture"
    path.write_bytes(saved(Image.new("1", (12_000, 12_000)), "PNG"))
    limits = {"max_pixels": 1 << 30, "max_video_s": 1.0, "max_audio_s": 1.0, "disk_reserve_bytes": 0, "decode_s": 60.0}
    job = {"path": str(path), "kind": "image", "said": None, "model": "", "features": "", "limits": limits}

    def within_little(request: dict[str, Any]) -> dict[str, Any]:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + 8 * MB, taken + 8 * MB))
        return worker.answer(None, request)

    assert Children(within_little).ask(job, 60.0) == {"memory": True}


def test_the_hash_of_an_answer_is_that_of_what_was_written(tmp_path: Path) -> None:
    """Whatever the child says: other requests get what was encoded for the same hash."""
    features = {"pixel_values": torch.ones(2, 3)}
    save_features(tmp_path / "features", features)
    request = {"kind": "image", "features": str(tmp_path / "features")}
    given = worker.hashed({"tokens": 1, "hash": "00"}, request)
    assert given == {"tokens": 1, "hash": content_hash("image", features).hex()}
