"""The bench of `mindspec check`."""

from __future__ import annotations

from typing import Any

from tools.bench_check import main


def test_it_says_how_many_requests_took_how_long(capsys: Any) -> None:
    """One line for the recording, one for each round."""
    assert main(["--requests", "40", "--rounds", "2"]) == 0
    recording, *rounds = capsys.readouterr().out.splitlines()
    assert recording.startswith("40 requests, ")
    assert [line.split(" s, ")[1].split()[1] for line in rounds] == ["breaches", "breaches"]
