"""Streamed answers of a real model against whole ones: stops inside tokens, split characters, special tokens."""

from __future__ import annotations

from typing import Any

import pytest
from real_server import CHAT, COMPLETIONS, RealServer, joined, reasons, texts

pytestmark = pytest.mark.weights

FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
EMOJI = {"prompt": "I love 🍕 and 🎉! 🎉🍕🎉🍕", "ignore_eos": True}
CHINESE = {"prompt": "你好，世界。你好，世界。你好", "ignore_eos": True}
CHAT_BODY = {"messages": FRANCE, "ignore_eos": True}


def same_both_ways(server: RealServer, path: str, **body: Any) -> dict[str, Any]:
    """The whole answer to a greedy request for one choice, after checking that its stream says the same."""
    body = {"temperature": 0, "max_tokens": 10, **body}
    whole = server.whole(path, **body)
    streamed = joined(server.events(path, **body))[0]
    assert [streamed["text"]] == texts(whole)
    assert streamed["finishes"] == reasons(whole)
    (choice,) = whole["choices"]
    assert streamed["stop_reason"] == choice.get("stop_reason")
    for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert streamed["usage"][count] == whole["usage"][count]
    rounds = whole["usage"]["completion_tokens"]
    for usage in (streamed["usage"], whole["usage"]):
        assert len(usage["batch_size"]) == len(usage["queue_wait_time"]) == rounds
    return whole


@pytest.fixture(scope="module", params=[EMOJI, CHINESE, CHAT_BODY], ids=["emoji", "chinese", "chat"])
def unstopped(request: pytest.FixtureRequest, server: RealServer) -> tuple[str, dict[str, Any], str]:
    """(path, body, text) of an answer without stops, in whose text stop strings are looked for."""
    body: dict[str, Any] = request.param
    path = CHAT if "messages" in body else COMPLETIONS
    (text,) = texts(same_both_ways(server, path, **body))
    return path, body, text


@pytest.mark.parametrize(("listed", "include"), [(False, True), (True, False)])
def test_a_stop_string_cuts_the_text_where_it_ends_first(
    server: RealServer, unstopped: tuple[str, dict[str, Any], str], listed: bool, include: bool
) -> None:
    """A stop string from the middle of the text, across tokens: the stream and the whole end there alike."""
    path, body, text = unstopped
    middle = len(text) // 2
    stop = text[middle - 1 : middle + 1]
    sent = ["never said", text[-1] + "never", stop] if listed else stop
    answer = same_both_ways(server, path, **body, stop=sent, include_stop_str_in_output=include)
    end = text.index(stop) + (len(stop) if include else 0)
    assert texts(answer) == [text[:end]]
    assert reasons(answer) == ["stop"]
    assert answer["choices"][0].get("stop_reason", stop) == stop


@pytest.mark.parametrize(("skip", "shown"), [(True, ""), (False, "<|im_end|>")])
def test_an_ignored_eos_is_text_unless_special_tokens_are_skipped(server: RealServer, skip: bool, shown: str) -> None:
    """The answer goes on after it, to the budget."""
    body = {"messages": FRANCE, "ignore_eos": True, "skip_special_tokens": skip}
    (text,) = texts(same_both_ways(server, CHAT, **body))
    assert text.startswith(f"The capital of France is Paris.{shown}")
    assert ("<|im_end|>" in text) == (not skip)


def test_eos_ends_the_answer_and_is_counted_but_not_shown(server: RealServer) -> None:
    """Seven tokens of text and EOS, also where special tokens are shown."""
    answer = same_both_ways(server, CHAT, messages=FRANCE, skip_special_tokens=False)
    assert texts(answer) == ["The capital of France is Paris."]
    assert (answer["usage"]["completion_tokens"], reasons(answer)) == (8, ["stop"])


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_token_ends_the_answer(server: RealServer, include: bool) -> None:
    """Its text is kept only where stops are included; it is counted and named in both forms."""
    (paris,) = server.front.tokenizer.encode(" Paris", add_special_tokens=False)
    prompt = "The capital of France is"
    body = {"prompt": prompt, "stop_token_ids": [paris], "include_stop_str_in_output": include}
    answer = same_both_ways(server, COMPLETIONS, **body)
    assert texts(answer) == [" Paris" if include else ""]
    assert (answer["choices"][0]["stop_reason"], answer["usage"]["completion_tokens"]) == (paris, 1)


def test_several_sampled_choices_stream_as_they_are_whole(server: RealServer) -> None:
    """Three choices with logprobs: each one's texts, tokens, logprobs and counts."""
    body = {"prompt": "🎉 Hi", "n": 3, "seed": 4, "temperature": 1.5, "max_tokens": 5, "logprobs": 2}
    whole = server.whole(**body)
    streamed = joined(server.events(**body))
    assert [streamed[index]["text"] for index in range(3)] == texts(whole)
    assert (
        sum(streamed[index]["usage"]["completion_tokens"] for index in range(3))
        == (whole["usage"]["completion_tokens"])
    )
    for index, choice in enumerate(whole["choices"]):
        for kind in ("tokens", "token_logprobs", "top_logprobs"):
            events = streamed[index]["logprobs"]
            assert [entry for event in events for entry in event[kind]] == choice["logprobs"][kind]
