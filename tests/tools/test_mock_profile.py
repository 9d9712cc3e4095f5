"""`mindspec mock --profile`: what a MindIE with these features would refuse, and what any other serves."""

from __future__ import annotations

from typing import Any

import pytest
from mock_app import CHAT, COMPLETIONS, TOOL, ask, mock_client

from generated.rules import RULES
from tools.cli import _parser, _settings
from tools.server_options import FEATURES, MODEL_TYPES

PROFILE_RULES = sorted(rule.id for rule in RULES.values() if rule.profile.features or rule.profile.model_type)
BREAKING: dict[str, dict[str, Any]] = {
    "logprobs": {"logprobs": True},
    "n": {"n": 2, "temperature": 1},
    "best-of": {"n": 1, "best_of": 2, "temperature": 1},
    "beams": {"use_beam_search": True},
    "stop": {"stop": "x"},
    "stop-token-ids": {"stop_token_ids": [1]},
    "include-stop-str": {"include_stop_str_in_output": True},
    "response-format": {"response_format": {"type": "json_object"}},
}


def options(profile: str) -> dict[str, Any]:
    """The settings that a command line's profile comes to."""
    settings = _settings(_parser().parse_args(["mock", "--profile", profile]), "mock")
    return {"features": settings.features, "model_type": settings.model_type}


@pytest.mark.parametrize("rule", PROFILE_RULES)
async def test_a_profile_refuses_by_its_rule_and_another_serves(rule: str) -> None:
    """prefix-cache-excludes-logprobs needs prefix_cache, and so on for every rule of the spec."""
    profile, _, what = rule.partition("-excludes-" if "-excludes-" in rule else "-exclude-")
    body = BREAKING[what]
    async with mock_client(**options(profile.replace("-", "_"))) as client:
        refused = await ask(client, **body)
        assert (refused.status_code, refused.json()["code"]) == (422, rule)
    async with mock_client() as plain:
        assert (await ask(plain, **body)).status_code == 200


async def test_several_profiles_refuse_together() -> None:
    """deepseek,prefix_cache: each its own, and requests without such fields are served."""
    async with mock_client(**options("deepseek,prefix_cache")) as client:
        assert (await ask(client, n=2, temperature=1)).json()["code"] == "deepseek-excludes-n"
        assert (await ask(client, logprobs=True)).json()["code"] == "prefix-cache-excludes-logprobs"
        assert (await ask(client, url=COMPLETIONS, logprobs=0)).json()["code"] == "prefix-cache-excludes-logprobs"
        assert (await ask(client, url=CHAT, tools=[TOOL])).status_code == 200


def test_every_feature_of_the_rules_can_be_named() -> None:
    """And no other."""
    asked = {name for rule in RULES.values() for name in (*rule.profile.features, rule.profile.model_type) if name}
    assert asked == {*FEATURES, *MODEL_TYPES}
