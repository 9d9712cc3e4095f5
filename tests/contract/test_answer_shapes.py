"""Answers in the contract's form for every kind of request: whole, streamed, choices, logprobs, beams, tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from shapes import check_best_first, check_chat, check_completion, check_whole_headers
from stream_shapes import (
    check_chat_beams_stream,
    check_chat_stream,
    check_completion_beams_stream,
    check_completion_stream,
    read_stream,
)
from wire import (
    CHAT,
    CHAT_BASE,
    COMPLETIONS,
    COMPLETIONS_BASE,
    JSON_TYPE,
    MODEL,
    Answer,
    Client,
    ClientFor,
    changed,
    dumps,
    said,
)

Json = dict[str, Any]

# Greedy and of an exact length, so that whole and streamed answers can be compared.
EXACT: Json = {"temperature": 0, "ignore_eos": True, "max_tokens": 8}


@pytest.fixture
def client(client_for: ClientFor) -> Client:
    """A client of the plain mock deployment."""
    return client_for()


def ask(client: Client, **change: Any) -> Answer:
    """A chat request: the base with these fields."""
    return client.post(CHAT, content=dumps(changed(CHAT_BASE, change)), headers=JSON_TYPE)


def complete(client: Client, **change: Any) -> Answer:
    """A completions request: the base with these fields."""
    return client.post(COMPLETIONS, content=dumps(changed(COMPLETIONS_BASE, change)), headers=JSON_TYPE)


def whole(answer: Answer) -> Json:
    """The JSON of a whole answer."""
    check_whole_headers(answer)
    body: Json = json.loads(answer.content)
    return body


def test_whole_chat(client: Client) -> None:
    """A plain chat answer: id endpoint_common_N, eight tokens of eight asked for, cut at the length."""
    body = whole(ask(client, **EXACT))
    check_chat(body, model=MODEL)
    assert body["id"].removeprefix("endpoint_common_").isdigit()
    assert body["usage"]["completion_tokens"] == 8
    assert body["choices"][0]["finish_reason"] == "length"


def test_whole_completion(client: Client) -> None:
    """A plain completions answer: stop_reason null at the length, eight rounds for eight tokens."""
    body = whole(complete(client, **EXACT))
    check_completion(body, model=MODEL)
    assert body["id"].removeprefix("endpoint_common_").isdigit()
    assert len(body["usage"]["batch_size"]) == 8
    assert body["choices"][0]["stop_reason"] is None


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_exactly_max_tokens(count: int, client: Client) -> None:
    """With ignore_eos the answer has exactly max_tokens tokens on both endpoints."""
    chat = whole(ask(client, temperature=0, ignore_eos=True, max_tokens=count))
    completion = whole(complete(client, temperature=0, ignore_eos=True, max_tokens=count))
    assert [chat["usage"]["completion_tokens"], completion["usage"]["completion_tokens"]] == [count, count]
    assert len(chat["decode_time_arr"]) == count - 1


def test_streamed_chat_equals_whole_chat(client: Client) -> None:
    """A greedy stream joins to the whole answer's text and counts the same tokens."""
    body = whole(ask(client, **EXACT))
    events = read_stream(ask(client, **EXACT, stream=True))
    assert check_chat_stream(events, model=MODEL) == [body["choices"][0]["message"]["content"]]
    assert events[-1]["usage"]["completion_tokens"] == body["usage"]["completion_tokens"]
    assert len(events) >= 3


def test_streamed_completion_equals_whole_completion(client: Client) -> None:
    """The same on completions, with its offsets from 0."""
    body = whole(complete(client, **EXACT, logprobs=1))
    events = read_stream(complete(client, **EXACT, logprobs=1, stream=True))
    assert check_completion_stream(events, model=MODEL, top=1) == [body["choices"][0]["text"]]
    assert len(events) >= 2


@pytest.mark.parametrize("top", [0, 1, 3, 20])
def test_chat_logprobs(top: int, client: Client) -> None:
    """Each token has as many candidates as asked for, whole and streamed."""
    check_chat(whole(ask(client, **EXACT, logprobs=True, top_logprobs=top)), model=MODEL, top=top)
    events = read_stream(ask(client, **EXACT, logprobs=True, top_logprobs=top, stream=True))
    check_chat_stream(events, model=MODEL, top=top)


@pytest.mark.parametrize("top", [0, 2])
def test_top_logprobs_alone_turn_logprobs_on(top: int, client: Client) -> None:
    """top_logprobs given and logprobs absent, or null: logprobs is true, also for 0."""
    check_chat(whole(ask(client, **EXACT, top_logprobs=top)), top=top)
    check_chat(whole(ask(client, **EXACT, top_logprobs=top, logprobs=None)), top=top)


def test_chat_bytes_spell_the_text(client: Client) -> None:
    """The tokens' bytes, joined, are the content's UTF-8 (a cut character at the end aside)."""
    choice = whole(ask(client, **EXACT, logprobs=True))["choices"][0]
    joined = b"".join(bytes(entry["bytes"] or b"") for entry in choice["logprobs"]["content"])
    assert joined.decode("utf-8", "replace").rstrip("\ufffd") == choice["message"]["content"].rstrip("\ufffd")
    assert joined != b""


@pytest.mark.parametrize("top", [0, 1, 2, 5])
def test_completion_logprobs(top: int, client: Client) -> None:
    """The chosen token and up to N others; 0 gives the chosen alone."""
    body = whole(complete(client, **EXACT, logprobs=top))
    check_completion(body, model=MODEL, top=top)
    if top == 0:
        assert {len(held) for held in body["choices"][0]["logprobs"]["top_logprobs"]} == {1}


def test_logprobs_do_not_depend_on_the_temperature(client: Client) -> None:
    """Logprobs are raw: the first token's candidates are the same at temperatures 0.5 and 2."""
    answers = [
        whole(ask(client, max_tokens=1, ignore_eos=True, logprobs=True, top_logprobs=5, temperature=heat, seed=1))
        for heat in (0.5, 2)
    ]
    held = [answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"] for answer in answers]
    assert [one["token"] for one in held[0]] == [one["token"] for one in held[1]]
    assert [one["logprob"] for one in held[0]] == pytest.approx([one["logprob"] for one in held[1]], abs=1e-4)


def test_three_choices_whole(client: Client) -> None:
    """n choices: completion_tokens sums all, the lists are as long as one of them."""
    chat = whole(ask(client, n=3, ignore_eos=True, max_tokens=4, logprobs=True))
    check_chat(chat, choices=3, top=0)
    assert chat["usage"]["completion_tokens"] == 12
    assert len(chat["usage"]["queue_wait_time"]) == 4
    completion = whole(complete(client, n=3, ignore_eos=True, max_tokens=4, logprobs=0))
    check_completion(completion, choices=3, top=0)
    assert completion["usage"]["completion_tokens"] == 12


def test_two_choices_streamed(client: Client) -> None:
    """Each choice's last event counts its own tokens."""
    events = read_stream(ask(client, n=2, ignore_eos=True, max_tokens=4, stream=True))
    check_chat_stream(events, choices=2)
    assert [event["usage"]["completion_tokens"] for event in events if "usage" in event] == [4, 4]
    events = read_stream(complete(client, n=2, ignore_eos=True, max_tokens=4, stream=True, logprobs=2))
    check_completion_stream(events, choices=2, top=2)
    assert [event["usage"]["completion_tokens"] for event in events if "usage" in event] == [4, 4]


def test_best_of_returns_all_best_first(client: Client) -> None:
    """best_of 4 and n 2 give four sequences, sorted by mean logprob."""
    chat = whole(ask(client, n=2, best_of=4, ignore_eos=True, max_tokens=6, logprobs=True, seed=3))
    check_chat(chat, choices=4, top=0)
    check_best_first(chat)
    completion = whole(complete(client, best_of=4, ignore_eos=True, max_tokens=6, logprobs=0, seed=3))
    check_completion(completion, choices=4, top=0)
    check_best_first(completion)


def test_whole_beams(client: Client) -> None:
    """Width n, best first by logprob per token; without n one sequence; best_of plays no part."""
    chat = whole(ask(client, use_beam_search=True, n=3, max_tokens=5, ignore_eos=True, logprobs=True))
    check_chat(chat, choices=3, top=0)
    check_best_first(chat)
    completion = whole(
        complete(client, use_beam_search=True, n=3, best_of=1, max_tokens=5, ignore_eos=True, logprobs=1)
    )
    check_completion(completion, choices=3, top=1)
    check_best_first(completion)
    check_chat(whole(ask(client, use_beam_search=True)), choices=1)
    check_chat(whole(ask(client, use_beam_search=True, best_of=3)), choices=1)


def test_beams_in_one_event(client: Client) -> None:
    """Streamed beams: one event with all choices and the total usage, then [DONE]."""
    events = read_stream(ask(client, use_beam_search=True, n=2, max_tokens=3, ignore_eos=True, stream=True))
    check_chat_beams_stream(events, model=MODEL, choices=2)
    assert events[0]["usage"]["completion_tokens"] == 6
    events = read_stream(
        complete(client, use_beam_search=True, n=2, max_tokens=3, ignore_eos=True, stream=True, logprobs=0)
    )
    check_completion_beams_stream(events, model=MODEL, choices=2, top=0)
    assert events[0]["usage"]["completion_tokens"] == 6


def test_full_text(client_for: ClientFor) -> None:
    """fullTextEnabled: cumulative deltas and full_text in the last event of chat; completions is unchanged."""
    client = client_for(full_text_enabled=True)
    text = whole(ask(client, **EXACT))["choices"][0]["message"]["content"]
    events = read_stream(ask(client, **EXACT, stream=True))
    assert check_chat_stream(events, full_text=True) == [text]
    check_completion_stream(read_stream(complete(client, **EXACT, stream=True)))


def test_openai_form_sends_the_role_once(client_for: ClientFor) -> None:
    """With another openAiSupport than vllm only the first delta has a role."""
    client = client_for(open_ai_support="openai")
    check_chat_stream(read_stream(ask(client, **EXACT, stream=True)), openai_form=True)


def test_stop_string(client: Client) -> None:
    """The text ends before the stop string, or with it when it is to be included; stop_reason holds it."""
    text = whole(complete(client, temperature=0, ignore_eos=True, max_tokens=24))["choices"][0]["text"]
    stop = text[5:8]
    until = text.index(stop)
    request: Json = {"temperature": 0, "ignore_eos": True, "max_tokens": 24, "stop": [stop]}
    for include, expected in ((False, text[:until]), (True, text[:until] + stop)):
        body = whole(complete(client, **request, include_stop_str_in_output=include))
        check_completion(body)
        choice = body["choices"][0]
        assert (choice["text"], choice["stop_reason"], choice["finish_reason"]) == (expected, stop, "stop")
        events = read_stream(complete(client, **request, include_stop_str_in_output=include, stream=True))
        assert check_completion_stream(events) == [expected]
        assert events[-1]["choices"][0]["stop_reason"] == stop


def test_prompt_ids_answer_as_their_text(client: Client) -> None:
    """A prompt of ids counts as many prompt tokens as it has ids."""
    assert whole(complete(client, prompt=[5, 6, 7]))["usage"]["prompt_tokens"] == 3


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_enforced_tool_call(choice: Any, client: Client) -> None:
    """required and a named tool are enforced: a call of it, finished with tool_calls, whole and streamed."""
    tool = {
        "type": "function",
        "function": {
            "name": "get_weather",
            "strict": True,
            "parameters": {"type": "object", "properties": {"dry": {"type": "boolean"}}, "required": ["dry"]},
        },
    }
    request: Json = {"tools": [tool], "tool_choice": choice, "temperature": 0, "max_tokens": 200}
    body = whole(ask(client, **request))
    check_chat(body)
    calls = body["choices"][0]["message"]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["get_weather"]
    assert list(json.loads(calls[0]["function"]["arguments"])) == ["dry"]
    events = read_stream(ask(client, **request, stream=True))
    check_chat_stream(events)
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("req_id", ["a", "my-request 7", "~" * 256])
def test_request_id_is_echoed(req_id: str, client: Client) -> None:
    """A req-id header of 1 to 256 printable ASCII characters becomes the answer's id."""
    headers = {**JSON_TYPE, "req-id": req_id}
    for path, base in ((CHAT, CHAT_BASE), (COMPLETIONS, COMPLETIONS_BASE)):
        assert whole(client.post(path, content=dumps(base), headers=headers))["id"] == req_id


@pytest.mark.parametrize("req_id", ["", "x" * 257, "tab\tinside"])
def test_unfit_request_id_is_replaced(req_id: str, client: Client) -> None:
    """An empty, too long or unprintable req-id gives way to endpoint_common_N."""
    answer = client.post(CHAT, content=dumps(CHAT_BASE), headers={**JSON_TYPE, "req-id": req_id})
    assert whole(answer)["id"].removeprefix("endpoint_common_").isdigit()


def test_ids_count_up(client: Client) -> None:
    """Two requests have different ids."""
    assert whole(ask(client))["id"] != whole(ask(client))["id"]


def test_equal_seeds_give_equal_text_and_far_seeds_do_not(client: Client) -> None:
    """Seeds beyond 32 and 63 bits are not cut: 1 and 2^32+1 differ, and so do 1 and 2^63+1."""
    texts = {
        seed: whole(ask(client, seed=seed, temperature=1.5, max_tokens=24, ignore_eos=True))["choices"][0]["message"]
        for seed in (1, 2**32 + 1, 2**63 + 1)
    }
    again = whole(ask(client, seed=1, temperature=1.5, max_tokens=24, ignore_eos=True))["choices"][0]["message"]
    assert again == texts[1]
    assert len({message["content"] for message in texts.values()}) == 3


def test_list_content_reads_as_joined_text(client: Client) -> None:
    """Text parts are joined for a text model: the same greedy answer as the joined string."""
    parts = [{"type": "text", "text": "Hello, "}, {"type": "text", "text": "world"}]
    joined = whole(ask(client, **EXACT, messages=said("Hello, world")))
    split = whole(ask(client, **EXACT, messages=said(parts)))
    assert split["choices"][0]["message"] == joined["choices"][0]["message"]
    assert split["usage"]["prompt_tokens"] == joined["usage"]["prompt_tokens"]
