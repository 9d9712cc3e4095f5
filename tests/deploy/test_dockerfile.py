"""The Dockerfile, as far as it can be held without docker."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from deploy_files import DOCKERFILE, ROOT, instructions, last_of

from tools.cli import _parser

HADOLINT = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(HADOLINT is None, reason="no hadolint; the extra `dev` has it on x86-64")
def test_hadolint_finds_nothing() -> None:
    """Not even a hint."""
    done = subprocess.run([HADOLINT, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_all_that_is_copied_is_there_and_let_through() -> None:
    """Every room, what pip reads, and nothing else; the ignore file admits just these."""
    copied = {name for kind, rest in instructions() if kind == "COPY" and "--from" not in rest for name in rest.split()}
    copied.discard("./")
    assert copied == {"pyproject.toml", "README.md", "spec", "generated", "engine", "handlers", "tools"}
    assert all((ROOT / name).exists() for name in copied)
    ignore = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text(encoding="utf-8")
    assert set(re.findall(r"^!(.+)$", ignore, re.MULTILINE)) == copied


def test_versions_are_those_that_the_project_admits() -> None:
    """torch as the Makefile has it; a Python that pyproject.toml allows, the same in both stages."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    torch = re.search(r"^TORCH \?= (\S+)$", makefile, re.MULTILINE)
    assert torch is not None
    assert any(kind == "RUN" and torch[1] in rest.split() for kind, rest in instructions())
    images = [rest.split()[0] for kind, rest in instructions() if kind == "FROM"]
    assert images == ["python:3.12-bookworm", "python:3.12-slim-bookworm"]


def test_the_final_stage_has_no_compiler_and_no_root() -> None:
    """It installs nothing: what it runs was built before."""
    words = [kind for kind, _ in instructions()]
    final = instructions()[len(words) - 1 - words[::-1].index("FROM") :]
    assert not [rest for kind, rest in final if kind == "RUN" and re.search(r"\b(apt|apt-get|pip)\b", rest)]
    assert last_of("USER") == "10001:10001"


def test_the_command_is_one_that_the_server_takes() -> None:
    """In exec form, so that signals reach it; on the port that is exposed and asked for health."""
    command = [*json.loads(last_of("ENTRYPOINT")), *json.loads(last_of("CMD"))]
    assert command[0] == "mindspec"
    given = _parser().parse_args(command[1:])
    assert (given.host, given.allow_all_zero_ip) == ("0.0.0.0", True)
    assert last_of("EXPOSE") == str(given.port)
    assert last_of("STOPSIGNAL") == "SIGTERM"


def test_health_is_asked_for_in_exec_form_at_a_path_of_the_spec() -> None:
    """The URL stands in the environment, for who serves elsewhere."""
    health = last_of("HEALTHCHECK").partition("CMD ")[2]
    assert json.loads(health)[:2] == ["python", "-c"]
    compile(json.loads(health)[2], "healthcheck", "exec")
    found = re.search(r"MINDSPEC_LIVE_URL=http://127\.0\.0\.1:(\d+)(\S+)", last_of("ENV"))
    assert found is not None
    assert found[1] == last_of("EXPOSE")
    assert found[2] in yaml.safe_load((ROOT / "spec" / "openapi.yaml").read_text(encoding="utf-8"))["paths"]
