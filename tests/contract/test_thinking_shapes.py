"""The contract's shapes of answers with thinking and tool calls, whole and streamed, in both forms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from in_process import InProcessApp
from scripted_models import scripted_service, template_of
from shapes import check_chat, check_completion
from stream_shapes import check_chat_stream, check_completion_stream, read_stream

from engine.text.parsers.hermes import HERMES

CALL = HERMES.write("get_weather", {"city": "北京"})
REPLIES = {
    "plain": "<think>\nHm.\n</think>\n\nYes.",
    "call": f"<think>\nHm.\n</think>\n\nOne moment.\n{CALL}\n",
    "two": f"<think>Hm.</think>{CALL}\nand\n{CALL}",
}
TOOLS = [{"type": "function", "function": {"name": "get_weather"}}]

Ask = Callable[..., Any]


@pytest.fixture
def ask(loop_thread: asyncio.AbstractEventLoop) -> Iterator[Ask]:
    """Sends one request to a model that thinks and then writes the named reply."""
    apps: list[InProcessApp] = []

    def send(path: str, reply: str, settings: dict[str, Any], **body: Any) -> Any:
        template = template_of(HERMES) + "{#- </think> -#}"
        service = scripted_service(lambda _: REPLIES[reply], template, **settings)
        apps.append(InProcessApp(service, loop_thread))
        return apps[-1].post(path, json={"model": "scripted", **body})

    yield send
    for app in apps:
        app.close()


MESSAGES = {"messages": [{"role": "user", "content": "Hi"}]}
FORMS = pytest.mark.parametrize("form", ["vllm", "openai"])
REPLY = pytest.mark.parametrize("reply", REPLIES)


@FORMS
@REPLY
def test_whole_chat(ask: Ask, form: str, reply: str) -> None:
    """Key order of the message and of usage; tool_calls end with tool_calls, their arguments are JSON."""
    answer = ask("/v1/chat/completions", reply, {"open_ai_support": form}, tools=TOOLS, **MESSAGES)

    check_chat(answer.json(), thinking=True)
    assert list(answer.json()["choices"][0]["message"])[2] == "reasoning_content"


@FORMS
@REPLY
@pytest.mark.parametrize("full_text", [True, False])
def test_streamed_chat(ask: Ask, form: str, reply: str, full_text: bool) -> None:
    """The same for events; the text of all of them is the content of the whole answer."""
    settings = {"open_ai_support": form, "full_text_enabled": full_text}
    whole = ask("/v1/chat/completions", reply, settings, tools=TOOLS, **MESSAGES).json()
    stream = ask("/v1/chat/completions", reply, settings, tools=TOOLS, stream=True, **MESSAGES)

    texts = check_chat_stream(read_stream(stream), thinking=True, openai_form=form == "openai", full_text=full_text)
    assert texts == [whole["choices"][0]["message"]["content"]]


@pytest.mark.parametrize("stream", [True, False])
def test_completions(ask: Ask, stream: bool) -> None:
    """Usage tells thinking tokens there too."""
    answer = ask("/v1/completions", "plain", {}, prompt="Hi", stream=stream)

    if stream:
        assert check_completion_stream(read_stream(answer), thinking=True) == [REPLIES["plain"]]
    else:
        check_completion(answer.json(), thinking=True)
