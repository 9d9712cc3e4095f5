"""A short soak of the real server: 50 mixed requests, a third cancelled, the engine killed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.soak.__main__ import report, soak
from tools.soak.driver import Plan


@pytest.mark.weights
async def test_fifty_mixed_requests_are_answered_as_if_alone(tmp_path: Path) -> None:
    """Every answer equals the one given alone, or is the documented error while the engine is down."""
    plan = Plan(requests=50, concurrency=8, kills=1, rounds=0)

    outcome = await soak(plan, 12, 8, "--max-batch-size 16", tmp_path)

    shown = report(outcome)
    assert outcome.complaints() == [], shown
    assert sum(outcome.verdicts.values()) == 50, shown
    assert outcome.verdicts["equal"] >= 10, shown
    assert outcome.verdicts["error"] >= 1, shown
    assert len(outcome.recovered_s) == 1, shown
