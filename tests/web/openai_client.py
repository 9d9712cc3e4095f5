"""The Python client `openai` through the same paces as openai_client.mjs; gives what it saw in the same shape."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import openai

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
MESSAGES: list[Any] = [{"role": "user", "content": "who are you"}]


def mock(wish: str) -> dict[str, Any]:
    """Headers that make the mock answer so."""
    return {"extra_headers": {"X-Mock": wish}}


def error_of(call: Callable[[], Any]) -> dict[str, Any] | None:
    """The class, status and contract's code of the error that a call ends in."""
    try:
        call()
    except openai.APIError as error:
        body = error.body if isinstance(error.body, dict) else {}
        code = error.code or body.get("code")
        return {"kind": type(error).__name__, "status": getattr(error, "status_code", None), "code": code}
    return None


def paces(address: str, model: str) -> dict[str, Any]:
    """Everything that the client is used for, against one server."""
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=30) as client:
        return {**_chat(client, model), **_more(client, model), **_faults(client, model)}


def _asked(model: str, **more: Any) -> dict[str, Any]:
    free = {"extra_body": {"ignore_eos": True}}
    return {"model": model, "messages": MESSAGES, "max_tokens": 6, "temperature": 0, **free, **more}


def _chat(client: openai.OpenAI, model: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    create: Any = client.chat.completions.create
    whole = create(**_asked(model))
    choice = whole.choices[0]
    seen["whole"] = {
        "object": whole.object,
        "role": choice.message.role,
        "finish": choice.finish_reason,
        "tokens": whole.usage.completion_tokens,
    }
    events = list(create(**_asked(model, stream=True)))
    deltas = [event.choices[0].delta for event in events]
    finishes = [event.choices[0].finish_reason for event in events]
    seen["stream"] = {
        "same": "".join(delta.content or "" for delta in deltas) == choice.message.content,
        "opening": [deltas[0].role, deltas[0].content],
        "finishes": [reason for reason in finishes if reason is not None],
        "tokens": events[-1].usage.completion_tokens,
    }
    two = create(**_asked(model, temperature=0.8, n=2, seed=7))
    seen["choices"] = [one.index for one in two.choices]
    short = _asked(model, extra_body={}) | mock("finish=stop, tokens=4")
    with client.chat.completions.stream(**short) as helper:
        content = helper.get_final_completion().choices[0].message.content
    seen["helper"] = bool(content) and content == create(**short).choices[0].message.content
    shown = create(**_asked(model, logprobs=True, top_logprobs=3)).choices[0].logprobs.content
    seen["logprobs"] = {
        "tokens": len(shown),
        "candidates": sorted({len(token.top_logprobs) for token in shown}),
        "greedy": all(token.token == token.top_logprobs[0].token for token in shown),
    }
    return seen


def _more(client: openai.OpenAI, model: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    create, complete = client.chat.completions.create, client.completions.create
    text: dict[str, Any] = {"model": model, "prompt": "who are you", "max_tokens": 5, "temperature": 0}
    text["extra_body"] = {"ignore_eos": True}
    continued: Any = complete(**text, logprobs=2)
    pieces: Any = list(complete(**text, stream=True))
    seen["completions"] = {
        "same": "".join(event.choices[0].text for event in pieces) == continued.choices[0].text,
        "offset": continued.choices[0].logprobs.text_offset[0],
        "tokens": len(continued.choices[0].logprobs.tokens),
    }
    asked: dict[str, Any] = {"model": model, "messages": MESSAGES, "tools": TOOLS, "max_tokens": 200}
    asked |= mock("finish=tool_calls")
    called: list[Any] = [create(**asked)]
    with client.chat.completions.stream(**asked) as helper:
        called.append(helper.get_final_completion())
    seen["tools"] = [
        {
            "finish": answer.choices[0].finish_reason,
            "name": answer.choices[0].message.tool_calls[0].function.name,
            "city": _kind(json.loads(answer.choices[0].message.tool_calls[0].function.arguments)["city"]),
        }
        for answer in called
    ]
    schema = TOOLS[0]["function"]["parameters"]
    form: Any = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    held = create(model=model, messages=MESSAGES, max_tokens=200, response_format=form)
    seen["json"] = _kind(json.loads(held.choices[0].message.content or "")["city"])
    seen["models"] = [one.id for one in client.models.list()]
    return seen


def _faults(client: openai.OpenAI, model: str) -> dict[str, Any]:
    create: Any = client.chat.completions.create
    seen: dict[str, Any] = {}
    seen["errors"] = {
        "range": error_of(lambda: create(**_asked(model, temperature=-1))),
        "rule": error_of(lambda: create(**_asked(model, stream=True, logprobs=False, top_logprobs=2))),
        "model": error_of(lambda: client.models.retrieve("someone-else")),
        "busy": error_of(lambda: create(**_asked(model), **mock("status=429"))),
        "loading": error_of(lambda: create(**_asked(model), **mock("status=503"))),
        "engine": error_of(lambda: create(**_asked(model), **mock("error-after=2"))),
    }
    whole = len(list(create(**_asked(model, stream=True))))

    def broken(wish: str) -> dict[str, bool]:
        events: list[Any] = []
        failed = False
        try:
            events.extend(create(**_asked(model, stream=True), **mock(wish)))
        except Exception:  # httpx's own where the connection is cut
            failed = True
        return {"some": bool(events), "whole": len(events) >= whole, "failed": failed}

    seen["failed"], seen["cut"] = broken("error-after=3"), broken("disconnect-after=3")
    long = create(**_asked(model, max_tokens=200, stream=True), **mock("slow-token=20ms"))
    before = [event for event, _ in zip(long, range(3), strict=False)]
    long.close()
    after = create(**_asked(model)).choices[0].finish_reason
    seen["abort"] = {"before": len(before), "after": after}
    return seen


def _kind(value: Any) -> str:
    return {str: "string"}.get(type(value), type(value).__name__)
