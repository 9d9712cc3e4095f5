"""Conversations with tools and thinking through OpenAI's own client, for every family, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from in_process import started
from scripted_models import Script, scripted_service, template_of

from engine.text.parsers import TOOL_FAMILIES, tool_family_seen_in
from engine.text.parsers.family import ToolFamily
from handlers.service import Service

QUESTION = {"role": "user", "content": "How warm is it in Beijing and in Paris?"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
THOUGHT = "I need the weather.\n\nTwice."


def calls_of(family: ToolFamily, *cities: str) -> str:
    """The text of calls for these cities."""
    calls = [family.head_of("get_weather") + family.arguments_as({"city": city}) + family.tail for city in cities]
    return family.opens + family.between.join(calls) + family.closes


@asynccontextmanager
async def client_of(service: Service) -> AsyncIterator[openai.AsyncOpenAI]:
    """OpenAI's client on the application itself."""
    async with started(service) as http:
        yield openai.AsyncOpenAI(base_url="http://in-process/v1", api_key="none", http_client=http, max_retries=0)


async def whole(client: openai.AsyncOpenAI, **body: Any) -> tuple[dict[str, Any], str, Any]:
    """Message, finish reason and usage of a whole answer."""
    answer = await client.chat.completions.create(model="scripted", **body)
    return answer.choices[0].message.model_dump(exclude_none=True), answer.choices[0].finish_reason, answer.usage


async def streamed(client: openai.AsyncOpenAI, **body: Any) -> tuple[dict[str, Any], str, Any]:
    """The same, put together from the events as clients do it."""
    stream = await client.chat.completions.create(model="scripted", stream=True, **body)
    message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": []}
    reasons, usage = [], None
    async for event in stream:
        choice = event.choices[0]
        message["content"] += choice.delta.content or ""
        if reasoning := getattr(choice.delta, "reasoning_content", None):
            message["reasoning_content"] = message.get("reasoning_content", "") + reasoning
        for piece in choice.delta.tool_calls or []:
            assert piece.function is not None
            if piece.id is not None:
                assert piece.index == len(message["tool_calls"])
                function = {"name": piece.function.name, "arguments": ""}
                message["tool_calls"].append({"id": piece.id, "type": piece.type, "function": function})
            message["tool_calls"][piece.index]["function"]["arguments"] += piece.function.arguments or ""
        if choice.finish_reason is not None:
            reasons.append(choice.finish_reason)
        usage = event.usage or usage
    (reason,) = reasons
    return message, reason, usage


async def helped(client: openai.AsyncOpenAI, **body: Any) -> tuple[dict[str, Any], str, Any]:
    """The same through the client's own ``.stream()`` helper."""
    async with client.chat.completions.stream(model="scripted", **body) as stream:
        async for _ in stream:
            pass
        answer = await stream.get_final_completion()
    message = answer.choices[0].message.model_dump(exclude_none=True)
    for call in message.get("tool_calls") or []:
        call.pop("index", None)
        call["function"].pop("parsed_arguments", None)
    message.setdefault("tool_calls", [])
    message.pop("parsed", None)
    return message, answer.choices[0].finish_reason, answer.usage


@pytest.mark.parametrize(
    ("ask", "form"),
    # The helper joins the roles of all events, so that it needs OpenAI's form, which has one.
    [(whole, "vllm"), (whole, "openai"), (streamed, "vllm"), (streamed, "openai"), (helped, "openai")],
)
@pytest.mark.parametrize("special", [True, False], ids=["special tokens", "ordinary tokens"])
@pytest.mark.parametrize("family", TOOL_FAMILIES, ids=lambda family: family.name)
async def test_two_turns_with_two_calls(family: ToolFamily, special: bool, ask: Any, form: str) -> None:
    """Thinking, two calls, their results, the answer: each call's id comes back, each text is where it belongs."""
    script = Script([f"<think>\n{THOUGHT}\n</think>\n\nOne moment.\n{calls_of(family, 'Beijing', '巴黎')}", "5 and 7."])
    if family.at_start and not family.opens:
        script = Script([f"<think>\n{THOUGHT}\n</think>\n\n{calls_of(family, 'Beijing', '巴黎')}", "5 and 7."])
    service = scripted_service(
        script,
        template_of(family),
        family.markers if special else (),
        tool_parser=family.name,
        reasoning_parser="qwen3",
        open_ai_support=form,
    )
    async with client_of(service) as client:
        message, reason, usage = await ask(client, messages=[QUESTION], tools=TOOLS)
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"{degrees} degrees"}
            for call, degrees in zip(message["tool_calls"], (5, 7), strict=True)
        ]
        last, last_reason, _ = await ask(client, messages=[QUESTION, message, *results], tools=TOOLS)

    assert reason == "tool_calls"
    assert message["reasoning_content"] == THOUGHT
    assert message["content"] == ("" if family.at_start and not family.opens else "One moment.")
    assert [(call["type"], call["function"]["name"]) for call in message["tool_calls"]] == [
        ("function", "get_weather")
    ] * 2
    assert [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]] == [
        {"city": "Beijing"},
        {"city": "巴黎"},
    ]
    ids = [call["id"] for call in message["tool_calls"]]
    assert len(set(ids)) == 2
    assert [len(call_id) for call_id in ids] == [9 if family.short_call_ids else len("call_") + 8] * 2
    thought = service.front.tokenizer.encode(f"<think>\n{THOUGHT}\n", add_special_tokens=False)
    assert usage.completion_tokens_details.reasoning_tokens == len(thought)
    first, second = script.prompts
    assert "get_weather" in first
    assert calls_of(family, "Beijing", "巴黎") in second
    assert second.index("5 degrees") < second.index("7 degrees")
    assert (last["content"], last["tool_calls"], last_reason) == ("5 and 7.", [], "stop")
    assert "reasoning_content" not in last


@pytest.mark.parametrize("family", [family for family in TOOL_FAMILIES if family.json_arguments], ids=lambda f: f.name)
async def test_tool_choice_is_written_and_read_in_the_familys_form(family: ToolFamily) -> None:
    """required: the mock writes the call as the family does, and it comes back as a call."""
    service = scripted_service(lambda _: "never asked", template_of(family), tool_parser=family.name)
    async with client_of(service) as client:
        for ask in (whole, streamed):
            message, reason, _ = await ask(client, messages=[QUESTION], tools=TOOLS, tool_choice="required")
            function = {"name": "get_weather", "arguments": '{"city": ""}'}
            assert (message["content"], message["tool_calls"][0]["function"]) == ("", function)
            assert reason == "tool_calls"


@pytest.mark.parametrize("ask", [whole, streamed])
async def test_without_tools_in_use_a_call_is_text(ask: Any) -> None:
    """tool_choice none, and no tools: nothing is taken out of the text."""
    call = '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    service = scripted_service(lambda _: call, template_of(TOOL_FAMILIES[0]))
    async with client_of(service) as client:
        for more in ({}, {"tools": TOOLS, "tool_choice": "none"}):
            message, reason, _ = await ask(client, messages=[QUESTION], **more)
            assert (message["content"], message["tool_calls"], reason) == (call, [], "stop")


@pytest.mark.parametrize("ask", [whole, streamed])
async def test_parallel_tool_calls_false_gives_one_call(ask: Any) -> None:
    """The second call is never generated."""
    family = TOOL_FAMILIES[0]
    service = scripted_service(lambda _: calls_of(family, "a", "b"), template_of(family))
    async with client_of(service) as client:
        message, reason, usage = await ask(client, messages=[QUESTION], tools=TOOLS, parallel_tool_calls=False)

    assert [call["function"]["arguments"] for call in message["tool_calls"]] == ['{"city": "a"}']
    assert reason == "tool_calls"
    wanted = calls_of(family, "a").removesuffix(family.tail)
    assert usage.completion_tokens == len(service.front.tokenizer.encode(wanted, add_special_tokens=False))


@pytest.mark.parametrize("ask", [whole, streamed])
async def test_a_budget_that_ends_inside_a_call_ends_with_length(ask: Any) -> None:
    """What there is of the arguments comes all the same, as the text of an answer that is cut does."""
    family = TOOL_FAMILIES[0]
    service = scripted_service(lambda _: calls_of(family, "Beijing"), template_of(family))
    tokens = service.front.tokenizer.encode(calls_of(family, "Beijing").partition("jing")[0], add_special_tokens=False)
    async with client_of(service) as client:
        message, reason, _ = await ask(client, messages=[QUESTION], tools=TOOLS, max_tokens=len(tokens))

    assert [call["function"]["arguments"] for call in message["tool_calls"]] == ['{"city": "Bei']
    assert reason == "length"


PROMPT_OPENS = "{%- for m in messages %}{{- m.content }}{%- endfor %}{{- 'assistant: <think>\n' }}{#- </think> #}"


@pytest.mark.parametrize("ask", [whole, streamed])
@pytest.mark.parametrize(
    ("template", "reply", "max_tokens", "reasoning", "content", "reason"),
    [
        (PROMPT_OPENS, "Hm.\n</think>\n\nYes.", 100, "Hm.", "Yes.", "stop"),
        (PROMPT_OPENS, "Hm. Hm. Hm.", 3, "Hm.", "", "length"),
        (PROMPT_OPENS.replace("<think>", "<think></think>"), "Yes.", 100, None, "Yes.", "stop"),
        (PROMPT_OPENS.replace("<think>", ""), "<think>Hm.</think>Yes.", 100, "Hm.", "Yes.", "stop"),
    ],
)
async def test_thinking_that_the_prompt_opens_or_closes(
    ask: Any, template: str, reply: str, max_tokens: int, reasoning: str | None, content: str, reason: str
) -> None:
    """Found by itself: the template's text has the marks, the prompt's end says where thinking stands."""
    service = scripted_service(lambda _: reply, template, open_ai_support="openai")
    async with client_of(service) as client:
        message, found_reason, usage = await ask(client, messages=[QUESTION], max_tokens=max_tokens)

    assert message.get("reasoning_content") == reasoning
    assert (message["content"], found_reason) == (content, reason)
    thought = usage.completion_tokens_details.reasoning_tokens
    assert (thought == 0) == (reasoning is None)


@pytest.mark.parametrize("form", ["vllm", "openai"])
@pytest.mark.parametrize("chat", [True, False])
async def test_include_usage_sends_one_last_event_in_openais_form(chat: bool, form: str) -> None:
    """There usage comes once, without a choice; in MindIE's form it stays in the choices' last events."""
    service = scripted_service(lambda _: "<think>Hm.</think>Yes.", PROMPT_OPENS, open_ai_support=form)
    async with client_of(service) as client:
        options: Any = {"model": "scripted", "n": 2, "temperature": 1, "stream": True}
        options["stream_options"] = {"include_usage": True}
        if chat:
            stream: Any = await client.chat.completions.create(messages=[QUESTION], **options)
        else:
            stream = await client.completions.create(prompt="Why?", **options)
        events = [event async for event in stream]

    counted = [event for event in events if event.usage is not None]
    assert [len(event.choices) for event in counted] == ([0] if form == "openai" else [1, 1])
    assert counted == (events[-1:] if form == "openai" else counted)
    tokens = service.front.tokenizer.encode("<think>Hm.</think>Yes.", add_special_tokens=False)
    assert sum(event.usage.completion_tokens for event in counted) == 2 * (len(tokens) + 1)


async def test_reasoning_parser_none_leaves_thinking_in_the_content() -> None:
    """And usage says nothing of reasoning, as for a model that does not think."""
    service = scripted_service(lambda _: "Hm.</think>Yes.", PROMPT_OPENS, reasoning_parser="none")
    async with client_of(service) as client:
        message, _, usage = await whole(client, messages=[QUESTION])

    assert message["content"] == "Hm.</think>Yes."
    assert "reasoning_content" not in message
    assert usage.completion_tokens_details is None


@pytest.mark.parametrize("stream", [True, False])
async def test_a_text_completion_keeps_thinking_and_counts_it(stream: bool) -> None:
    """The prompt is the client's own; its end tells whether thinking is open."""
    service = scripted_service(lambda _: "Hm.</think>Yes.", PROMPT_OPENS)
    async with client_of(service) as client:
        answer = await client.completions.create(model="scripted", prompt="Why? <think>", stream=stream)
        events = [event async for event in answer] if stream else [answer]

    assert "".join(event.choices[0].text for event in events) == "Hm.</think>Yes."
    usage = events[-1].usage
    tokens = service.front.tokenizer.encode("Hm.", add_special_tokens=False)
    assert usage.completion_tokens_details.reasoning_tokens == len(tokens)


@pytest.mark.parametrize("ask", [whole, streamed])
async def test_log_probabilities_go_with_thinking(ask: Any) -> None:
    """Every token has its entry, those of thinking and of its marks too."""
    service = scripted_service(lambda _: "<think>Hm.</think>Yes.", PROMPT_OPENS.replace("<think>", ""))
    async with started(service) as http:
        body = {"model": "scripted", "messages": [QUESTION], "logprobs": True, "stream": ask is streamed}
        text = (await http.post("/v1/chat/completions", json=body)).text
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.strip()]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    choices = [event["choices"][0] for event in events]
    tokens = [entry["token"] for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]]

    assert "".join(tokens) == "<think>Hm.</think>Yes.<|im_end|>"


@pytest.mark.parametrize(
    "family", [family for family in TOOL_FAMILIES if family.name != "chatglm3"], ids=lambda f: f.name
)
def test_a_template_in_the_familys_form_is_recognised(family: ToolFamily) -> None:
    """Marks of the family in the template's text decide; GLM's stand at its start."""
    prefix = {"glm4": "[gMASK]<sop>", "llama3_json": "<|start_header_id|>"}.get(family.name, "")
    assert tool_family_seen_in(prefix + template_of(family).replace('\\"', '"')) is family


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("tool_parser", "tool_parser is 'x'; allowed are auto, none, hermes, "),
        ("reasoning_parser", "auto, none, qwen3"),
    ],
)
def test_an_unknown_parser_is_refused_at_start(setting: str, words: str) -> None:
    """The sentence lists what is allowed."""
    with pytest.raises(ValueError, match=words):
        scripted_service(lambda _: None, "", **{setting: "x"})
