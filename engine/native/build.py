"""Finds or builds the native step's library: beside the source, in the cache, else with the machine's compiler."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from engine.cache_folder import cache_root
from engine.native.variants import VARIANTS, NativeUnavailable, Variant

SOURCE = Path(__file__).parent / "src"
PREBUILT = Path(__file__).parent / "prebuilt"
"""Libraries that came with the package, named as :func:`prebuilt_name` says."""
COMPILERS = ("c++", "g++", "clang++")
"""The first that is found is taken; $CXX goes before them."""
OPTIONS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-pthread",
    "-w",
)
"""Without contraction, since products that become part of a sum in one place and not in another give other bits."""
_NO_COMPILER = f"there is no C++ compiler (looked for {', '.join(COMPILERS)} and $CXX); install one."
_Used = TypeVar("_Used")
_TIMEOUT_S = 600
_SCRATCH_BYTES = 16 * 2**20
"""Room that a build needs; objects and library together take a few MB."""
_SHOWN = 200
"""Characters of a compiler's message that are shown."""


def native_cache() -> Path:
    """Where built libraries are kept unless something else is asked for."""
    return cache_root() / "native"


def source_hash(variant: Variant) -> str:
    """Names what is built: the source and the options."""
    digest = hashlib.sha256(" ".join((*OPTIONS, *variant.options)).encode())
    for file in sorted(SOURCE.iterdir()):
        if file.suffix in (".cpp", ".h"):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def prebuilt_name(variant: Variant) -> str:
    """The file's name of a library that is shipped."""
    return f"step-{variant.name}-{source_hash(variant)}.so"


def find_compiler() -> str | None:
    """The path of a C++ compiler: $CXX, else the first of COMPILERS that is on the path."""
    for name in (os.environ.get("CXX"), *COMPILERS):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


def with_library(
    variant: Variant,
    use: Callable[[Path], _Used],
    *,
    cache: Path | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> _Used:
    """Call ``use`` with the path of the library, which is built first where there is none.

    The path may be of a temporary folder that is gone afterwards: a library stays usable once it is loaded.

    Args:
        variant: which one.
        use: loads it. Where it raises OSError on a library out of the package or the cache, one is built anew.
        cache: the folder that built libraries are kept in; None takes :func:`native_cache`.
        on_progress: gets a sentence before something that takes seconds.

    Raises:
        NativeUnavailable: there is none, and none can be built.
        OSError: ``use`` failed on a new one.
    """
    shipped = PREBUILT / prebuilt_name(variant)
    if shipped.is_file():
        try:
            return use(shipped)
        except OSError as error:  # such as a C library that is older than the one it was linked with
            on_progress(f"The native step's library that came with the package cannot be loaded here: {error}.")
    compiler = find_compiler()
    if compiler is None:
        raise NativeUnavailable(_NO_COMPILER)
    folder = cache or native_cache()
    kept = folder / f"step-{variant.name}-{_build_hash(variant, compiler)}.so"
    if kept.is_file():
        try:
            return use(kept)
        except OSError:
            on_progress(f"{kept.name} in the cache is damaged and is built anew.")
    on_progress(f"Building the native step for {variant.name}, once.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(folder).free < _SCRATCH_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        scratch = tempfile.TemporaryDirectory(dir=folder, prefix=".build-")
    except OSError:
        scratch = tempfile.TemporaryDirectory(prefix="mindspec-native-")
    with scratch as name:
        built = _build(variant, compiler, Path(name))
        if Path(name).parent == folder:
            # In one go, so that nobody ever sees half a file; another process may have put the same one there.
            os.replace(built, kept)
            built = kept
        return use(built)


def prebuild(folder: Path = PREBUILT) -> list[Path]:
    """Build every variant for a package, whatever this processor has; older libraries in the folder go.

    Raises:
        NativeUnavailable: there is no compiler, or it refuses.
    """
    compiler = find_compiler()
    if compiler is None:
        raise NativeUnavailable(_NO_COMPILER)
    folder.mkdir(exist_ok=True)
    for old in folder.glob("step-*.so"):
        old.unlink()
    made = []
    for variant in VARIANTS:
        with tempfile.TemporaryDirectory() as scratch:
            made.append(Path(shutil.move(_build(variant, compiler, Path(scratch)), folder / prebuilt_name(variant))))
    return made


def _build(variant: Variant, compiler: str, folder: Path) -> Path:
    """Compile all files side by side, then link."""
    objects = []
    running = []
    for source in sorted(SOURCE.glob("*.cpp")):
        target = folder / f"{source.stem}.o"
        command = [compiler, *OPTIONS, *variant.options, "-c", str(source), "-o", str(target)]
        running.append((source.name, subprocess.Popen(command, stderr=subprocess.PIPE, text=True)))
        objects.append(str(target))
    failures = [_failure(name, process) for name, process in running]
    for failure in failures:
        if failure is not None:
            raise NativeUnavailable(failure)
    library = folder / "step.so"
    _link([compiler, "-shared", "-pthread", *variant.options, *objects, "-o", str(library)])
    return library


def _failure(name: str, process: subprocess.Popen[str]) -> str | None:
    try:
        _, said = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"the compiler did not end within {_TIMEOUT_S} s on {name}."
    return None if process.returncode == 0 else f"the compiler refused {name}: {_first_line(said)}"


def _link(command: Sequence[str]) -> None:
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise NativeUnavailable(f"the linker refused: {_first_line(done.stderr)}")


def _first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line] or text.splitlines() or ["it said nothing"]
    return lines[0][:_SHOWN]


def _build_hash(variant: Variant, compiler: str) -> str:
    """Names what was built: source, options and compiler."""
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    return hashlib.sha256(f"{source_hash(variant)}\n{compiler}\n{said}".encode()).hexdigest()[:16]
