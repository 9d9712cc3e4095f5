"""The committed generated files are exactly what the committed spec gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from connexion import AsyncApp
from connexion.resolver import Resolver
from starlette.testclient import TestClient

from generated.operations import OPERATIONS
from tools.generate.__main__ import OUT, SPEC, main, run

TINY = Path(__file__).resolve().parent.parent / "tools" / "tiny.yaml"


def test_generated_files_match_the_spec(capsys: pytest.CaptureFixture[str]) -> None:
    """`generate --check` on the repository finds no byte to change and prints nothing."""
    assert run(SPEC, OUT, check=True) == 0
    assert capsys.readouterr().out == ""


def test_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    """Nothing in the output depends on when or where it was made."""
    assert run(TINY, tmp_path / "one") == 0
    assert run(TINY, tmp_path / "two") == 0
    first = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir() if path.is_file()}
    second = {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir() if path.is_file()}
    assert first == second
    assert len(first) == 10


def test_check_prints_the_drift_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An edited generated file is named with the line that differs, and nothing is written."""
    run(TINY, tmp_path)
    edited = (tmp_path / "rules.py").read_text().replace("a stream has one choice", "edited by hand")
    (tmp_path / "rules.py").write_text(edited)
    capsys.readouterr()
    assert main(["--spec", str(TINY), "--out", str(tmp_path), "--check"]) == 1
    shown = capsys.readouterr().out
    assert "--- rules.py (committed)" in shown
    assert '"a stream has one choice"' in shown
    assert (tmp_path / "rules.py").read_text() == edited


def test_a_wrong_spec_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The findings go to standard error with file and line, the exit status is 1."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(TINY.read_text().replace("self.n <= 1", "self.m <= 1"))
    assert run(spec, tmp_path / "out") == 1
    assert f"{spec}:30: rule stream-excludes-n: TinyRequest has no field m" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_connexion_loads_the_routes_as_they_are() -> None:
    """The 3.0 routes load without a patch, each operation found by its id, and every body names its model."""
    app = AsyncApp("routes", specification_dir=str(OUT))
    found: list[str] = []

    def resolve(name: str) -> Any:
        found.append(name)
        return lambda: None

    app.add_api("routes.yaml", resolver=Resolver(resolve))
    with TestClient(app) as client:  # starts the app
        assert client.get("/nowhere").status_code == 404
    assert set(found) == set(OPERATIONS)
    routes = yaml.safe_load((OUT / "routes.yaml").read_text())
    bodies = [
        operation["requestBody"]["content"]["application/json"]["schema"]["x-model"]
        for methods in routes["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    ]
    assert bodies == [
        "ChatCompletionRequest",
        "CompletionRequest",
        "LoadLoraAdapterRequest",
        "UnloadLoraAdapterRequest",
        "TokenizerRequest",
        "StopInferenceRequest",
    ]
