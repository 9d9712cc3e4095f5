"""The bench beside busy processes on a tiny model: every neighbour has a column, every number of threads a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.native_models import model, need_native
from tools import bench_neighbours


def test_the_table_has_every_neighbour_and_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each cell shows tokens per second and the worst step for each number of rows."""
    need_native()
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "1")
    model("llama").save_pretrained(tmp_path)
    short = ["--rows", "2", "1", "--context", "20", "--settle-s", "0", "--seconds", "0.01"]
    assert bench_neighbours.main([str(tmp_path), "--threads", "1", "2", *short]) == 0
    title, header, *lines = capsys.readouterr().out.splitlines()
    assert title.startswith("tokens/s (worst step in ms) at 2 | 1 rows x 20, beside a neighbour on core ")
    assert header.split() == ["threads", "none", "0.3", "of", "each", "ms", "3", "of", "each", "10", "ms", "100", "%"]
    assert [line.split()[0] for line in lines] == ["1", "2"]
    assert all(line.count("|") == 4 and line.count(")") == 8 for line in lines)
