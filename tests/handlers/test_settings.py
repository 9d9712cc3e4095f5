"""Token limits of a deployment."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.settings import Limits, Settings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, Limits(max_seq_len=2048, max_iter_times=2048, max_prompt_tokens=2047)),
        ({"max_seq_len": 100}, Limits(100, 100, 99)),
        ({"max_seq_len": 4096}, Limits(2048, 2048, 2047)),
        ({"max_iter_times": 8}, Limits(2048, 8, 2047)),
        ({"max_input_token_len": 10}, Limits(2048, 2048, 10)),
    ],
)
def test_limits_combine_settings_and_model(settings: dict[str, Any], expected: Limits) -> None:
    """Absent settings come from the model's 2048 positions; the smallest bound of a prompt holds."""
    assert Limits.of(Settings(model_name="m", **settings), 2048) == expected


def test_a_prompt_never_exceeds_the_contracts_own_ceiling() -> None:
    """1048576 tokens, however long the model's context is."""
    assert Limits.of(Settings(model_name="m"), 10_000_000).max_prompt_tokens == 1_048_576


@pytest.mark.parametrize(("max_tokens", "expected"), [(None, 50), (20, 20), (80, 50)])
def test_output_is_cut_by_every_limit(max_tokens: int | None, expected: int) -> None:
    """min(max_tokens, max_iter_times, max_seq_len - prompt)."""
    assert Limits(max_seq_len=150, max_iter_times=60, max_prompt_tokens=149).output_tokens(100, max_tokens) == expected


@pytest.mark.parametrize(("support", "form"), [("vllm", False), ("openai", True), ("", True)])
def test_only_vllm_means_mindies_form(support: str, form: bool) -> None:
    """Any other value of openAiSupport is OpenAI's form, for answers and for the rules."""
    settings = Settings(model_name="m", open_ai_support=support)

    assert (settings.openai_form, settings.deployment().openai_form) == (form, form)
