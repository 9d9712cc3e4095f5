"""The NPU's path, as far as it can be run without an NPU: the real torch_npu over stand-ins for CANN's libraries.

Each test here is a run of pytest in a process of its own, which imports torch_npu; its tests lie in ``inside``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine import families, int8_models
from tests.engine.rank_play import PROMPTS, TOKENS
from tests.npu import stand_in

ROOT = Path(__file__).resolve().parents[2]
SUITE = ("test_torch_runner", "test_packed_torch", "test_fused", "test_lora_layers", "test_lora_packed", "test_grammar",
         "test_quantised_models")  # fmt: skip
"""The engine's tests of models on the packed torch runner."""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-ins, compiled; skips where torch_npu is not there, or fails where it must be."""
    missing = [version for version in (stand_in.VERSION, stand_in.OLDER) if not stand_in.package(version).is_dir()]
    if missing:
        reason = f"torch_npu {' and '.join(missing)} is not there: make test installs it for Linux and Python 3.11"
        if os.environ.get("MINDSPEC_TEST_NPU") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("acl")
    stand_in.build(folder)
    return folder


def run(libraries: Path, *arguments: str, devices: int = 0, **variables: str) -> None:
    """Run pytest inside; its failure is this test's."""
    environment = stand_in.environment(libraries, devices=devices, **variables)
    command = [sys.executable, str(Path(stand_in.__file__).with_name("inside_pytest.py")), *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert " passed" in done.stdout


def test_the_engines_tests_pass_on_the_npus_runner(libraries: Path) -> None:
    """Agreement with generate, chunks, company, prefixes, adapters and grammars, in float32 on short pages."""
    files = [f"tests/engine/{name}.py" for name in SUITE]
    run(libraries, "-p", "npu_suite", *files, MINDSPEC_NPU_FLOAT32="1", MINDSPEC_NPU_BLOCK="8")


def test_every_precondition_of_the_operators_holds(libraries: Path) -> None:
    """Half precision and pages of 128 tokens, as an NPU has them; mistakes that are planted are caught."""
    run(libraries, "tests/npu/inside")


def test_a_step_waits_for_the_device_once(libraries: Path) -> None:
    """On tensors that are said to lie on npu:0, with torch_npu's own shape functions."""
    run(libraries, "tests/npu/fake", devices=1)


def test_two_ranks_answer_on_the_npus_runner_as_generate_does(libraries: Path, tmp_path: Path) -> None:
    """Over gloo, with torch_npu's modules in place of the layers: each rank's sums stand where they belong. With int8
    weights the tokens are those of a process that rounds both halves of a row apart, as they are on a CPU's ranks."""
    folders, answers = [], []
    for name in ("llama", "qwen2", "qwen3", "mistral"):
        model, answer = families.build_clear(name, PROMPTS, TOKENS)
        model.save_pretrained(tmp_path / name)
        folders.append(tmp_path / name)
        answers.append(answer)
    for name in ("qwen2", "llama", "glm4"):
        case = int8_models.shared_out(name, tmp_path / "int8", PROMPTS, TOKENS)
        folders.append(case.folder)
        answers.append(case.answers)
    environment = stand_in.environment(libraries, MINDSPEC_NPU_FLOAT32="1", MINDSPEC_NPU_BLOCK="8")
    program = Path(stand_in.__file__).with_name("inside") / "rank_play_npu.py"
    command = [sys.executable, str(program), *map(str, folders)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [one["answers"] for one in found] == answers
    assert ["NpuDecoderLayer" in one["kinds"] for one in found] == [True] * 6 + [False]
    assert ["NpuInt8Product" in one["kinds"] for one in found] == [False] * 4 + [True] * 3
    assert all(one["int8_left"] == 0 for one in found)
