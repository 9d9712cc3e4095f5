"""The figures of the proxy's cost, from made-up rounds, and one short real run."""

from __future__ import annotations

import pytest

from tools.bench_proxy import Figures, Side, measure


def test_rounds_are_compared_in_pairs() -> None:
    """2 % fewer tokens in the middle pair; gaps 1 ms longer at their 99th percentile; CPU for each event."""
    direct = Side([100.0, 50.0, 80.0], [20.0] * 200, [5.0], 1000)
    proxied = Side([98.0, 40.0, 80.0], [20.0] * 190 + [21.0] * 10, [7.0], 1000)
    found = Figures.of(direct, proxied, cpu_s=0.05, judge_s=0.2)
    assert found.lost_share == pytest.approx(0.02)
    assert (found.later_ms, found.later_first_ms) == (pytest.approx(1.0), pytest.approx(2.0))
    assert (found.cpu_us, found.judge_us) == (pytest.approx(50.0), pytest.approx(200.0))
    assert found.good


@pytest.mark.parametrize(("rate", "gap_ms"), [(96.0, 20.0), (100.0, 26.0)])
def test_what_costs_too_much_is_not_good(rate: float, gap_ms: float) -> None:
    """4 % of the tokens, or 6 ms."""
    found = Figures.of(Side([100.0], [20.0] * 100, [5.0], 1), Side([rate], [gap_ms] * 100, [5.0], 1), 0.0, 0.0)
    assert not found.good


def test_a_short_run_gives_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """Two streams of four tokens, directly and through the proxy."""
    found = measure(rounds=1, streams=2, tokens=4, pace_ms=1.0)
    assert found.lost_share < 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["direct", "proxied"]
