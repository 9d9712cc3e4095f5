"""What a wheel of this program holds: every file that a running server, the generator or the build of C++ reads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from test_house import ROOMS, ROOT, TRACKED

from engine.native.build import SOURCE
from engine.native.variants import VARIANTS


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The members of a wheel made of a copy of the tree in which the native step's libraries were built."""
    tree = tmp_path_factory.mktemp("tree")
    for path in TRACKED:
        copy = tree / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    prebuilt = tree / "engine" / "native" / "prebuilt"
    prebuilt.mkdir()
    for variant in VARIANTS:
        (prebuilt / f"step-{variant.name}-0.so").touch()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tree / "dist")]
    subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
    (wheel,) = (tree / "dist").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_file_of_the_rooms_is_in_the_wheel(names: set[str]) -> None:
    """Templates, data and C++ sources as well as modules."""
    wanted = {path.relative_to(ROOT).as_posix() for path in TRACKED if path.relative_to(ROOT).parts[0] in ROOMS}
    assert wanted - names == set()
    assert "generated/spec/openapi.yaml" in names


def test_the_wheel_can_build_the_native_step(names: set[str]) -> None:
    """All that the compiler reads."""
    assert {f"engine/native/src/{path.name}" for path in SOURCE.iterdir()} <= names


def test_built_libraries_are_shipped(names: set[str]) -> None:
    """Those that ``python -m engine.native`` left in the tree, though git does not know them."""
    assert {f"engine/native/prebuilt/step-{variant.name}-0.so" for variant in VARIANTS} <= names
