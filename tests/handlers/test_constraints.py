"""What a request holds its answer to: the mock writes an answer under it over HTTP, what cannot be held is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from in_process import started

from engine.types import AnswerForm
from generated.models import ChatCompletionRequest, CompletionRequest
from handlers.constraints import held_chat, held_completion
from handlers.errors import Problem
from handlers.schema_pool import Asked, SchemaPool
from handlers.service import Service
from handlers.settings import Settings

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
HELLO: dict[str, Any] = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}
PROMPT: dict[str, Any] = {"model": "mock", "prompt": "Hi"}
DAYS: dict[str, Any] = {
    "type": "object",
    "properties": {"days": {"type": "integer", "minimum": 1}, "unit": {"enum": ["c", "f"]}},
    "required": ["days", "unit"],
}
ServiceFor = Callable[..., Service]


def tool(name: str = "f", **function: Any) -> dict[str, Any]:
    """A tool of this name."""
    return {"type": "function", "function": {"name": name, **function}}


def form(schema: Any = None, **members: Any) -> dict[str, Any]:
    """A response_format: any object, or a schema's."""
    if schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, **members}}


def chat(**members: Any) -> ChatCompletionRequest:
    """A validated chat request."""
    return ChatCompletionRequest.model_validate_json(json.dumps({**HELLO, **members}))


def real(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service whose engine is not told its words."""
    monkeypatch.setattr(service.front, "forces_tool_calls", False)
    return service


@pytest.mark.parametrize(("path", "body"), [(CHAT, HELLO), (COMPLETIONS, PROMPT)])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_mock_answers_in_the_form_asked_for(
    service_for: ServiceFor, path: str, body: dict[str, Any], stream: bool
) -> None:
    """On both endpoints, whole and streamed: an object, or JSON that validates."""
    async with started(service_for(max_iter_times=200)) as client:
        for wanted, schema in ((form(), {"type": "object"}), (form(DAYS), DAYS), (form(DAYS, strict=True), DAYS)):
            sent = {**body, "response_format": wanted, "stream": stream}
            answer = await client.post(path, json=sent)
            assert answer.status_code == 200, answer.text
            bodies = (
                [json.loads(line[6:]) for line in answer.text.split("\n\n") if line[:6] == "data: " and line[6] == "{"]
                if stream
                else [answer.json()]
            )
            choices = [one["choices"][0] for one in bodies]
            parts = [
                choice.get("message") or choice.get("delta") or {"content": choice.get("text")} for choice in choices
            ]
            jsonschema.validate(json.loads("".join(part.get("content") or "" for part in parts)), schema)
            assert choices[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        (
            {
                "tools": [
                    tool(),
                    tool("g", strict=True, parameters={"type": "object", "properties": {"a": {"not": {}}}}),
                ]
            },
            "tools[1].function.parameters.properties.a.not",
        ),
        (
            {"tools": [tool(parameters={"type": "array"})], "tool_choice": "required"},
            "tools[0].function.parameters.type",
        ),
        ({"response_format": form({"$ref": "#"})}, "response_format.json_schema.schema.$ref"),
        ({"response_format": form({"type": "strin"})}, "response_format.json_schema.schema.type"),
        ({"response_format": form(), "use_beam_search": True}, "use_beam_search"),
        ({"response_format": form({"const": "x" * 300_000})}, "response_format.json_schema.schema"),
    ],
)
async def test_what_cannot_be_held_is_refused_by_name(
    service_for: ServiceFor, members: dict[str, Any], param: str
) -> None:
    """422 unsupported with the path; nothing reaches the engine."""
    async with started(service_for()) as client:
        answer = await client.post(CHAT, json={**HELLO, **members})

    error = answer.json()
    assert (answer.status_code, error["code"], error["param"]) == (422, "unsupported", param)
    assert param in error["error"]


async def test_strict_tools_that_are_not_called_leave_the_mocks_text_as_it_is(service_for: ServiceFor) -> None:
    """With auto it writes free text, in which there is no call."""
    async with started(service_for()) as client:
        sent = {**HELLO, "tools": [tool(strict=True, parameters=DAYS)], "temperature": 0}
        answer = (await client.post(CHAT, json=sent)).json()["choices"][0]["message"]

    assert answer["tool_calls"] == []
    assert answer["content"]


@pytest.mark.parametrize(
    ("members", "parts"),
    [
        ({}, None),
        ({"tools": [tool()]}, None),
        ({"tools": [tool(strict=True)], "tool_choice": "none"}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"tools": [tool()], "tool_choice": "required"}, "start: section"),
        ({"tools": [tool(strict=True)]}, "start: free"),
        ({"tools": [tool()], "response_format": form()}, "start: section | schema_1"),
        ({"tools": [tool()], "tool_choice": "required", "response_format": form()}, "start: section"),
        ({"response_format": form()}, "start: schema_0"),
    ],
)
async def test_what_is_held_follows_from_the_fields(
    service_for: ServiceFor, monkeypatch: pytest.MonkeyPatch, members: dict[str, Any], parts: str | None
) -> None:
    """Only where something asks for it, and calls alone where they are required."""
    service = real(service_for(), monkeypatch)
    held = await held_chat(service, chat(**members), None)
    await service.close()

    assert held.text is None
    assert (held.grammar and held.grammar.splitlines()[0]) == parts


async def test_a_named_tool_is_the_only_one(service_for: ServiceFor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are not in the grammar, and their schemas are not looked at."""
    service = real(service_for(), monkeypatch)
    tools = [tool("bad", parameters={"not": {}}), tool("good", parameters=DAYS)]
    choice = {"type": "function", "function": {"name": "good"}}
    held = await held_chat(service, chat(tools=tools, tool_choice=choice), None)
    await service.close()

    assert held.grammar is not None
    assert '\\"good\\"' in held.grammar
    assert "bad" not in held.grammar


@pytest.mark.parametrize(
    ("answer_form", "start"),
    [
        (AnswerForm(thinking="qwen3", thinking_open=None), 'start: body | "<think>" thought body'),
        (AnswerForm(thinking="qwen3", thinking_open=True), "start: thought body"),
        (AnswerForm(thinking="qwen3", thinking_open=False), "start: schema_0"),
        (AnswerForm(thinking="deepseek_r1", thinking_open=None), "start: thought body"),
    ],
)
async def test_the_form_is_asked_of_what_follows_thinking(
    service_for: ServiceFor, monkeypatch: pytest.MonkeyPatch, answer_form: AnswerForm, start: str
) -> None:
    """Thinking that the prompt began, closed, or left to the model."""
    service = real(service_for(), monkeypatch)
    held = await held_chat(service, chat(response_format=form()), answer_form)
    body = CompletionRequest.model_validate_json(json.dumps({**PROMPT, "response_format": form()}))
    continued = await held_completion(service, body, replace(answer_form, count_only=True))
    await service.close()

    assert held.grammar is not None
    assert held.grammar.splitlines()[0] == start
    assert continued.grammar is not None
    begun = answer_form.thinking_open is True
    assert continued.grammar.splitlines()[0] == ("start: thought body" if begun else "start: schema_0")


@pytest.mark.parametrize("parser", ["none", "chatglm3"])
async def test_calls_that_no_grammar_holds_are_not_promised(service_for: ServiceFor, parser: str) -> None:
    """A deployment that reads no calls, and a family whose calls are no JSON: 422 by the field's name."""
    service = service_for(tool_parser=parser)
    for members, param in (
        ({"tools": [tool()], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [tool(), tool("g", strict=True)]}, "tools[1].function.strict"),
    ):
        with pytest.raises(Problem) as caught:
            await held_chat(service, chat(**members), None)
        assert (caught.value.status, caught.value.code, caught.value.param) == (422, "unsupported", param)
    await service.close()


async def test_a_schema_is_read_once() -> None:
    """The answer is kept, also a refusal; the second request asks no process."""
    pool = SchemaPool(Settings(model_name="m"))
    asked = [Asked(DAYS, "p", closed=False, arguments=False)]
    first = await pool.made("start: schema_0", asked, examples=False)
    await pool.close()

    again = await pool.made("start: schema_0", asked, examples=False)

    assert again == first
    assert pool._workers._idle == []


async def test_a_schema_that_takes_too_long_is_refused_and_its_process_killed() -> None:
    """The limit is named; the next schema gets a new process."""
    pool = SchemaPool(Settings(model_name="m", schema_time_s=1e-9))
    with pytest.raises(Problem) as caught:
        await pool.made("start: schema_0", [Asked(DAYS, "p", closed=False, arguments=False)], examples=False)
    await pool.close()

    assert caught.value.message == "p takes longer than the 1e-09 seconds allowed to compile"
