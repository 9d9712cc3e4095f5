"""Answers and streams as the contract has them, written by hand, for tests that break them in one place."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from generated.operations import WIRE
from tools.laws.answers import Answers
from tools.laws.asked import Asked
from tools.laws.breach import Breach
from tools.laws.requests import Requests

Json = dict[str, Any]
CHAT, COMPLETION = WIRE["create_chat_completion"], WIRE["create_completion"]
JSON_HEADERS = {"Content-Type": "application/json"}
STREAM_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def chat(headers: Mapping[str, str] | None = None, **members: Any) -> Asked:
    """What a chat request asks."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **members}
    return _asked("create_chat_completion", body, headers or {})


def completion(headers: Mapping[str, str] | None = None, **members: Any) -> Asked:
    """What a completions request asks."""
    return _asked("create_completion", {"model": "m", "prompt": "Hi", **members}, headers or {})


def _asked(operation: str, body: Json, headers: Mapping[str, str]) -> Asked:
    read = Requests().judge(WIRE[operation], json.dumps(body).encode(), headers)
    assert read.breaches == []
    assert read.asked is not None
    return read.asked


def usage(tokens: int, rounds: int | None = None) -> Json:
    """The usage of so many tokens after a prompt of five."""
    rounds = tokens if rounds is None else rounds
    return {
        "prompt_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens": tokens,
        "total_tokens": 5 + tokens,
        "batch_size": [1] * rounds,
        "queue_wait_time": [0] * rounds,
    }


def token(text: str, *others: str) -> Json:
    """A chat token with itself and others as candidates."""
    candidates = [
        {"token": name, "logprob": -0.5 - place, "bytes": list(name.encode())}
        for place, name in enumerate((text, *others))
    ]
    return {"token": text, "logprob": -0.5, "bytes": list(text.encode()), "top_logprobs": candidates}


def whole_chat(*texts: str, tokens: int = 3) -> Json:
    """A whole chat answer with these choices, each of so many tokens."""
    texts = texts or ("abc",)
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text, "tool_calls": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
        for index, text in enumerate(texts)
    ]
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    times = {"prefill_time": 3, "decode_time_arr": [1] * (tokens - 1)}
    return {**head, "choices": choices, "usage": usage(tokens * len(texts), tokens), **times}


def whole_completion(*texts: str, logprobs: bool = False) -> Json:
    """A whole completions answer with these choices, a token a character."""
    texts = texts or ("abc",)
    choices, start = [], 0
    for index, text in enumerate(texts):
        shown = completion_logprobs(text, start) if logprobs else None
        choices.append(
            {"index": index, "text": text, "logprobs": shown, "stop_reason": None, "finish_reason": "length"}
        )
        start += len(text)
    head = {"id": "x", "object": "text_completion", "created": 1, "model": "m"}
    return {**head, "choices": choices, "usage": usage(start, max(map(len, texts)))}


def completion_logprobs(text: str, start: int = 0) -> Json:
    """One token a character, each with the other candidate ``?``."""
    return {
        "text_offset": [start + place for place in range(len(text))],
        "token_logprobs": [-0.5] * len(text),
        "tokens": list(text),
        "top_logprobs": [{letter: -0.5, "?": -1.5} for letter in text],
    }


def chat_event(index: int, delta: Json, finish: str | None = None, **more: Any) -> Json:
    """One event of a chat stream."""
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, **more, "choices": [choice]}


def chat_events(text: str = "abc", index: int = 0, *, openai: bool = False) -> list[Json]:
    """The events of one chat choice, a character a token."""
    role = {} if openai else {"role": "assistant"}
    first = chat_event(index, {"role": "assistant", "content": ""})
    middle = [chat_event(index, {**role, "content": letter}) for letter in text[:-1]]
    last = chat_event(index, {**role, "content": text[-1:]}, "length", usage=usage(len(text)))
    return [first, *middle, last]


def completion_events(text: str = "abc", index: int = 0, *, logprobs: bool = False) -> list[Json]:
    """The events of one completions choice, a character a token."""
    head = {"id": "x", "object": "text_completion", "created": 1, "model": "m"}
    events = []
    for place, letter in enumerate(text):
        shown = completion_logprobs(letter, place) if logprobs else None
        finish = "length" if place == len(text) - 1 else None
        choice = {"index": index, "text": letter, "logprobs": shown, "stop_reason": None, "finish_reason": finish}
        more = {"usage": usage(len(text))} if finish else {}
        events.append({**head, "choices": [choice], **more})
    return events


def calls_events(*pieces: Json, finish: str = "tool_calls") -> list[Json]:
    """A chat stream with these pieces of tool calls."""
    first, *_, last = chat_events("abc")
    middle = [chat_event(0, {"role": "assistant", "tool_calls": [piece]}) for piece in pieces]
    ended = copy.deepcopy(last)
    ended["choices"][0] |= {"finish_reason": finish, "delta": {"role": "assistant", "content": ""}}
    return [first, *middle, ended]


def sse(events: Sequence[Json | str]) -> bytes:
    """Events as they go over the wire; text stands for itself."""
    return b"".join(
        b"data: " + (event if isinstance(event, str) else json.dumps(event)).encode() + b"\n\n" for event in events
    )


def judged_stream(asked: Asked, events: Sequence[Json | str], done: bool = True) -> list[Breach]:
    """The breaches of a recorded stream."""
    body = sse([*events, *(["[DONE]"] if done else [])])
    return Answers().breaches(asked, 200, STREAM_HEADERS, body)


def judged(asked: Asked, answer: Json | bytes, status: int = 200, **headers: str) -> list[Breach]:
    """The breaches of a whole answer or an error."""
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return Answers().breaches(asked, status, JSON_HEADERS | headers, body)


def laws(found: Sequence[Breach]) -> list[str]:
    """The ids alone."""
    return [breach.law for breach in found]
