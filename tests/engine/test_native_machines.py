"""The native step on odd machines: one core, many threads, no place to keep things, no account of memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from native_models import PAGE, loaded, model, need_native, tokens
from packed_play import finish, greedy

from engine.loader import cpu_flags
from engine.native import load
from engine.native.build import find_compiler
from engine.native.runner import NativeRunner
from engine.packed_loader import load_executor
from engine.process import usable_cores


@pytest.fixture(autouse=True)
def _own_thread_count() -> Any:
    """Loading changes how many threads torch has."""
    need_native()
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama in bfloat16."""
    folder = tmp_path_factory.mktemp("model")
    model("llama").save_pretrained(folder)
    return folder


def executor(folder: Path, cache: Path, **options: Any) -> Any:
    """What a server would run."""
    given = {"dtype": "bfloat16", "device": "cpu", "page_size": PAGE, "memory_bytes": 64 << 20, **options}
    return load_executor(str(folder), native_cache=str(cache), **given)


def answer(executor: Any) -> Any:
    """Tokens and logprobs of a request over several pages."""
    return finish(executor, greedy("a", tokens(70), 9, ignore_eos=True, logprobs=2))


def test_a_cache_that_cannot_be_written_is_done_without(folder: Path, tmp_path: Path) -> None:
    """The step is built for this start alone."""
    if find_compiler() is None:
        pytest.skip("this machine has no C++ compiler")
    (tmp_path / "file").touch()
    said: list[str] = []
    assert type(executor(folder, tmp_path / "file" / "cache", on_progress=said.append)._runner) is NativeRunner
    assert said[0].startswith("Building the native step for ")


def test_on_one_core_there_is_one_thread(folder: Path, library_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cores that count are those that the process may use, not those of the machine."""
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {1})
    said: list[str] = []
    found = executor(folder, library_cache, on_progress=said.append)
    assert said[-1].endswith(" on 1 thread.")
    assert len(answer(found)["a"][0]) == 9


def test_more_threads_than_cores_give_the_same_answers(folder: Path, library_cache: Path) -> None:
    """They take turns; nothing waits for ever."""
    many = 2 * usable_cores() + 3
    assert answer(executor(folder, library_cache, threads=many)) == answer(executor(folder, library_cache, threads=1))


def test_threads_that_the_system_does_not_give_are_a_memoryerror(library_cache: Path) -> None:
    """Where there is room for some of them only: those end, and the process lives."""
    path = load.with_library(load.choose(cpu_flags()), lambda path: path, cache=library_cache)
    script = f"""
import resource
from pathlib import Path
from engine.native.library import Library, ThreadPool
library = Library(Path({str(path)!r}))
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)
try:
    ThreadPool(library, 2000)
except MemoryError as error:
    print(error)
print(ThreadPool(library, 2).threads)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["the system gives no 2000 threads", "2"]


def test_without_an_account_of_huge_pages_nothing_is_said(
    library_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Some containers have none; the step runs all the same."""
    monkeypatch.setattr(load, "_HUGE_FROM", 0)
    monkeypatch.setattr("engine.native.library._SMAPS", tmp_path / "smaps")
    step = load.build_native(loaded(model("llama")), page_size=PAGE, max_tokens=2048, cache=library_cache)
    assert type(step) is NativeRunner
    assert caplog.records == []
