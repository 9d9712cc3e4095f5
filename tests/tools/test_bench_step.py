"""The bench of single steps on a tiny model: every case is printed, with its parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine import families
from tests.engine.native_models import model, need_native
from tools import bench_step


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A model folder and a short run; what the bench sets in the environment goes away again."""
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "1")
    families.build("llama").save_pretrained(tmp_path)
    short = [
        "--rows",
        "1",
        "5",
        "--context",
        "20",
        "--prompt",
        "40",
        "--chunk",
        "16",
        "--rounds",
        "2",
        "--threads",
        "1",
    ]
    return [str(tmp_path), "--dtype", "float32", *short]


def test_json_has_the_medians_of_each_part(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Two decode cases with products and attention apart, then the prompt."""
    assert bench_step.main([*arguments, "--json", "--clock", "cpu"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [line["case"] for line in lines] == ["decode 1 x 20", "decode 5 x 20", "prompt 40 in 16"]
    parts = {"plain", "plain: products", "plain: attention", "replaced", "replaced: products", "replaced: attention"}
    assert set(lines[0]["median_ms"]) == parts
    assert set(lines[2]["median_ms"]) == {"plain", "replaced"}
    assert all(value >= 0 for line in lines for value in line["median_ms"].values())


def test_the_table_has_a_line_a_case(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With how much others used the machine."""
    assert bench_step.main(arguments) == 0
    header, *cases = capsys.readouterr().out.splitlines()
    assert header == "1 threads, float32, medians of 2 interleaved rounds, ms"
    assert len(cases) == 3
    assert all(line.endswith(" cores") for line in cases)
    assert "tokens/s" in cases[2]


def test_the_native_step_is_timed_beside_torch(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With either kind of weights; whole steps only; paths and lengths are chosen."""
    need_native()
    monkeypatch.setenv("MINDSPEC_CACHE", str(tmp_path / "cache"))
    model("llama").save_pretrained(tmp_path)
    chosen = ["--paths", "replaced", "native", "int8", "--prompt", "40", "20", "--dtype", "bfloat16", "--json"]
    assert bench_step.main([*arguments, *chosen]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    titles = ["decode 1 x 20", "decode 5 x 20", "prompt 40 in 16", "prompt 20 in 16"]
    assert [line["case"] for line in lines] == titles
    assert set(lines[0]["median_ms"]) == {"replaced", "replaced: products", "replaced: attention", "native", "int8"}
    assert set(lines[3]["median_ms"]) == {"replaced", "native", "int8"}
