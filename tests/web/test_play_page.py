"""The page that tries requests, in a browser without a network: it judges as the server does, before it sends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mock_process import mock_server

from generated.rules import RULES
from tools.contract.corpus import Case, load_corpus
from tools.contract.package import Judge, load_package
from tools.contract.values import expand

GENERATED = Path(__file__).parents[2] / "generated"
REQUESTS = {
    "create_chat_completion": "ChatCompletionRequest",
    "create_completion": "CompletionRequest",
    "load_lora_adapter": "LoadLoraAdapterRequest",
    "unload_lora_adapter": "UnloadLoraAdapterRequest",
    "count_tokens": "TokenizerRequest",
    "stop_inference": "StopInferenceRequest",
}
SHORT = 10_000
"""Characters of a body that is judged under every profile."""
SEED = "18446744073709551615"


def profiles() -> list[dict[str, Any]]:
    """One deployment for each profile that a rule asks about, and those with other settings that change verdicts."""
    asked = [rule.profile for rule in RULES.values()]
    features = sorted({feature for profile in asked for feature in profile.features})
    types = sorted({profile.model_type for profile in asked if profile.model_type})
    relaxable = sorted(rule.id for rule in RULES.values() if rule.relaxable)
    return [
        *({"features": [feature]} for feature in features),
        *({"model_type": name} for name in types),
        {"openai_form": True},
        {"strict_unknown": True},
        {"relaxed_rules": relaxable},
    ]


def cases() -> Iterator[tuple[Case, dict[str, Any]]]:
    """The whole corpus under its own deployments; then what is short under every profile."""
    corpus = load_corpus(GENERATED / "corpus.json")
    yield from ((case, dict(case.deployment)) for case in corpus)
    short = [case for case in corpus if not case.deployment and len(json.dumps(expand(case.body))) < SHORT]
    yield from ((case, profile) for profile in profiles() for case in short)


def test_a_person_tries_requests_and_the_page_judges_as_the_server(node: Callable[..., Any], tmp_path: Path) -> None:
    """Wide and light: a broken rule, a range, the largest seed, a stream, a stop, JSON both ways, every verdict."""
    judged = list(cases())
    file = tmp_path / "cases.json"
    listed = [{"operation": case.operation, "body": case.body, "deployment": facts} for case, facts in judged]
    file.write_text(json.dumps(listed), encoding="utf-8")
    with mock_server("--step-delay-ms", "5") as (_, url):
        made = node("use_play.mjs", f"{url}/play", "1280", "light", str(file))
        again = subprocess.run(["bash", "-c", made["curl"]], capture_output=True, text=True, check=True).stdout
    assert made["wrong"] == []
    assert made["allowed"] == "The contract allows this request."
    links = ["Skip to sending", "Documentation", "openapi.json"]
    assert made["stops"] == [*links, "endpoint", "example", "key", "req-id", "Rules of a MindIE deployment"]

    assert made["rule"]["beside"] == "n above 1 needs a temperature above 0 (n-needs-temperature)"
    assert made["rule"]["other"] == made["rule"]["beside"]  # every member that the rule is about
    assert "n-needs-temperature" in made["rule"]["above"]
    assert made["rule"]["button"] == "Send anyway"
    allowed = "n was given 9000; it must be an integer from 1 to 8192, or null"
    assert made["range"] == {"beside": f"{allowed} (out_of_range)", "invalid": "true"}
    assert made["sentBefore"] == 0

    assert f'"seed": {SEED}' in made["raw"]
    assert made["body"] == made["raw"]
    assert made["streamed"]["steps"] > 2
    assert "ended: length" in made["streamed"]["text"]
    assert made["streamed"]["wire"].endswith("data: [DONE]\n\n")
    assert again.endswith("data: [DONE]\n\n")
    assert made["stopped"] is True
    assert made["form"] == ["9007199254740993", "b"]
    assert made["broken"].startswith("This is not valid JSON: a value is missing (line 1, column ")
    assert '"id": "mock"' in made["models"]
    assert made["unnamed"] == []
    assert made["overflow"] <= 0

    package = load_package(GENERATED)
    judges = {name: Judge(package, model) for name, model in REQUESTS.items()}
    differing = []
    for (case, facts), said in zip(judged, made["verdicts"], strict=True):
        verdict = judges[case.operation].verdict(expand(case.body), package.deployment(**facts))
        if said != [verdict.code, verdict.param]:
            differing.append((case.operation, case.subject, facts, said, [verdict.code, verdict.param]))
    assert differing == []
    assert len(judged) > 15_000


def test_the_page_works_on_a_phone_in_the_dark(node: Callable[..., Any]) -> None:
    """The same steps, nothing wider than the screen, light text on dark ground."""
    with mock_server("--step-delay-ms", "5") as (_, url):
        made = node("use_play.mjs", f"{url}/play", "390", "dark", "")
    assert made["wrong"] == []
    assert made["overflow"] <= 0
    assert made["unnamed"] == []
    assert made["ground"] == "rgb(20, 23, 26)"
