"""The application of `mindspec mock` without a socket, with or without a script."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from in_process import started

from engine.mock_front import MockFront
from engine.text.byte_tokenizer import mock_tokenizer
from handlers.service import Service
from handlers.settings import Settings
from tools.mock.app import mock_app
from tools.mock.script import Script, read_script

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def written(folder: Path, script: Any, name: str = "script.json") -> Path:
    """A script file: text as it is, anything else as JSON."""
    path = folder / name
    path.write_text(script if isinstance(script, str) else json.dumps(script), encoding="utf-8")
    return path


def read(folder: Path, *rules: Any) -> Script:
    """A script of these rules."""
    return read_script(written(folder, {"rules": list(rules)}), Settings("mock").deployment())


@asynccontextmanager
async def mock_client(script: Script | None = None, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a mock that thinks if its script does."""
    marks = ("<think>", "</think>") if script is not None and script.thinks else ()
    chosen = {"model_name": "mock", "reasoning_parser": "qwen3" if marks else "auto", **settings}
    service = Service(Settings(**chosen), MockFront(mock_tokenizer(special_tokens=marks)))
    async with started(service, partial(mock_app, script=script)) as client:
        yield client


async def ask(client: httpx.AsyncClient, mock: str | None = None, /, url: str = CHAT, **body: Any) -> httpx.Response:
    """One request; ``mock`` is the header's value."""
    subject = {"messages": [{"role": "user", "content": "Hello"}]} if url == CHAT else {"prompt": "Hello"}
    headers = {} if mock is None else {"X-Mock": mock}
    return await client.post(url, json={"model": "mock", **subject, **body}, headers=headers)


def answered(answer: httpx.Response) -> list[Any]:
    """What does not depend on ids and times: the choices of a whole answer, and its token counts."""
    assert answer.status_code == 200, answer.text
    whole = answer.json()
    for choice in whole["choices"]:
        for call in choice.get("message", {}).get("tool_calls", []):
            del call["id"]
    usage = whole["usage"]
    return [whole["choices"], usage["prompt_tokens"], usage["completion_tokens"]]


def events(answer: httpx.Response) -> list[Any]:
    """The events of a stream as JSON, without the last line."""
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]
