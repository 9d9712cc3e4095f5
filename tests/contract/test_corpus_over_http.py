"""The whole corpus over HTTP against the mock: just inside is answered, just outside is refused by name."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from wire import CHAT, COMPLETIONS, JSON_TYPE, ClientFor, check_error, refused

from generated.rules import RULES
from tools.contract.corpus import Case, load_corpus
from tools.contract.values import expand

ROOT = Path(__file__).parents[2]
PATHS = {"create_chat_completion": CHAT, "create_completion": COMPLETIONS}
ADAPTER_PATHS = {"load_lora_adapter": "/v1/load_lora_adapter", "unload_lora_adapter": "/v1/unload_lora_adapter"}
OTHER_PATHS = {"count_tokens": "/v1/tokenizer", "stop_inference": "/v2/models/mock/stopInfer"}
ALL_CASES = load_corpus(ROOT / "generated" / "corpus.json")
CASES = [case for case in ALL_CASES if case.operation in PATHS]
ADAPTER_CASES = [case for case in ALL_CASES if case.operation in ADAPTER_PATHS]
OTHER_CASES = [case for case in ALL_CASES if case.operation in OTHER_PATHS]
MANY_BYTES = 3 * 4194304
"""A body this long holds or makes the longest text allowed, where a token a character is above the 1048576 tokens."""
MEDIA = ("image_url", "video_url", "audio_url", "input_audio")


def name(case: Case) -> str:
    """A short test id."""
    return f"{case.operation}-{case.group}-{case.subject}"


def has_media(case: Case) -> bool:
    """Whether a message of the case carries a media payload, which the mock, a text model, refuses by name."""
    messages = case.body.get("messages") if isinstance(case.body, dict) else None
    contents = [message.get("content") for message in messages or [] if isinstance(message, dict)]
    parts = [part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict)]
    return any(part.get(kind) is not None for part in parts for kind in MEDIA)


def unsupported(body: dict[str, Any]) -> str | None:
    """The member of an accepted body that the mock's engine cannot carry out, and refuses by name."""
    form = (body.get("response_format") or {}).get("json_schema") or {}
    if "anything" in form.get("schema", {}):
        return "response_format.json_schema.schema.anything"  # no keyword of JSON Schema
    if "thinking_budget" in (body.get("chat_template_kwargs") or {}):
        return "chat_template_kwargs.thinking_budget"
    return None


def settings(case: Case) -> dict[str, Any]:
    """A deployment in which nothing but the contract can refuse, in the form that the case needs."""
    form = {"open_ai_support": "openai"} if case.deployment.get("openai_form") else {}
    return {"max_n": 8192, "max_iter_times": 8, **form}


def profile(case: Case) -> frozenset[str]:
    """The mock's profile: features, and the model family by its name."""
    family = case.deployment.get("model_type")
    return frozenset(case.deployment.get("features", ())) | ({family} if family else frozenset())


@pytest.mark.parametrize("case", [case for case in CASES if case.accepted], ids=name)
def test_what_the_contract_allows_is_answered(case: Case, client_for: ClientFor) -> None:
    """200 for every accepted case; media parts are refused by name, since the mock is a text model."""
    body = expand(case.body)
    client = client_for(profile(case), model_name=body["model"], **settings(case))
    answer = client.post(
        PATHS[case.operation], content=json.dumps(body, ensure_ascii=False).encode(), headers=JSON_TYPE
    )
    if (member := unsupported(body)) is not None:
        error = json.loads(answer.content)
        assert (answer.status_code, error["code"], error["param"]) == (422, "unsupported", member), error
        return
    if has_media(case):
        error = json.loads(answer.content)
        assert (answer.status_code, error["code"]) == (422, "unsupported_media"), error
        return
    if answer.status_code == 424 and len(json.dumps(body).encode()) > MANY_BYTES:
        assert json.loads(answer.content)["code"] == "prompt_too_long"  # the contract's other limit, 1048576 tokens
        return
    if case.subject == "prompt[]" and answer.status_code == 424:
        error = json.loads(answer.content)  # the contract allows any integer, a vocabulary does not
        assert (error["code"], error["param"]) == ("invalid_token_id", "prompt"), error
        return
    assert answer.status_code == 200, answer.text[:500]


@pytest.mark.parametrize("case", [case for case in CASES if not case.accepted], ids=name)
def test_what_the_contract_refuses_is_a_422_that_names_the_member(case: Case, client_for: ClientFor) -> None:
    """422 with the case's code and param, and a sentence that names the member."""
    body = expand(case.body)
    client = client_for(profile(case), model_name="mock", **settings(case))
    answer = client.post(
        PATHS[case.operation], content=json.dumps(body, ensure_ascii=False).encode(), headers=JSON_TYPE
    )
    assert answer.status_code == 422, answer.text[:500]
    check_error(
        answer, refused(422, case.code, case.param), name(case), openai_form=bool(case.deployment.get("openai_form"))
    )


@pytest.mark.parametrize("case", ADAPTER_CASES, ids=name)
def test_bodies_about_adapters_are_checked_before_anything_is_loaded(case: Case, client_for: ClientFor) -> None:
    """422 with the member for what the contract refuses; the rest gets as far as the setting that is off."""
    answer = client_for(model_name="mock").post(ADAPTER_PATHS[case.operation], json=expand(case.body))
    expected = refused(404, "not_found", None) if case.accepted else refused(422, case.code, case.param)
    check_error(answer, expected, name(case))


@pytest.mark.parametrize("case", OTHER_CASES, ids=name)
def test_bodies_of_the_other_endpoints_are_held_to_the_contract(case: Case, client_for: ClientFor) -> None:
    """422 with the member for what the contract refuses; the rest is counted, or names a request that is not there."""
    answer = client_for(model_name="mock").post(OTHER_PATHS[case.operation], json=expand(case.body))
    if not case.accepted:
        check_error(answer, refused(422, case.code, case.param), name(case))
    elif case.operation == "stop_inference":
        check_error(answer, refused(404, "not_found", "id"), name(case))
    else:
        assert answer.status_code == 200, answer.text[:500]


def test_the_corpus_covers_every_operation_with_a_body() -> None:
    """No case is left out above."""
    assert {case.operation for case in ALL_CASES} == {*PATHS, *ADAPTER_PATHS, *OTHER_PATHS}


def test_the_corpus_is_as_large_as_it_must_be() -> None:
    """At least 137 values inside and 430 outside, and a witness for every rule of every request."""
    groups = Counter(case.group for case in CASES)
    assert groups["inside"] >= 137
    assert groups["outside"] >= 430
    assert {case.code for case in CASES if case.group == "rule-bad"} == set(RULES)
