"""The shape of streams, typed from the contract: SSE framing and headers, events of both endpoints, beams."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from shapes import (
    Json,
    check_chat_logprobs,
    check_completion_choice,
    check_envelope,
    check_finish,
    check_indices,
    check_message,
    check_offsets,
    check_tokens,
    check_total_usage,
    check_usage,
    keys,
    require,
    text,
)
from wire import Answer, told

DELTA = ["role", "content", "reasoning_content", "tool_calls"]


def read_stream(answer: Answer) -> list[Json]:
    """The events of a stream answer; asserts the headers, the framing, and [DONE] once and last."""
    require(answer.status_code == 200, "status 200", told(answer))
    require(answer.headers["content-type"].startswith("text/event-stream"), "SSE", answer.headers["content-type"])
    require(answer.headers["cache-control"] == "no-cache", "Cache-Control: no-cache", dict(answer.headers))
    require(answer.headers["x-accel-buffering"] == "no", "X-Accel-Buffering: no", dict(answer.headers))
    body = answer.content.decode("utf-8")
    require(body.endswith("\n\n"), "a stream ends with an empty line", body[-40:])
    blocks = body.removesuffix("\n\n").split("\n\n")
    for block in blocks:
        require(block.startswith("data: ") and "\n" not in block, "an event is one data line", block)
    payloads = [block.removeprefix("data: ") for block in blocks]
    require(payloads[-1] == "[DONE]", "[DONE] ends the stream", payloads[-1])
    require("[DONE]" not in payloads[:-1], "[DONE] comes once", payloads.count("[DONE]"))
    return [json.loads(payload) for payload in payloads[:-1]]


def check_same_envelope(events: Sequence[Json], kind: str, model: str | None) -> None:
    """All events of a stream share id, created and model."""
    require(events, "a stream has events")
    for event in events:
        check_envelope(event, kind, model)
        for name in ("id", "created", "model"):
            require(event[name] == events[0][name], f"{name} is the same in all events", event)


def by_choice(events: Sequence[Json], choices: int) -> list[list[Json]]:
    """The events of each choice; asserts one choice an event, and one final event with usage for each choice."""
    sorted_events: list[list[Json]] = [[] for _ in range(choices)]
    for event in events:
        require(len(event["choices"]) == 1, "an event has one choice", event)
        index = event["choices"][0]["index"]
        require(index in range(choices), f"index is 0 to {choices - 1}", event)
        sorted_events[index].append(event)
    for index, own in enumerate(sorted_events):
        require(own, f"choice {index} has events")
        finals = [event for event in own if event["choices"][0]["finish_reason"] is not None]
        require(finals == own[-1:], f"choice {index} finishes once, in its last event", finals)
        carriers = [event for event in own if "usage" in event]
        require(carriers == own[-1:], f"usage of choice {index} comes once, in its last event", carriers)
    return sorted_events


def check_final_usage(event: Json, choices: int, tokens: int | None, *, thinking: bool) -> None:
    """The usage of a choice's last event counts that choice's own tokens."""
    usage = event["usage"]
    rounds = check_usage(usage, thinking=thinking)
    own = usage["completion_tokens"]
    if choices == 1:
        require(rounds == own, "one choice has as many rounds as tokens", usage)
    else:
        require(rounds >= own, "there are at least as many rounds as tokens of a choice", usage)
    if tokens is not None:
        require(own == tokens, f"the events' logprobs show {tokens} tokens", usage)


def check_chat_stream(
    events: Sequence[Json],
    *,
    model: str | None = None,
    choices: int = 1,
    top: int | None = None,
    thinking: bool = False,
    openai_form: bool = False,
    full_text: bool = False,
) -> list[str]:
    """A chat stream (no beams); returns the text of each choice."""
    check_same_envelope(events, "chat.completion.chunk", model)
    texts: list[str] = []
    for own in by_choice(events, choices):
        joined: list[str] = []
        tokens = 0
        for position, event in enumerate(own):
            last = position == len(own) - 1
            extras = [*(["full_text"] if full_text and last else []), *(["usage"] if last else [])]
            keys(event, ["id", "object", "created", "model", *extras, "choices"], "a chat event")
            choice = event["choices"][0]
            keys(choice, ["index", "delta", "logprobs", "finish_reason"], "a chat event's choice")
            check_delta(choice["delta"], first=position == 0, openai_form=openai_form)
            if "content" in choice["delta"]:
                joined.append(choice["delta"]["content"] or "")
            if choice["logprobs"] is not None:
                require(top is not None, "logprobs are null when not asked for", choice)
                tokens += check_chat_logprobs(choice["logprobs"], top or 0)
        check_finish(own[-1]["choices"][0]["finish_reason"], chat=True)
        check_final_usage(own[-1], choices, tokens if top is not None else None, thinking=thinking)
        if full_text:
            growing = all(after.startswith(before) for before, after in pairwise(joined))
            require(growing, "with full_text each delta holds the text so far", joined)
            require(own[-1]["full_text"] == joined[-1], "full_text is the last delta's text", own[-1])
            texts.append(joined[-1])
        else:
            texts.append("".join(joined))
    return texts


def check_delta(delta: Json, *, first: bool, openai_form: bool) -> None:
    """A delta: the first has role and empty content; in MindIE's form every one repeats the role."""
    keys(delta, DELTA, "delta", optional=DELTA)
    if first:
        require(delta == {"role": "assistant", "content": ""}, "the first delta has the role and empty content", delta)
    elif openai_form:
        require("role" not in delta, "in OpenAI's form only the first delta has the role", delta)
    else:
        require(delta.get("role") == "assistant", "every delta repeats the role", delta)


def check_completion_stream(
    events: Sequence[Json],
    *,
    model: str | None = None,
    choices: int = 1,
    top: int | None = None,
    thinking: bool = False,
) -> list[str]:
    """A completions stream (no beams); returns the text of each choice."""
    check_same_envelope(events, "text_completion", model)
    texts: list[str] = []
    for own in by_choice(events, choices):
        tokens = 0
        joined: Json = {"index": own[0]["choices"][0]["index"], "text": ""}
        joined["logprobs"] = {"text_offset": [], "tokens": []}
        for position, event in enumerate(own):
            last = position == len(own) - 1
            keys(event, ["id", "object", "created", "model", "choices", *(["usage"] if last else [])], "an event")
            choice = event["choices"][0]
            tokens += check_completion_choice(choice, top)
            joined["text"] += choice["text"]
            for name in ("text_offset", "tokens"):
                joined["logprobs"][name] += (choice["logprobs"] or {}).get(name, [])
        first = own[0]["choices"][0]
        empty = first["text"] == "" and first["logprobs"] is None and first["finish_reason"] is None
        require(not empty, "a completions stream has no empty first event", own[0])
        check_finish(own[-1]["choices"][0]["finish_reason"], chat=False)
        check_final_usage(own[-1], choices, tokens if top is not None else None, thinking=thinking)
        if top is not None:
            check_offsets([joined])
        texts.append(joined["text"])
    return texts


def check_chat_beams_stream(events: Sequence[Json], *, model: str | None, choices: int, top: int | None = None) -> None:
    """Chat beams in one event: all choices, the text in delta and again in message, and the total usage."""
    require(len(events) == 1, "beams come in one event", len(events))
    event = events[0]
    keys(event, ["id", "object", "created", "model", "usage", "choices"], "a chat event")
    check_envelope(event, "chat.completion.chunk", model)
    check_indices(event["choices"], choices)
    tokens = []
    for choice in event["choices"]:
        require(
            set(choice) == {"index", "delta", "message", "logprobs", "finish_reason"}, "keys of a beam", list(choice)
        )
        require(choice["delta"].get("role") == "assistant", "delta has the role", choice)
        check_message(choice["message"])
        require(choice["delta"]["content"] == choice["message"]["content"], "delta and message agree", choice)
        check_finish(choice["finish_reason"], chat=True)
        if top is None:
            require(choice["logprobs"] is None, "logprobs are null when not asked for", choice)
        else:
            tokens.append(check_chat_logprobs(choice["logprobs"], top))
    rounds = check_total_usage(event["usage"], choices)
    check_tokens(event["usage"], tokens, rounds)


def check_completion_beams_stream(
    events: Sequence[Json], *, model: str | None, choices: int, top: int | None = None
) -> None:
    """Completions beams in one event: all choices and the total usage, offsets running on."""
    require(len(events) == 1, "beams come in one event", len(events))
    event = events[0]
    keys(event, ["id", "object", "created", "model", "choices", "usage"], "a completions event")
    check_envelope(event, "text_completion", model)
    check_indices(event["choices"], choices)
    tokens = [check_completion_choice(choice, top) for choice in event["choices"]]
    for choice in event["choices"]:
        check_finish(choice["finish_reason"], chat=False)
    rounds = check_total_usage(event["usage"], choices)
    if top is not None:
        check_tokens(event["usage"], tokens, rounds)
        check_offsets(event["choices"])


def check_stream_error(events: Sequence[Any], sentence: str) -> Json:
    """A failure in mid-stream: the last event holds the error, and no choice finished; returns the error object."""
    last = events[-1]
    keys(last, ["error", "error_type"], "the error event")
    keys(last["error"], ["message", "type", "param", "code"], "the error event's error")
    text(last["error"]["message"], "message")
    require(sentence in last["error"]["message"], f"the message says {sentence!r}", last)
    require(last["error"]["type"] == last["error_type"], "type and error_type agree", last)
    for event in events[:-1]:
        for choice in event["choices"]:
            require(choice["finish_reason"] is None, "no choice of a failed stream finishes", event)
    return dict(last["error"])
