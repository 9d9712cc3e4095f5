"""How the native step's library is found or built: variants, cache, no compiler, a broken one."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest
from native_models import hide_compilers, need_native, why_not

from engine.loader import cpu_flags
from engine.native import build
from engine.native.__main__ import main
from engine.native.build import SOURCE, find_compiler, native_cache, prebuilt_name, source_hash, with_library
from engine.native.library import Library
from engine.native.variants import VARIANTS, NativeUnavailable, choose

ALL = frozenset().union(*(variant.needs for variant in VARIANTS))
BEST, PLAIN, OLD = VARIANTS


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose as on Linux on x86-64, wherever this runs."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("sys.platform", "linux")


@pytest.fixture
def compiled() -> None:
    """Tests that build; they need a compiler and a processor."""
    need_native()
    if find_compiler() is None:
        pytest.skip("this machine has no C++ compiler")


@pytest.mark.usefixtures("linux")
def test_the_best_variant_that_a_processor_has_is_chosen() -> None:
    """bfloat16 products in hardware, then AVX-512, then AVX2."""
    assert choose(ALL) is BEST
    assert choose(ALL - {"avx512_bf16"}) is PLAIN
    assert choose(frozenset({"avx2", "fma", "avx512f"})) is OLD


@pytest.mark.usefixtures("linux")
def test_a_variant_can_be_forced() -> None:
    """By name, where the processor has it."""
    assert choose(ALL, "avx2") is OLD
    with pytest.raises(NativeUnavailable, match="lacks avx512_bf16, which avx512_bf16 needs"):
        choose(ALL - {"avx512_bf16"}, "avx512_bf16")
    with pytest.raises(NativeUnavailable, match="no variant 'sse'; there are avx512_bf16, avx512, avx2"):
        choose(ALL, "sse")


@pytest.mark.usefixtures("linux")
def test_a_processor_without_any_is_refused() -> None:
    """The torch path is left."""
    with pytest.raises(NativeUnavailable, match="neither AVX-512 nor AVX2"):
        choose(frozenset({"sse2"}))


def test_other_machines_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is for one system and one kind of processor."""
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(NativeUnavailable, match="aarch64"):
        choose(ALL)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_library_is_built_once_and_then_taken_from_the_cache(variant: build.Variant, library_cache: Path) -> None:
    """Nothing is said the second time, and no half-built file stays."""
    need_native(variant.name)
    said: list[str] = []
    first = with_library(variant, lambda path: path, cache=library_cache, on_progress=said.append)
    said.clear()
    assert with_library(variant, lambda path: path, cache=library_cache, on_progress=said.append) == first
    assert said == []
    assert first.parent == library_cache
    assert list(library_cache.glob(".build-*")) == []


@pytest.mark.usefixtures("compiled")
def test_a_build_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one sentence; what the compiler makes goes into the folder that was asked for."""
    _one_file(monkeypatch, tmp_path / "source", "int one() { return 1; }")
    said: list[str] = []
    path = with_library(choose(cpu_flags()), lambda path: path, cache=tmp_path / "a" / "cache", on_progress=said.append)
    assert said == [f"Building the native step for {choose(cpu_flags()).name}, once."]
    assert path.parent == tmp_path / "a" / "cache"


@pytest.mark.usefixtures("compiled")
def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is built in a temporary folder, which is gone afterwards."""
    _one_file(monkeypatch, tmp_path / "source", "int one() { return 1; }")
    closed = tmp_path / "closed"
    closed.mkdir()

    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    if os.getuid() == 0:  # for whom no folder is closed
        real = tempfile.TemporaryDirectory
        monkeypatch.setattr(
            build.tempfile,
            "TemporaryDirectory",
            lambda **options: refuse() if options.get("dir") == closed else real(**options),
        )
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    used: list[Path] = []
    with_library(choose(cpu_flags()), used.append, cache=closed)
    assert list(closed.iterdir()) == []
    assert not used[0].exists()


@pytest.mark.usefixtures("compiled")
def test_a_damaged_library_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found when it is loaded."""
    _one_file(monkeypatch, tmp_path / "source", "int one() { return 1; }")
    variant = choose(cpu_flags())
    kept = with_library(variant, lambda path: path, cache=tmp_path)
    kept.write_bytes(b"no library")

    def load(path: Path) -> bytes:
        content = path.read_bytes()
        if content == b"no library":
            raise OSError("invalid ELF header")
        return content

    said: list[str] = []
    assert with_library(variant, load, cache=tmp_path, on_progress=said.append) == kept.read_bytes()
    assert "damaged" in said[0]


def test_what_is_no_library_is_an_oserror(tmp_path: Path) -> None:
    """Which is what ``with_library`` looks for."""
    (tmp_path / "step.so").write_bytes(b"no library")
    with pytest.raises(OSError, match=r"step\.so"):
        Library(tmp_path / "step.so")


def test_without_a_compiler_it_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says what was looked for."""
    hide_compilers(monkeypatch)
    with pytest.raises(NativeUnavailable, match=r"no C\+\+ compiler \(looked for c\+\+, g\+\+, clang\+\+ and \$CXX\)"):
        with_library(BEST, Library, cache=tmp_path)


def test_a_library_that_came_with_the_package_needs_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken when it was made from this very source."""
    hide_compilers(monkeypatch)
    monkeypatch.setattr(build, "PREBUILT", tmp_path)
    (tmp_path / f"step-{OLD.name}-0000000000000000.so").touch()
    with pytest.raises(NativeUnavailable):
        with_library(OLD, lambda path: path, cache=tmp_path / "cache")
    (tmp_path / prebuilt_name(OLD)).touch()
    assert with_library(OLD, lambda path: path, cache=tmp_path / "cache") == tmp_path / prebuilt_name(OLD)


@pytest.mark.usefixtures("compiled")
def test_a_library_that_came_with_the_package_but_does_not_load_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is built here instead, and that is said."""
    _one_file(monkeypatch, tmp_path / "source", "int one() { return 1; }")
    monkeypatch.setattr(build, "PREBUILT", tmp_path)
    variant = choose(cpu_flags())
    shipped = tmp_path / prebuilt_name(variant)
    shipped.touch()

    def load(path: Path) -> Path:
        if path == shipped:
            raise OSError("version `GLIBC_9.0' not found")
        return path

    said: list[str] = []
    assert with_library(variant, load, cache=tmp_path / "cache", on_progress=said.append).parent == tmp_path / "cache"
    assert said[0].endswith("cannot be loaded here: version `GLIBC_9.0' not found.")


@pytest.mark.usefixtures("compiled")
def test_a_package_gets_every_variant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those that this processor lacks; what was made from another source goes."""
    _one_file(monkeypatch, tmp_path / "source", "int one() { return 1; }")
    folder = tmp_path / "prebuilt"
    folder.mkdir()
    (folder / "step-avx2-0000000000000000.so").touch()
    monkeypatch.setattr(build.prebuild, "__defaults__", (folder,))
    assert main() == 0
    names = sorted(prebuilt_name(variant) for variant in VARIANTS)
    assert sorted(path.name for path in folder.iterdir()) == names
    assert sorted(Path(line).name for line in capsys.readouterr().out.splitlines()) == names


def test_a_package_cannot_be_made_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status says so, too."""
    hide_compilers(monkeypatch)
    assert main() == 1
    assert capsys.readouterr().err.startswith("nothing was built: there is no C++ compiler")


@pytest.mark.usefixtures("compiled")
def test_what_the_compiler_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the file and the first error."""
    _one_file(monkeypatch, tmp_path / "source", "nonsense")
    with pytest.raises(NativeUnavailable, match=r"the compiler refused one\.cpp: .*error"):
        with_library(choose(cpu_flags()), Library, cache=tmp_path)


def test_another_source_has_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a library is never run with a source that it was not made from."""
    names = {source_hash(variant) for variant in VARIANTS}
    _one_file(monkeypatch, tmp_path / "source", "int one();")
    names.add(source_hash(BEST))
    (tmp_path / "source" / "one.cpp").write_text("int two();")
    names.add(source_hash(BEST))
    assert len(names) == len(VARIANTS) + 2


def test_the_cache_follows_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's own, else the desktop's."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.delenv("MINDSPEC_CACHE", raising=False)
    assert native_cache() == Path("/x/mindspec/native")
    monkeypatch.setenv("MINDSPEC_CACHE", "/y")
    assert native_cache() == Path("/y/native")


@pytest.mark.parametrize("path", sorted(SOURCE.iterdir()), ids=lambda path: path.name)
def test_source_files_hold_one_idea_each(path: Path) -> None:
    """The limit of Python files holds for C++ as well, and the first line says what a file owns."""
    lines = path.read_text().splitlines()
    assert len(lines) <= 400
    assert max(map(len, lines)) <= 130
    assert lines[0].startswith("// ")


def test_a_reason_is_given_wherever_native_tests_are_skipped() -> None:
    """Which is also where this machine's state shows in the test report."""
    assert why_not("sse") is not None


def _one_file(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    """Build from this source instead."""
    folder.mkdir()
    (folder / "one.cpp").write_text(text)
    monkeypatch.setattr(build, "SOURCE", folder)
