"""Random valid requests drawn from the spec: all are answered, and every answer and event is what the spec says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire import CHAT, COMPLETIONS, JSON_TYPE, ClientFor

from tools.contract.committed import contract_of
from tools.contract.strategy import valid_requests

SPEC = Path(__file__).parents[2] / "spec" / "openapi.yaml"
SCHEMAS = yaml.safe_load(SPEC.read_text(encoding="utf-8"))["components"]["schemas"]
OPERATIONS = {
    "create_chat_completion": (CHAT, "ChatCompletion", "ChatCompletionEvent"),
    "create_completion": (COMPLETIONS, "Completion", "CompletionEvent"),
}
MEDIA = ("image_url", "video_url", "audio_url", "input_audio")
MOST_CHOICES = 64
"""Wider requests are tried by the corpus; here they would only cost time."""


def validator(schema: str) -> Any:
    """A validator of one schema of the hand-written spec, by a library that shares no code with the generator."""
    schemas = json.loads(json.dumps(SCHEMAS).replace("#/components/schemas/", "#/$defs/"))
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{schema}", "$defs": schemas})


PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ROLES = ("system", "user", "assistant", "tool", "developer", "critic")


def realistic(body: dict[str, Any]) -> dict[str, Any]:
    """The body with templates, roles and functions that a grammar holds an answer to (strict ones, and all where a call
    is enforced) as the spec's examples have them: random text is no template, a template that leaves a role out refuses
    it, and most schemas that can be drawn are beyond a grammar."""
    made = dict(body)
    if made.get("tools"):
        enforced = made.get("tool_choice") not in (None, "none", "auto")
        made["tools"] = [
            {**tool, "function": {**tool["function"], "parameters": PARAMETERS}}
            if enforced or tool["function"].get("strict")
            else tool
            for tool in made["tools"]
        ]
    if made.get("chat_template") is not None:
        made["chat_template"] = SCHEMAS["ChatCompletionRequest"]["properties"]["chat_template"]["examples"][0]
    if "messages" in made:
        made["messages"] = [
            {**message, "role": message["role"] if message["role"] in ROLES else "critic"}
            for message in made["messages"]
        ]
    return made


def plain(body: dict[str, Any]) -> bool:
    """Whether the mock answers the body: no media, no schema, no bound on thinking, few choices, ids that it has."""
    contents = [message.get("content") for message in body.get("messages", [])]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    if any(part.get(kind) is not None for part in parts for kind in MEDIA):
        return False
    form = (body.get("response_format") or {}).get("type", "text")
    if form == "json_schema" or (form == "json_object" and body.get("use_beam_search")):
        return False  # most schemas that can be drawn have keywords that no grammar holds, and beams have none
    if "thinking_budget" in (body.get("chat_template_kwargs") or {}):
        return False
    prompt = body.get("prompt")
    if isinstance(prompt, list) and not all(0 <= token < 700 for token in prompt):
        return False
    return max(body.get("n") or 1, body.get("best_of") or 1) <= MOST_CHOICES


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_thousand_valid_requests_are_answered_as_the_spec_says(operation: str, client_for: ClientFor) -> None:
    """200 for each of 1,000 drawn requests; the answer, or each of its events, validates against the spec."""
    path, answer_schema, event_schema = OPERATIONS[operation]
    check_answer, check_event = validator(answer_schema), validator(event_schema)
    client = client_for(model_name="mock", max_n=8192, max_iter_times=8)
    answered = {"whole": 0, "stream": 0}

    @settings(max_examples=1000, deadline=None, database=None, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(
        body=valid_requests(operation, contract=contract_of(SPEC)).filter(plain).map(realistic), stream=st.booleans()
    )
    def send(body: dict[str, Any], stream: bool) -> None:
        body["model"] = "mock"
        if stream and body.get("best_of") is None:
            body["stream"] = True
        sent = json.dumps(body, ensure_ascii=False).encode()
        answer = client.post(path, content=sent, headers=JSON_TYPE)
        assert answer.status_code == 200, f"{sent[:2000]!r}: {answer.text[:500]}"
        if not body.get("stream"):
            check_answer.validate(json.loads(answer.content))
            answered["whole"] += 1
            return
        events = answer.text.removesuffix("\n\n").split("\n\n")
        assert events[-1] == "data: [DONE]"
        for event in events[:-1]:
            check_event.validate(json.loads(event.removeprefix("data: ")))
        answered["stream"] += 1

    send()
    assert answered["whole"] >= 250
    assert answered["stream"] >= 250
    assert sum(answered.values()) >= 1000
