"""What mindspec_client says about requests, its corpus and what its strategies draw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import mindspec_client
import pytest
from hypothesis import HealthCheck, given, settings
from mindspec_client import mock
from mindspec_client.cases import PATH, SCHEMA_PATH
from mindspec_client.strategies import Invalid, invalid_requests, valid_requests

from tools.contract.committed import contract_of
from tools.generate.client import carried

ROOT = Path(__file__).resolve().parents[2]
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
PROFILES = ["", "deepseek,prefix_cache"]
SOME = settings(max_examples=150, deadline=None, database=None, suppress_health_check=[*HealthCheck])


def test_an_accepted_request_has_no_breaches() -> None:
    """As a parsed body and as text."""
    assert mindspec_client.breaches(CHAT) == []
    assert mindspec_client.breaches(json.dumps(CHAT), "/v1/chat/completions") == []


def test_a_breach_names_law_and_field() -> None:
    """The same code, path and sentence as the server's answer."""
    (breach,) = mindspec_client.breaches({**CHAT, "n": 0})
    assert (breach.law, breach.field) == ("out_of_range", "n")
    assert breach.message == "n was given 0; it must be an integer from 1 to 8192, or null"


def test_every_breach_of_a_request_is_told() -> None:
    """Two fields and a rule that reads neither of them, each with what to do."""
    found = mindspec_client.breaches({**CHAT, "temperature": -1, "top_k": 0, "n": 2, "best_of": 1})
    assert [(breach.law, breach.field) for breach in found] == [
        ("out_of_range", "temperature"),
        ("out_of_range", "top_k"),
        ("best-of-at-least-n", "best_of"),
    ]
    assert found[2].remedy == 'Change best_of or n; {"n": 2, "best_of": 3} is accepted.'


def test_a_profile_brings_its_rules() -> None:
    """n 2 is fine until the request goes to a DeepSeek deployment."""
    assert mindspec_client.breaches({**CHAT, "n": 2}) == []
    (breach,) = mindspec_client.breaches({**CHAT, "n": 2}, profile="deepseek,prefix_cache")
    assert breach.law == "deepseek-excludes-n"


@pytest.mark.parametrize(
    "text", ["{", '{"model": "a", "model": "b"}', '{"model": NaN}', b"\xff", '{"model": "\\ud800"}', "[" * 100_000]
)
def test_text_is_held_to_strict_json(text: str | bytes) -> None:
    """Syntax, keys that stand twice, NaN, bytes that are no UTF-8, half a surrogate pair, nesting beyond reason."""
    assert [breach.law for breach in mindspec_client.breaches(text)] == ["json_invalid"]


def test_validate_gives_the_model_or_every_breach() -> None:
    """Normalised where it is accepted: an empty list of stops is none."""
    model = mindspec_client.validate({**CHAT, "stop": []}, "chat")
    assert isinstance(model, mindspec_client.ChatRequest)
    assert model.stop is None
    with pytest.raises(mindspec_client.Refused, match="best_of must be at least n") as refused:
        mindspec_client.validate({**CHAT, "n": 2, "best_of": 1})
    assert [breach.law for breach in refused.value.breaches] == ["best-of-at-least-n"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"endpoint": "chats"}, "endpoint was given 'chats'; it must be one of chat, completions, create_chat"),
        ({"profile": "deepsek"}, "profile was given 'deepsek'; it must be made of deepseek, mtp, parallel_decoding"),
    ],
)
def test_a_wrong_name_is_told_which_there_are(arguments: dict[str, str], message: str) -> None:
    """Names of endpoints and profiles come from the spec."""
    with pytest.raises(ValueError, match=message):
        mindspec_client.breaches(CHAT, **arguments)


def test_the_corpus_follows_its_schema() -> None:
    """The file, with its version made of the spec's and a hash of the cases."""
    data = json.loads(PATH.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))).validate(data)
    assert data["version"].startswith(contract_of().document.data["info"]["version"] + "+")
    assert len(data["cases"]) == len(mindspec_client.corpus().cases)


def test_the_schema_of_the_corpus_refuses_what_is_none() -> None:
    """A refused case without a code, an accepted one with a code, an unknown operation."""
    check = jsonschema.Draft202012Validator(json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))).is_valid
    data = json.loads(PATH.read_text(encoding="utf-8"))
    inside, outside = (next(c for c in data["cases"] if c["group"] == group) for group in ("inside", "outside"))
    bare = {key: value for key, value in outside.items() if key != "code"}
    for wrong in (bare, {**inside, "code": "missing"}, {**inside, "operation": "make_tea"}):
        assert not check({**data, "cases": [wrong]})


def test_the_cases_of_an_endpoint_are_what_the_client_says_of_them() -> None:
    """Each whole body gets the verdict, code and path that its case foretells."""
    corpus = mindspec_client.corpus()
    for case in corpus.of("completions"):
        found = mindspec_client.breaches(case.body, "completions", profile=corpus.deployment(case))
        assert [(b.law, b.field) for b in found[:1]] == ([(case.code, case.param)] if case.code else [])
    kept = list(corpus.of("chat", group="rule-bad", profile="deepseek"))
    assert {case.subject for case in kept} == {f"deepseek-excludes-{name}" for name in ("n", "best-of", "beams")}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_drawn_requests_are_what_they_are_said_to_be(endpoint: str, profile: str) -> None:
    """Valid ones have no breach; invalid ones exactly one, as foretold, and their neighbour none."""

    @SOME
    @given(valid_requests(endpoint, profile=profile), invalid_requests(endpoint, profile=profile))
    def holds(valid: dict[str, object], wrong: Invalid) -> None:
        assert mindspec_client.breaches(valid, endpoint, profile=profile) == []
        assert mindspec_client.breaches(wrong.valid, endpoint, profile=profile) == []
        found = mindspec_client.breaches(json.loads(json.dumps(wrong.body)), endpoint, profile=profile)
        assert [(breach.law, breach.field) for breach in found] == [(wrong.code, wrong.param)]

    holds()


def test_invalid_requests_break_fields_and_rules_of_every_kind() -> None:
    """Of 400 draws many break a rule, many a field, in many places."""
    seen: set[tuple[str, str | None]] = set()

    @settings(SOME, max_examples=400, derandomize=True)
    @given(invalid_requests("chat"))
    def collect(wrong: Invalid) -> None:
        seen.add((wrong.code, wrong.param))

    collect()
    assert len({code for code, _ in seen if "-" in code}) >= 12
    assert {"missing", "wrong_type", "out_of_range", "too_long"} & {code for code, _ in seen} >= {"wrong_type"}
    assert len({param for _, param in seen}) >= 25


def test_the_plugin_loads_neither_models_nor_hypothesis() -> None:
    """pytest loads it at every start."""
    code = "import sys, mindspec_client.pytest_plugin; print({'pydantic', 'hypothesis'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools" / "client")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_running_server_is_used_as_it_is() -> None:
    """With or without the path that the openai package wants."""
    for url in ("http://127.0.0.1:1025", "http://127.0.0.1:1025/", "http://127.0.0.1:1025/v1"):
        assert mock.running(url).base_url == "http://127.0.0.1:1025/v1"
    with pytest.raises(ValueError, match="it must be like http"):
        mock.running("127.0.0.1:1025")


def test_a_mock_finds_its_own_packages_first(tmp_path: Path) -> None:
    """A folder on PYTHONPATH with a package of one of the server's names is left out, others stay."""
    (tmp_path / "theirs" / "tools").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    path = os.pathsep.join([str(tmp_path / "theirs"), str(tmp_path / "other")])
    made = mock.environment({"PYTHONPATH": path, "HOME": "x"})
    assert made == {"HOME": "x", "PYTHONSAFEPATH": "1", "PYTHONPATH": str(tmp_path / "other")}


def test_package_and_spec_have_one_version() -> None:
    """The package is the contract's, so it has its version."""
    project = tomllib.loads((ROOT / "tools" / "client" / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == contract_of().document.data["info"]["version"]


def test_a_module_that_needs_the_server_cannot_be_carried_over() -> None:
    """The generator stops, and names the import."""
    with pytest.raises(RuntimeError, match=r"a\.py cannot go to mindspec_client: from handlers.app import x"):
        carried("from tools.contract.values import expand\nfrom handlers.app import x\n", "a.py")
