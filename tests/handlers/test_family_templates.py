"""Every family's chat template gives the text and the ids that transformers' apply_chat_template gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from family_templates import SPECIAL, backend_of, template_text, tokenizer_of
from transformers import PreTrainedTokenizerFast

from engine.text.parsers import tool_family
from engine.text.tokenizer import BackedTokenizer
from generated.models import ChatCompletionRequest
from handlers.errors import Problem
from handlers.prompt import PromptMaker
from handlers.settings import Limits, Settings
from handlers.template_pool import TemplatePool

LIMITS = Limits(max_seq_len=100_000, max_iter_times=100, max_prompt_tokens=99_999)
Messages = list[dict[str, Any]]

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "The time <of> day & night 日",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}, "n": {"type": "integer"}}},
    },
}
ARGUMENTS = {"zone": "UTC", "n": 3, "note": 'say "<日>"'}


def call(name: str = "get_time") -> dict[str, Any]:
    """A call whose arguments are JSON text, as clients send it."""
    text = json.dumps(ARGUMENTS, ensure_ascii=False)
    return {"id": "abcdefghi", "type": "function", "function": {"name": name, "arguments": text}}


def said(role: str, content: Any, **members: Any) -> dict[str, Any]:
    """A message."""
    return {"role": role, "content": content, **members}


SYSTEM = said("system", "Be brief.")
ASKED = said("user", "What time is it?")
TURNS = [SYSTEM, said("user", " hi "), said("assistant", "Hello!"), said("user", "bye\n")]
CALLED = said("assistant", "", tool_calls=[call()])
RESULT = said("tool", "12:00", tool_call_id="abcdefghi")
ROUND = [ASKED, CALLED, RESULT]
ANSWERED = [*ROUND, said("assistant", "Noon."), said("user", "Thanks")]


async def ours(family: str, messages: Messages, parser: str | None = None, **members: Any) -> list[int]:
    """The server's ids."""
    settings = Settings(model_name="m")
    named = tool_family(parser) if parser else None
    tokenizer, pool = tokenizer_of(family), TemplatePool(settings)
    maker = PromptMaker(tokenizer, settings, pool, named) if named else PromptMaker(tokenizer, settings, pool)
    body = ChatCompletionRequest.model_validate_json(json.dumps({"model": "m", "messages": messages, **members}))
    return await maker.chat(body, LIMITS, 100_000)


async def our_text(family: str, messages: Messages, parser: str | None = None, **members: Any) -> str:
    """The server's prompt as text, control tokens shown."""
    ids = await ours(family, messages, parser, **members)
    return tokenizer_of(family).decode(ids, skip_special_tokens=False)


def theirs(family: str, messages: Messages, tools: Messages | None = None, **kwargs: Any) -> list[int]:
    """The ids of transformers, for messages in the form that this family's template is documented to want."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend_of(family), **_named(family))
    tokenizer.chat_template = template_text(family)
    ids: list[int] = tokenizer.apply_chat_template(
        messages, tools=tools, add_generation_prompt=True, return_dict=False, **kwargs
    )
    return ids


def _named(family: str) -> dict[str, str]:
    return tokenizer_of(family).special_tokens_map


def with_objects(messages: Messages) -> Messages:
    """The messages with the arguments of calls as objects."""
    copy: Messages = json.loads(json.dumps(messages))
    for function in (call["function"] for message in copy for call in message.get("tool_calls", ())):
        function["arguments"] = json.loads(function["arguments"])
    return copy


def nulled(messages: Messages) -> Messages:
    """The messages with null for content beside calls, as many clients send it."""
    return [{**message, "content": None} if message.get("tool_calls") else message for message in messages]


ALL = sorted(set(SPECIAL) - {"hermes_tool_use", "vision"})
NATIVE = ["qwen2_5", "qwen3", "llama3", "mistral"]
"""Families whose templates take tools as a variable and arguments as objects."""


@pytest.mark.parametrize("family", ALL)
async def test_turns_are_those_of_transformers(family: str) -> None:
    """A system message and three turns."""
    assert await ours(family, TURNS) == theirs(family, TURNS)


@pytest.mark.parametrize("family", ALL)
async def test_text_parts_are_the_text_that_they_spell(family: str) -> None:
    """A list of parts goes to a template that reads text as that text."""
    parts = said("user", [{"type": "text", "text": "What time"}, {"text": " is it?"}])
    assert await ours(family, [parts]) == theirs(family, [ASKED])


@pytest.mark.parametrize("family", [*NATIVE, "deepseek_v3_1"])
async def test_tools_are_those_of_transformers(family: str) -> None:
    """The definitions, in the places where the template puts them."""
    assert await ours(family, [SYSTEM, ASKED], tools=[TOOL]) == theirs(family, [SYSTEM, ASKED], [TOOL])


@pytest.mark.parametrize("family", [*NATIVE, "deepseek_v3_1"])
@pytest.mark.parametrize("members", [{"tools": []}, {"tools": [TOOL], "tool_choice": "none"}])
async def test_no_tools_to_call_are_no_tools(family: str, members: dict[str, Any]) -> None:
    """An empty list, and tool_choice none, give the prompt of a request without tools."""
    assert await ours(family, [ASKED], **members) == theirs(family, [ASKED])


@pytest.mark.parametrize("family", NATIVE)
@pytest.mark.parametrize("messages", [ROUND, ANSWERED, nulled(ROUND)])
async def test_calls_and_results_are_those_of_transformers(family: str, messages: Messages) -> None:
    """Arguments reach these templates as objects; null content beside calls is empty content."""
    as_text = [{**message, "content": message["content"] or ""} for message in with_objects(messages)]
    assert await ours(family, messages, tools=[TOOL]) == theirs(family, as_text, [TOOL])


@pytest.mark.parametrize("messages", [ROUND, ANSWERED, nulled(ROUND)])
async def test_deepseek_v3_1_gets_arguments_as_text(messages: Messages) -> None:
    """Its template joins the arguments into text: the client's own JSON, to the letter."""
    as_text = [{**message, "content": message["content"] or ""} for message in messages]
    assert await ours("deepseek_v3_1", messages, tools=[TOOL]) == theirs("deepseek_v3_1", as_text, [TOOL])


@pytest.mark.parametrize("messages", [ROUND, nulled(ROUND)])
async def test_deepseek_r1_gets_null_beside_calls(messages: Messages) -> None:
    """Its template shows calls only where content is null, so that empty content is null there too."""
    text = await our_text("deepseek_r1", messages)

    spelled = json.dumps(ARGUMENTS, ensure_ascii=False)
    assert text == (
        "<｜begin▁of▁sentence｜><｜User｜>What time is it?<｜Assistant｜><｜tool▁calls▁begin｜>"
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n```json\n{spelled}\n```<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜><｜end▁of▁sentence｜><｜tool▁output▁begin｜>12:00<｜tool▁output▁end｜>"
    )


async def test_deepseek_r1_shows_content_and_calls_as_two_turns() -> None:
    """It would leave the calls out where there is content beside them."""
    text = await our_text("deepseek_r1", [ASKED, said("assistant", "Let me see.", tool_calls=[call()]), RESULT])

    assert "<｜Assistant｜>Let me see.<｜end▁of▁sentence｜><｜Assistant｜><｜tool▁calls▁begin｜>" in text


@pytest.mark.parametrize("thinking", [True, False])
async def test_qwen3_thinks_as_it_is_told(thinking: bool) -> None:
    """enable_thinking false closes the thought before it begins; earlier thoughts leave the text."""
    before = said("assistant", "<think>\nhm\n</think>\n\nHello!")
    messages = [ASKED, before, said("user", "And now?")]

    made = await ours("qwen3", messages, chat_template_kwargs={"enable_thinking": thinking})

    assert made == theirs("qwen3", messages, enable_thinking=thinking)


async def test_qwen3_reads_earlier_reasoning() -> None:
    """reasoning_content of the turn that called reaches the template."""
    thought = said("assistant", "", reasoning_content="I need a clock.", tool_calls=[call()])
    messages = [ASKED, thought, RESULT]

    assert await ours("qwen3", messages, tools=[TOOL]) == theirs("qwen3", with_objects(messages), [TOOL])


@pytest.mark.parametrize("thinking", [True, False])
async def test_deepseek_v3_1_has_another_name_for_the_switch(thinking: bool) -> None:
    """enable_thinking sets what its template calls thinking."""
    made = await ours("deepseek_v3_1", TURNS, chat_template_kwargs={"enable_thinking": thinking})

    assert made == theirs("deepseek_v3_1", TURNS, thinking=thinking)


async def test_glm4_gets_tools_and_calls_as_messages() -> None:
    """Tools are a member of the system message, a call is metadata over its arguments, a result an observation."""
    made = await ours("glm4", ANSWERED, tools=[TOOL])

    turned = [
        said("system", "", tools=[TOOL]),
        ASKED,
        said("assistant", json.dumps(ARGUMENTS, ensure_ascii=False), metadata="get_time"),
        said("observation", "12:00"),
        *ANSWERED[3:],
    ]
    assert made == theirs("glm4", turned)


async def test_chatglm3_is_told_of_tools_in_its_own_form() -> None:
    """Its template has no place for them: the system message tells, and earlier calls are written as it writes them."""
    text = await our_text("chatglm3", ROUND, "chatglm3", tools=[TOOL])

    assert text.startswith("[gMASK]sop<|system|>\n You may call functions")
    assert '"name": "get_time"' in text
    assert "<the function's name>\n ```python\ntool_call(<its arguments" in text
    assert "<|assistant|>\n get_time\n ```python\ntool_call(zone='UTC', n=3, note='say \"<日>\"')\n```" in text
    assert text.endswith("<|observation|>\n 12:00<|assistant|>")


async def test_smollm2_is_told_of_tools_in_the_hermes_form() -> None:
    """The form that is told is the one that earlier calls have."""
    text = await our_text("smollm2", nulled(ROUND), tools=[TOOL])

    assert text.startswith("<|im_start|>system\nYou may call functions")
    spelled = json.dumps(ARGUMENTS, ensure_ascii=False)
    asked = (
        f'<|im_start|>assistant\n<tool_call>\n{{"name": "get_time", "arguments": {spelled}}}\n</tool_call><|im_end|>'
    )
    assert asked in text


async def test_a_template_for_tools_is_used_for_requests_with_tools() -> None:
    """Of two named templates, tool_use shows tools, and default all other requests."""
    settings = Settings(model_name="m")
    tokenizer = BackedTokenizer(
        backend_of("hermes_tool_use"),
        eos_token_ids=(0,),
        special_tokens_map=_named("hermes_tool_use"),
        chat_template=template_text("smollm2"),
        more_templates={"tool_use": template_text("hermes_tool_use")},
    )
    maker = PromptMaker(tokenizer, settings, TemplatePool(settings))

    async def ids(**members: Any) -> list[int]:
        body = ChatCompletionRequest.model_validate({"model": "m", "messages": ROUND, **members})
        return await maker.chat(body, LIMITS, 100_000)

    assert await ids(tools=[TOOL]) == theirs("hermes_tool_use", with_objects(ROUND), [TOOL])
    assert tokenizer.decode(await ids(), skip_special_tokens=False).startswith("<|im_start|>system\nBe helpful.")


async def test_a_template_that_reads_parts_gets_parts() -> None:
    """Vision templates show content only part by part."""
    parts = [said(message["role"], [{"type": "text", "text": message["content"]}]) for message in TURNS]

    assert await ours("vision", TURNS) == theirs("vision", parts)


async def test_a_familys_complaints_come_in_its_words() -> None:
    """Llama's template takes one call at a time, Mistral's wants turns to alternate."""
    two = said("assistant", "", tool_calls=[call(), call()])
    with pytest.raises(Problem, match="One call at a time, please!"):
        await ours("llama3", [ASKED, two, RESULT, RESULT], tools=[TOOL])
    with pytest.raises(Problem, match="must alternate") as caught:
        await ours("mistral", [ASKED, ASKED])
    assert (caught.value.status, caught.value.code, caught.value.param) == (422, "template_error", "messages")


@pytest.mark.parametrize("family", ["qwen2_5", "llama3", "mistral"])
async def test_arguments_that_are_no_object_are_refused_where_one_is_read(family: str) -> None:
    """tojson would write text inside quotes, which no such model has seen."""
    odd = call()
    odd["function"]["arguments"] = "Paris"
    with pytest.raises(Problem, match="must be the text of a JSON object") as caught:
        await ours(family, [ASKED, said("assistant", None, tool_calls=[call(), odd][-1:]), RESULT], tools=[TOOL])
    assert caught.value.param == "messages[1].tool_calls[0].function.arguments"


async def test_arguments_that_are_no_object_are_shown_where_text_is_read() -> None:
    """Qwen3's template writes text as it is."""
    odd = call()
    odd["function"]["arguments"] = "Paris"
    text = await our_text("qwen3", [ASKED, said("assistant", None, tool_calls=[odd]), RESULT])
    assert '{"name": "get_time", "arguments": Paris}' in text


@pytest.mark.parametrize(("family", "shown"), [("qwen2_5", "{}"), ("deepseek_r1", "\n\n")])
async def test_no_arguments_at_all_are_an_empty_object(family: str, shown: str) -> None:
    """Clients send empty text for a function without parameters; as text it stays empty."""
    bare = call()
    bare["function"]["arguments"] = ""
    text = await our_text(family, [ASKED, said("assistant", None, tool_calls=[bare]), RESULT])
    assert shown in text[text.index("get_time") :]


@pytest.mark.parametrize("family", ["llama3", "smollm2", "chatglm3"])
async def test_a_role_that_the_template_writes_is_served(family: str) -> None:
    """Templates that write any role take one of the client's own."""
    assert "critic" in await our_text(family, [ASKED, said("critic", "ok")])


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "deepseek_r1", "deepseek_v3_1"])
async def test_a_role_that_the_template_drops_is_refused(family: str) -> None:
    """Even where its words happen to stand elsewhere in the prompt."""
    with pytest.raises(Problem, match="'critic', a role that the model's chat template leaves out") as caught:
        await ours(family, [said("user", "ok ok ok"), said("critic", "ok")])
    assert caught.value.param == "messages[1].role"


@pytest.mark.parametrize(("default", "closed"), [(None, False), (True, False), (False, True)])
async def test_the_models_own_switch_counts_where_a_request_says_nothing(default: bool | None, closed: bool) -> None:
    """tokenizer_config.json may switch thinking off, and a request on again."""
    settings = Settings(model_name="m")
    tokenizer = tokenizer_of("qwen3")
    tokenizer.enable_thinking = default
    maker = PromptMaker(tokenizer, settings, TemplatePool(settings))

    async def text(**members: Any) -> str:
        body = ChatCompletionRequest.model_validate({"model": "m", "messages": [ASKED], **members})
        return tokenizer.decode(await maker.chat(body, LIMITS, 100_000), skip_special_tokens=False)

    assert ("</think>" in await text()) == closed
    assert "</think>" not in await text(chat_template_kwargs={"enable_thinking": True})
