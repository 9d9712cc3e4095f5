"""Schemathesis checks that know the cross-field rules and the events: a refusal has a known reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import schemathesis
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from generated.rules import RULES

SPEC_FILE = Path(__file__).parents[2] / "spec" / "openapi.yaml"
SPEC = yaml.safe_load(SPEC_FILE.read_text(encoding="utf-8"))
REGISTRY: Registry[Any] = Registry().with_resource("urn:spec", Resource(contents=SPEC, specification=DRAFT202012))
BODY_SCHEMAS = {
    "/v1/chat/completions": "ChatCompletionRequest",
    "/v1/completions": "CompletionRequest",
    "/v1/tokenizer": "TokenizerRequest",
    "/v2/models/{model}/stopInfer": "StopInferenceRequest",
    "/v1/load_lora_adapter": "LoadLoraAdapterRequest",
    "/v1/unload_lora_adapter": "UnloadLoraAdapterRequest",
}

DEPLOYMENT_CODES = {
    "unknown_model": "negative data names models that are not deployed",
    "unsupported": "no grammar holds a random schema, and the mock ends no thought early",
    "unsupported_media": "the mock is a text model",
    "template_error": "the request's own template is random text, which Jinja or the template itself refuses",
    "invalid_token_id": "a random id is outside the mock's vocabulary",
    "prompt_too_long": "a random prompt can be longer than the mock's context",
    "json_invalid": "JSON that JSON Schema cannot see into: a duplicate key, half of a surrogate pair",
    "too_deep": "deeper nesting than maxJsonDepth",
}
"""Codes that a body which the schema allows may still get, each with the reason."""


EVENT_SCHEMAS = {"/v1/chat/completions": "ChatCompletionEvent", "/v1/completions": "CompletionEvent"}


def schema_allows(path: str, body: Any) -> bool:
    """Whether the hand-written schema of ``path``, read by the jsonschema package, allows ``body``."""
    return bool(validator(BODY_SCHEMAS[path]).is_valid(body))


def validator(schema: str) -> Draft202012Validator:
    """The jsonschema package's reading of one schema of the spec."""
    return Draft202012Validator({"$ref": f"urn:spec#/components/schemas/{schema}"}, registry=REGISTRY)


@schemathesis.check
def every_event_is_in_the_spec(ctx: Any, response: Any, case: Any) -> None:
    """Each event of a stream validates against the schema of one event, and [DONE] is the last."""
    path = case.operation.path
    media = response.headers.get("content-type", [""])[0]
    if response.status_code != 200 or not media.startswith("text/event-stream"):
        return
    events = response.content.decode().removesuffix("\n\n").split("\n\n")
    assert events.pop() == "data: [DONE]", "the stream does not end with [DONE]"
    for event in events:
        validator(EVENT_SCHEMAS[path]).validate(json.loads(event.removeprefix("data: ")))


@schemathesis.check
def refused_only_for_a_known_reason(ctx: Any, response: Any, case: Any) -> None:
    """A body that the schema allows is answered with 200, or refused by a rule id or a code of DEPLOYMENT_CODES."""
    path = case.operation.path
    if path not in BODY_SCHEMAS or response.request.method != "POST" or response.status_code in (404, 405, 415):
        return
    sent = response.request.body
    try:
        body = json.loads(sent)
    except (ValueError, TypeError):
        assert response.status_code == 422, f"no JSON, but {response.status_code}"
        return
    if not schema_allows(path, body):
        assert response.status_code in (413, 422), (
            f"the schema refuses this body, the server says {response.status_code}"
        )
        return
    if response.status_code == 200:
        return
    code = response.json()["code"]
    assert code in RULES or code in DEPLOYMENT_CODES, f"{response.status_code} {code}: {response.json()['error']}"
