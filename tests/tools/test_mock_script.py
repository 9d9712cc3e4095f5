"""Scripts of the mock: which rule answers, what it writes, what a request allows of it, and what bad files are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mock_app import CHAT, COMPLETIONS, TOOL, answered, ask, events, mock_client, read, written
from mock_process import ROOT

from generated.models import ChatCompletionRequest
from handlers.settings import Settings
from tools.mock.faults import FAULTS
from tools.mock.script import ScriptError, read_script
from tools.mock.wishes import Wish

CALL = {"name": "get_weather", "arguments": {"city": "Paris"}}
WEATHER = {
    "when": {"endpoint": "chat", "fields": {"messages[-1].content": {"contains": "weather"}}},
    "reply": {"reasoning_content": "Look it up.", "content": "One moment.", "tool_calls": [CALL, CALL]},
}


def body_of(**members: Any) -> ChatCompletionRequest:
    """A chat request."""
    return ChatCompletionRequest.model_validate(
        {"model": "mock", "messages": [{"role": "system", "content": "Be brief."},
                                       {"role": "user", "content": "How is the weather?"}], **members}
    )  # fmt: skip


async def test_thinking_text_and_calls_go_through_the_parsers(tmp_path: Path) -> None:
    """They come back in their places, and the thinking is counted; the stream brings the same."""
    async with mock_client(read(tmp_path, WEATHER)) as client:
        wanted = {"messages": [{"role": "user", "content": "weather?"}], "tools": [TOOL]}
        whole = await ask(client, **wanted)
        (choice,), _, _ = answered(whole)
        function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
        assert choice["message"] == {
            "role": "assistant",
            "content": "One moment.",
            "reasoning_content": "Look it up.",
            "tool_calls": [{"function": function, "type": "function"}] * 2,
        }
        assert choice["finish_reason"] == "tool_calls"
        assert whole.json()["usage"]["completion_tokens_details"]["reasoning_tokens"] > 3
        deltas = [event["choices"][0]["delta"] for event in events(await ask(client, stream=True, **wanted))]
        assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "Look it up."
        assert "".join(delta.get("content") or "" for delta in deltas) == "One moment."
        calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
        assert [call["function"]["name"] for call in calls if call["function"].get("name")] == ["get_weather"] * 2


async def test_the_first_rule_that_fits_answers(tmp_path: Path) -> None:
    """And where none fits, the text is made up as without a script."""
    script = read(
        tmp_path,
        {"when": {"fields": {"user": {"equals": "a"}}}, "reply": {"content": "first"}},
        {"when": {"fields": {"user": {"present": True}}}, "reply": {"content": "second"}},
    )
    async with mock_client(script) as client, mock_client() as plain:
        assert [answered(await ask(client, user=user))[0][0]["message"]["content"] for user in "ab"] == [
            "first",
            "second",
        ]
        assert answered(await ask(client)) == answered(await ask(plain))


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        ({}, True),
        ({"endpoint": "chat"}, True),
        ({"endpoint": "completions"}, False),
        ({"fields": {"model": {"equals": "mock"}}}, True),
        ({"fields": {"messages[0].role": {"equals": "system"}, "temperature": {"present": False}}}, True),
        ({"fields": {"messages[-1].content": {"contains": "weather", "regex": "^How"}}}, True),
        ({"fields": {"messages[-1].content": {"contains": "weather", "regex": "^how"}}}, False),
        ({"fields": {"messages[7].content": {"present": False}}}, True),
        ({"fields": {"tools[0].function.name": {"equals": "get_weather"}}}, False),
        ({"fields": {"metadata.team": {"equals": "red"}}}, True),
        ({"fields": {"stop": {"contains": "END"}}}, True),
        ({"fields": {"logit_bias": {"equals": None}}}, False),
        ({"cel": "self.messages.exists(m, m.role == 'system') && !has(self.tools)"}, True),
        ({"cel": "has(self.max_tokens) && self.max_tokens > 100"}, False),
        ({"cel": "self.max_tokens > 100"}, False),
        ({"cel": "server.model_type == 'deepseek'"}, False),
        ({"cel": "self.messages[0].role == 'system'", "endpoint": "chat"}, True),
        ({"cel": "self.prompt == 'x'"}, False),
        ({"endpoint": "chat", "cel": "has(self.tools)", "fields": {"model": {"equals": "mock"}}}, False),
    ],
)
def test_a_condition_looks_at_the_request(tmp_path: Path, when: dict[str, Any], fits: bool) -> None:
    """Endpoint, CEL and fields must all hold; what a request does not have is absent, and a CEL error is no."""
    script = read(tmp_path, {"when": when, "reply": {"content": "yes"}})
    body = body_of(metadata={"team": "red"}, stop=["END", "STOP"])
    assert script.reply(body) == (Wish(content="yes") if fits else Wish())


def test_parts_are_their_text(tmp_path: Path) -> None:
    """Content may be a list of parts."""
    script = read(tmp_path, WEATHER)
    parts = [{"type": "text", "text": "the wea"}, {"type": "text", "text": "ther"}]
    assert script.reply(body_of(messages=[{"role": "user", "content": parts}])).writes


def test_a_pattern_that_takes_too_long_does_not_fit(tmp_path: Path) -> None:
    """A tenth of a second, then the answer is no."""
    fields = {"messages[0].content": {"regex": "(a|aa|b)+$"}}
    script = read(tmp_path, {"when": {"fields": fields}, "reply": {"content": "yes"}})
    assert script.reply(body_of(messages=[{"role": "user", "content": "a" * 64 + "c"}])) == Wish()


async def test_stop_strings_and_budgets_cut_scripted_text(tmp_path: Path) -> None:
    """The text runs through the engine: a stop string, max_tokens and include_stop_str_in_output act on it."""
    async with mock_client(read(tmp_path, {"reply": {"content": "One, two, three, four."}})) as client:

        async def said(**body: Any) -> tuple[str, str]:
            (choice,), _, _ = answered(await ask(client, **body))
            return choice["message"]["content"], choice["finish_reason"]

        assert await said() == ("One, two, three, four.", "stop")
        assert await said(stop=" three") == ("One, two,", "stop")
        assert await said(stop=" three", include_stop_str_in_output=True) == ("One, two, three", "stop")
        text, reason = await said(max_tokens=4)
        assert ("One, two, three, four.".startswith(text), reason) == (True, "length")


@pytest.mark.parametrize("url", [CHAT, COMPLETIONS])
async def test_every_choice_and_the_best_beam_write_it(tmp_path: Path, url: str) -> None:
    """n, best_of and beams."""
    async with mock_client(read(tmp_path, {"reply": {"content": "Good day."}})) as client:

        async def texts(**body: Any) -> list[str]:
            choices, _, _ = answered(await ask(client, url=url, max_tokens=30, **body))
            return [choice["text"] if url == COMPLETIONS else choice["message"]["content"] for choice in choices]

        assert await texts(n=3, temperature=1) == ["Good day."] * 3
        assert await texts(best_of=2, n=1, temperature=1) == ["Good day."] * 2
        beams = await texts(n=3, use_beam_search=True)
        assert (beams[0], len(set(beams))) == ("Good day.", 3)


async def test_usage_and_pace_and_end_are_as_told(tmp_path: Path) -> None:
    """cached_tokens stay below the prompt, tokens repeat or cut the text, delays are measured."""
    reply = {"content": "Good day. ", "tokens": 25, "cached_tokens": 4, "ttft": "60ms", "slow_token": "2ms"}
    async with mock_client(read(tmp_path, {"reply": reply})) as client:
        whole = (await ask(client)).json()
        usage = whole["usage"]
        assert (usage["completion_tokens"], usage["prompt_tokens_details"]["cached_tokens"]) == (25, 4)
        assert whole["choices"][0]["message"]["content"].startswith("Good day. Good day. G")
        assert whole["prefill_time"] >= 59
        assert (await ask(client, "tokens=3")).json()["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("status", FAULTS)
async def test_a_rule_may_answer_with_any_documented_error(tmp_path: Path, status: int) -> None:
    """With a message and a code of its own, if it wants."""
    rule = {"reply": {"error": {"status": status, "code": "mine", "message": "Not today."}}}
    async with mock_client(read(tmp_path, rule)) as client:
        answer = await ask(client)
        assert (answer.status_code, answer.json()["error"], answer.json()["code"]) == (status, "Not today.", "mine")


async def test_what_the_request_forbids_is_not_written(tmp_path: Path) -> None:
    """Thinking that is turned off; free text under a schema; a call that is not the named tool's."""
    other = {"type": "function", "function": {"name": "other"}}
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}  # fmt: skip
    async with mock_client(read(tmp_path, WEATHER)) as client:
        messages = [{"role": "user", "content": "weather?"}]

        async def message(**body: Any) -> dict[str, Any]:
            (choice,), _, _ = answered(await ask(client, messages=messages, **body))
            found: dict[str, Any] = choice["message"]
            return found

        assert "reasoning_content" not in await message(chat_template_kwargs={"enable_thinking": False})
        held = await message(response_format=schema)
        assert (held["reasoning_content"], held["content"]) == ("Look it up.", '{"a": 0}')
        named = await message(tools=[TOOL, other], tool_choice={"type": "function", "function": {"name": "other"}})
        assert [call["function"]["name"] for call in named["tool_calls"]] == ["other"]
        single = await message(tools=[TOOL], parallel_tool_calls=False)
        assert len(single["tool_calls"]) == 1
        assert (await message())["tool_calls"] == []


async def test_what_a_schema_allows_is_written(tmp_path: Path) -> None:
    """The script's own text and calls are taken where they are under the schema."""
    strict = {"type": "function", "function": {**TOOL["function"], "strict": True}}  # type: ignore[dict-item] # a test's data
    rules = ({"when": {"fields": {"tools": {"present": True}}}, "reply": {"tool_calls": [CALL]}},
             {"reply": {"content": '{"a": 42}'}})  # fmt: skip
    async with mock_client(read(tmp_path, *rules)) as client:
        (choice,), _, _ = answered(await ask(client, response_format={"type": "json_object"}))
        assert choice["message"]["content"] == '{"a": 42}'
        for body in ({"tools": [strict]}, {"tools": [TOOL], "tool_choice": "required"}):
            (choice,), _, _ = answered(await ask(client, **body))
            assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"city": "Paris"}'


async def test_a_thought_is_bounded_by_its_budget(tmp_path: Path) -> None:
    """thinking_budget closes it after so many tokens, and the answer goes on behind it."""
    rule = {"reply": {"reasoning_content": "one two three four five six seven eight", "content": "Done."}}
    async with mock_client(read(tmp_path, rule)) as client:
        whole = await ask(client, chat_template_kwargs={"thinking_budget": 4})
        message = whole.json()["choices"][0]["message"]
        assert message["content"] == "Done."
        assert message["reasoning_content"] == "one"
        assert whole.json()["usage"]["completion_tokens_details"]["reasoning_tokens"] == 5


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("rules: [", "script.yaml:1: not YAML: "),
        ("- a", "script.yaml:1: a script is an object with rules"),
        ("other: 1", "the script lacks rules"),
        ("rules: []", "rules is an empty list; it must be a list of 1 to 1000 rules"),
        ("rules:\n- reply: {content: 5}", "script.yaml:2: rules[0].reply.content is 5; it must be a text"),
        (
            "rules:\n- reply:\n    contents: a",
            "script.yaml:3: rules[0].reply.contents is not known; there are content,",
        ),
        ("rules:\n- when: {}", "rules[0] lacks reply"),
        ("rules:\n- reply: {ttft: 2}", "rules[0].reply.ttft is 2; it must be a time such as 200ms"),
        ("rules:\n- reply: {ttft: 900s}", 'rules[0].reply.ttft is "900s"; it must be a time such as 200ms or 1.5s'),
        ("rules:\n- reply: {tokens: 0}", "rules[0].reply.tokens is 0; it must be a whole number from 1 to 1000000"),
        ("rules:\n- reply: {error: {status: 418}}", "status is 418; it must be one of 400, 401"),
        ("rules:\n- reply: {error: {status: 429}, content: a}", "has error and content, which exclude each other"),
        ("rules:\n- when: {fields: {a..b: {equals: 1}}}\n  reply: {tokens: 1}", '"a..b" is no path; write one such as'),
        ("rules:\n- when: {fields: {a: {regex: '('}}}\n  reply: {tokens: 1}", 'regex "(" is no regular expression'),
        ("rules:\n- when: {fields: {a: {like: b}}}\n  reply: {tokens: 1}", "like is not known; there are equals,"),
        ("rules:\n- when: {cel: 'self.'}\n  reply: {tokens: 1}", "rules[0].when.cel: CEL syntax error"),
        ("rules:\n- when:\n    cel: self.foo == 1\n  reply: {tokens: 1}", "script.yaml:3: rules[0].when.cel: Chat"),
        ("rules:\n- when: {cel: self.n}\n  reply: {tokens: 1}", "the rule gives int, not true or false"),
    ],
)
def test_a_bad_script_is_told_what_is_wrong_and_where(tmp_path: Path, script: str, fault: str) -> None:
    """The line, the path, what was given and what is allowed."""
    with pytest.raises(ScriptError) as caught:
        read_script(written(tmp_path, script, "script.yaml"), Settings("mock").deployment())
    assert fault in str(caught.value)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """In the order of the file."""
    script = "rules:\n- reply: {tokens: 0}\n- reply: {finish: eos}\n  names: x\n"
    with pytest.raises(ScriptError) as caught:
        read_script(written(tmp_path, script), Settings("mock").deployment())
    assert [line.split(": ")[0].rpartition(":")[2] for line in str(caught.value).splitlines()] == ["2", "3", "4"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--script", "missing.yaml"], "missing.yaml cannot be read: "),
        (["--script", "bad.yaml"], "bad.yaml:1: rules is an empty list"),
        (["--script", "good.yaml", "--reasoning-parser", "none"], "--reasoning-parser none leaves no place for"),
    ],
)
def test_a_mock_does_not_start_with_a_script_that_cannot_be_used(
    tmp_path: Path, options: list[str], message: str
) -> None:
    """One sentence on standard error, and the exit code of a setting that cannot be used."""
    written(tmp_path, "rules: []", "bad.yaml")
    written(tmp_path, "rules: [{reply: {reasoning_content: a}}]", "good.yaml")
    options = [str(tmp_path / option) if option.endswith(".yaml") else option for option in options]
    done = subprocess.run(
        [sys.executable, "-m", "tools.cli", "mock", "--port", "0", *options],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, message in done.stderr) == (78, True), done.stderr
