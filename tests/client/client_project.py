"""A client team's project whose folders are named like this server's packages, in an environment with both wheels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "tools" / "client"
_NOT_FOR_OTHERS = "raise ImportError('the client team\\'s own folder was taken for a package of the server')\n"
_INI = """[pytest]
pythonpath = .
testpaths = tests
mindspec_options = --max-n 8192 --max-iter-times 8
"""
_TESTS = """
import json
import urllib.error
import urllib.request

from hypothesis import HealthCheck, given, settings
from mindspec_client import breaches, corpus, validate
from mindspec_client.strategies import invalid_requests, valid_requests

from tools.helpers import doubled

FEW = settings(max_examples=25, deadline=None, database=None, suppress_health_check=[*HealthCheck])


def post(server, body):
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{server.base_url}/completions", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def served(body):
    choices = max(body.get("n") or 1, body.get("best_of") or 1)
    return isinstance(body["prompt"], str) and choices < 9 and not body.get("response_format")


def test_their_own_tools_are_theirs():
    assert doubled(2) == 4


def test_valid_requests_are_answered(mindspec_mock):
    @FEW
    @given(valid_requests("completions").filter(served))
    def holds(body):
        assert breaches(body, "completions") == []
        assert post(mindspec_mock, {**body, "model": mindspec_mock.model})[0] == 200

    holds()


def test_invalid_requests_are_refused_as_foretold(mindspec_mock):
    @FEW
    @given(invalid_requests("completions"))
    def holds(wrong):
        status, answer = post(mindspec_mock, wrong.body)
        told = json.loads(answer)
        assert (status, told["code"], told["param"]) == (422, wrong.code, wrong.param)
        assert breaches(wrong.body, "completions")[0].law == wrong.code

    holds()


def test_models_and_corpus_come_along():
    assert len(corpus().cases) > 1000
    assert validate({"model": "m", "prompt": "hello", "stop": []}, "completions").stop is None
"""
FILES = {
    "pytest.ini": _INI,
    "tools/__init__.py": "",
    "tools/helpers.py": "def doubled(number):\n    return 2 * number\n",
    "tools/cli.py": _NOT_FOR_OTHERS,
    "engine/__init__.py": _NOT_FOR_OTHERS,
    "handlers/__init__.py": _NOT_FOR_OTHERS,
    "generated/__init__.py": _NOT_FOR_OTHERS,
    "tests/test_their_client.py": _TESTS,
}
"""The client team's project."""


@dataclass(frozen=True)
class Project:
    """The project's folder, and the environment that it is tested in."""

    folder: Path
    bin: Path

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in the project's folder, with more variables."""
        environment = {**_environment(), **more}
        command = [str(self.bin / words[0]), *words[1:]]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def write(self, files: Mapping[str, str]) -> None:
        """Write files of the project."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def wheel(folder: Path, to: Path) -> Path:
    """Build the wheel of a source tree."""
    to.mkdir(parents=True)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(to)]
    subprocess.run(command, cwd=folder, env=_environment(), check=True, capture_output=True)
    (made,) = to.iterdir()
    return made


def make_project(scratch: Path, tracked: list[Path]) -> Project:
    """Both wheels from copies of the tracked files, installed without a network beside what the tests run on."""
    tree = scratch / "tree"
    for path in tracked:
        copy = tree / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    wheels = [wheel(tree, scratch / "server"), wheel(tree / CLIENT.relative_to(ROOT), scratch / "client")]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(scratch / "venv")], check=True)
    # Only packages come from there, no path files of it: this tree, where it is installed as editable, stays unseen.
    (site,) = (scratch / "venv" / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    python = scratch / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", "-qq"]
    subprocess.run([*pip, "--force-reinstall", *map(str, wheels)], check=True, env=_environment(), capture_output=True)
    script = python.with_name("pytest")  # as pip writes it where it installs pytest
    script.write_text(f"#!{python}\nimport sys\nfrom pytest import main\nsys.exit(main())\n", "utf-8")
    script.chmod(0o755)
    project = Project(scratch / "project", python.parent)
    project.write(FILES)
    return project


def _environment() -> dict[str, str]:
    """Ours without what would lead to this tree, or colour the output."""
    left_out = {"PYTHONPATH", "PYTHONSAFEPATH", "MINDSPEC_URL", "PYTEST_ADDOPTS", "FORCE_COLOR"}
    return {name: value for name, value in os.environ.items() if name not in left_out}
