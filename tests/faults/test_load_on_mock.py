"""A minute of more requests than the mock can take: every one is answered, and both sides count alike."""

from __future__ import annotations

import asyncio

from tools.open_loop.__main__ import load
from tools.open_loop.driver import Plan


def test_a_minute_of_overload_loses_nothing() -> None:
    """32 requests a second where 100 are worked on for 8 s each: 200s and 429s, no reset, no other answer."""
    options = ["--max-link-num", "100", "--step-delay-ms", "500", "--max-connections", "2000", "--log-level", "error"]
    outcome = asyncio.run(load("mock", options, Plan(duration_s=60)))

    assert outcome.complaints() == []
    assert outcome.sent == 1920
    assert set(outcome.by_status) == {"200", "429"}
    # Beyond what first uses take: an answer that is kept for ever would show.
    assert outcome.memory[-1][1] - outcome.memory[0][1] < 100
