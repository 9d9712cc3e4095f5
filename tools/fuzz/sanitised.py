"""The process that a sanitised library can be loaded into: found out, and become."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.native.build import find_compiler

_INSIDE = "MINDSPEC_SANITISED"
_ASAN_OPTIONS = ":".join(
    (
        "detect_leaks=0",  # Python's own, at its end
        "allocator_may_return_null=1",
        "quarantine_size_mb=64",
        # What is read before it was written is no number then, and neither is a logit made of it.
        "max_malloc_fill_size=1073741824",
        "malloc_fill_byte=255",
    )
)


def runtime() -> Path | None:
    """The compiler's library of the address sanitiser, where it has one."""
    compiler = find_compiler()
    if compiler is None:
        return None
    command = [compiler, "-print-file-name=libasan.so"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
    path = Path(said)
    return path.resolve() if path.is_absolute() and path.is_file() else None


def inside() -> bool:
    """Whether this process has the sanitiser loaded."""
    return _INSIDE in os.environ


def enter(library: Path, module: str, arguments: Sequence[str]) -> None:
    """Become ``python -m module`` with the sanitiser loaded first; does not return."""
    environment = {
        **os.environ,
        _INSIDE: "1",
        "LD_PRELOAD": str(library),
        "ASAN_OPTIONS": _ASAN_OPTIONS,
        "UBSAN_OPTIONS": "print_stacktrace=1",
        # Each object is an allocation of its own, which the sanitiser can watch.
        "PYTHONMALLOC": "malloc",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", module, *arguments], environment)


def spare_children() -> None:
    """Processes that are started from now on run without the sanitiser."""
    os.environ.pop("LD_PRELOAD", None)
