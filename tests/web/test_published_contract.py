"""The published contract, in both forms, read by the tools that teams of clients use."""

from __future__ import annotations

import compileall
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generated.operations import OPERATIONS

GENERATED = Path(__file__).parents[2] / "generated"
FORMS = ("openapi.json", "openapi-3.0.json")
BIN = Path(sys.executable).parent


@pytest.mark.parametrize("form", FORMS)
def test_javascript_tools_read_the_contract(form: str, node: Callable[..., Any]) -> None:
    """openapi-typescript and openapi-to-postmanv2 find every operation; redocly only misses a licence's name."""
    made = node("read_contract.mjs", str(GENERATED / form))
    assert set(OPERATIONS) <= set(made["types"])
    assert len(made["postman"]) == len(OPERATIONS)
    assert made["redocly"] == ["warn info-license"]


@pytest.mark.parametrize("form", FORMS)
def test_openapi_python_client_makes_a_client_of_the_contract(form: str, tmp_path: Path) -> None:
    """Without a warning; a module for every operation, all of which compile."""
    command = [str(BIN / "openapi-python-client"), "generate", "--path", str(GENERATED / form)]
    options = ["--meta", "none", "--output-path", str(tmp_path / "client"), "--fail-on-warning"]
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}  # it formats with ruff
    done = subprocess.run([*command, *options], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, re.sub(r"\AGenerating .*\n?", "", done.stdout)) == (0, ""), done.stdout
    made = {path.stem for path in (tmp_path / "client" / "api").rglob("*.py")}
    assert set(OPERATIONS) <= made
    assert compileall.compile_dir(tmp_path / "client", quiet=1)
