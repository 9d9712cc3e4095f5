"""The same minute of overload as on the mock, on the default model."""

from __future__ import annotations

import asyncio

import pytest

from tools.open_loop.__main__ import load
from tools.open_loop.driver import Plan
from tools.weights import default_model_folder

pytestmark = pytest.mark.weights


def test_a_minute_of_overload_on_a_model_loses_nothing() -> None:
    """32 requests a second of 16 tokens: all are answered, refusals say when to come back, both sides count alike."""
    options = ["--model", str(default_model_folder()), "--max-link-num", "50", "--max-connections", "2000"]
    outcome = asyncio.run(load("serve", [*options, "--threads", "1", "--log-level", "error"], Plan(duration_s=60)))

    assert outcome.complaints() == []
    assert outcome.sent == 1920
    assert set(outcome.by_status) <= {"200", "429"}
    assert outcome.by_status["200"] > 50
