"""The bench of texts beside images: its figures from made-up readings, and a whole small run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools.bench_media import Readings, _options, figures, measure, percentile

ALONE = Readings(gaps_s=[0.010] * 9 + [0.5])
BESIDE = Readings(gaps_s=[0.015] * 98 + [0.044, 0.3], steps_s=[0.010] * 100, images_s=[1.0, 2.0], encoded_s=0.8)


def test_figures_are_medians_and_percentiles() -> None:
    """One gap of a hundred may be long; the bound is 25 ms and two steps of 10."""
    found = figures(ALONE, BESIDE, 25.0)
    assert found.ratio == pytest.approx(1.5)
    assert found.beside_p99_ms == pytest.approx(44.0)
    assert found.bound_ms == pytest.approx(45.0)
    assert (found.encoder_ms, found.images, found.image_p50_s) == (400.0, 2, 1.5)
    assert found.holds


@pytest.mark.parametrize(
    "beside",
    [replace(BESIDE, gaps_s=[0.0201] * 100), replace(BESIDE, gaps_s=[0.015] * 98 + [0.0451] * 2)],
)
def test_a_slower_median_or_a_longer_gap_does_not_hold(beside: Readings) -> None:
    """More than twice the time per token, or 0.1 ms beyond the bound."""
    assert not figures(ALONE, beside, 25.0).holds


def test_a_percentile_is_one_of_the_values() -> None:
    """The 99th of a hundred is the second largest."""
    assert percentile([float(value) for value in range(100)], 99) == 98.0
    assert percentile([3.0], 99) == 3.0


def test_every_image_is_encoded_and_answered_beside_the_texts(tmp_path: Path) -> None:
    """A small model: what is counted, not what it takes."""
    sizes = ["--threads=1", "--streams=2", "--images=3", "--depth=2", "--width=128", "--layers=1", "--alone-rounds=5"]
    found = measure(tmp_path, _options().parse_args(sizes))
    assert found.images == 3
    assert found.encoder_ms > 0
