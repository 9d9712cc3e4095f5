"""The shape of every answer, typed from the contract: key order, nulls, lengths and sums.

Each check raises AssertionError with a sentence.  `check_*_stream` take the events of one stream, without [DONE].
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from wire import Answer, told

Json = dict[str, Any]

FINISH = ("stop", "length", "tool_calls")


def require(condition: object, sentence: str, value: Any = None) -> None:
    """Raise AssertionError with the sentence and the value, cut, unless the condition holds."""
    if not condition:
        raise AssertionError(f"{sentence}: {str(value)[:400]}")


def keys(value: Any, required: Sequence[str], what: str, optional: Sequence[str] = ()) -> None:
    """Assert that an object has these keys in this order; the optional ones may be absent."""
    require(isinstance(value, Mapping), f"{what} is an object", value)
    expected = [name for name in required if name in value or name not in optional]
    require(list(value) == expected, f"{what} has the keys {expected} in this order, not {list(value)}", value)


def integer(value: Any, least: int, what: str) -> None:
    """Assert an integer (no boolean, no float) of at least this."""
    require(type(value) is int and value >= least, f"{what} is an integer of at least {least}", value)


def number(value: Any, what: str) -> None:
    """Assert a number that is not negative."""
    require(type(value) in (int, float) and value >= 0, f"{what} is a number of at least 0", value)


def text(value: Any, what: str) -> None:
    """Assert a string."""
    require(isinstance(value, str), f"{what} is a string", value)


def check_envelope(answer: Json, kind: str, model: str | None) -> None:
    """id, object, created and model."""
    require(isinstance(answer["id"], str) and answer["id"], "id is a non-empty string", answer["id"])
    require(answer["object"] == kind, f"object is {kind}", answer["object"])
    integer(answer["created"], 1, "created")
    require(answer["created"] < 10**11, "created is in seconds", answer["created"])
    require(model is None or answer["model"] == model, f"model is {model}", answer["model"])


def check_usage(usage: Json, *, thinking: bool = False) -> int:
    """usage: its keys, its sum, and its two lists of one entry a round; returns the rounds."""
    details = ["completion_tokens_details"] if thinking else []
    keys(
        usage,
        [
            "prompt_tokens",
            "prompt_tokens_details",
            "completion_tokens",
            *details,
            "total_tokens",
            "batch_size",
            "queue_wait_time",
        ],
        "usage",
    )
    integer(usage["prompt_tokens"], 1, "prompt_tokens")
    keys(usage["prompt_tokens_details"], ["cached_tokens"], "prompt_tokens_details")
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    integer(cached, 0, "cached_tokens")
    require(cached <= usage["prompt_tokens"], "cached_tokens are no more than prompt_tokens", usage)
    integer(usage["completion_tokens"], 1, "completion_tokens")
    if thinking:
        keys(usage["completion_tokens_details"], ["reasoning_tokens"], "completion_tokens_details")
        integer(usage["completion_tokens_details"]["reasoning_tokens"], 0, "reasoning_tokens")
    total = usage["prompt_tokens"] + usage["completion_tokens"]
    require(usage["total_tokens"] == total, "total_tokens is the sum of prompt and completion tokens", usage)
    rounds = len(usage["batch_size"])
    require(len(usage["queue_wait_time"]) == rounds, "batch_size and queue_wait_time are of one length", usage)
    for size in usage["batch_size"]:
        integer(size, 1, "an entry of batch_size")
    for wait in usage["queue_wait_time"]:
        integer(wait, 0, "an entry of queue_wait_time")
    return rounds


def check_total_usage(usage: Json, choices: int, *, thinking: bool = False) -> int:
    """usage over all choices: as many rounds as the longest choice has tokens; returns the rounds."""
    rounds = check_usage(usage, thinking=thinking)
    tokens = usage["completion_tokens"]
    require(rounds <= tokens <= rounds * choices, f"{tokens} tokens of {choices} choices fit {rounds} rounds", usage)
    return rounds


def check_finish(reason: Any, *, chat: bool) -> None:
    """A final finish_reason."""
    options = FINISH if chat else FINISH[:2]
    require(reason in options, f"finish_reason is one of {options}", reason)


def check_tool_calls(calls: Any) -> None:
    """Whole tool calls: function with arguments as JSON text, an id, and the type."""
    require(isinstance(calls, list), "tool_calls is a list", calls)
    for call in calls:
        require(set(call) >= {"function", "id", "type"}, "a tool call has function, id and type", call)
        require(call["type"] == "function", "a tool call's type is function", call)
        require(isinstance(call["id"], str) and call["id"], "a tool call has an id", call)
        require(set(call["function"]) == {"name", "arguments"}, "a call's function has name and arguments", call)
        require(isinstance(json.loads(call["function"]["arguments"]), dict), "arguments are a JSON object", call)
    require(len({call["id"] for call in calls}) == len(calls), "tool calls have ids of their own", calls)


def check_chat_logprobs(logprobs: Any, top: int) -> int:
    """The logprobs of a chat choice with `top` candidates for each token; returns the number of tokens."""
    keys(logprobs, ["content"], "chat logprobs")
    for entry in logprobs["content"]:
        keys(entry, ["token", "logprob", "bytes", "top_logprobs"], "a token's logprobs")
        check_token(entry)
        candidates = entry["top_logprobs"]
        require(len(candidates) == top, f"a token has {top} candidates", candidates)
        for candidate in candidates:
            keys(candidate, ["token", "logprob", "bytes"], "a candidate")
            check_token(candidate)
        require(descending([one["logprob"] for one in candidates]), "candidates descend", candidates)
        if candidates and entry["logprob"] > candidates[-1]["logprob"]:
            same = any(one["token"] == entry["token"] for one in candidates)
            require(same, "a token likelier than the last candidate is a candidate", entry)
    return len(logprobs["content"])


def check_token(entry: Json) -> None:
    """token, logprob and bytes of a token or candidate."""
    text(entry["token"], "token")
    require(isinstance(entry["logprob"], float | int) and entry["logprob"] <= 1e-6, "a logprob is at most 0", entry)
    require(
        entry["bytes"] is None or all(type(byte) is int and 0 <= byte <= 255 for byte in entry["bytes"]),
        "bytes are 0 to 255",
        entry,
    )


def descending(values: Sequence[float]) -> bool:
    """Whether no value is above the one before it."""
    return all(before >= after for before, after in pairwise(values))


def check_completion_logprobs(logprobs: Any, top: int) -> int:
    """The logprobs of a completions choice asked for `top`; returns the number of tokens."""
    keys(logprobs, ["text_offset", "token_logprobs", "tokens", "top_logprobs"], "completions logprobs")
    count = len(logprobs["tokens"])
    for name in ("text_offset", "token_logprobs", "top_logprobs"):
        require(len(logprobs[name]) == count, f"{name} has one entry for each token", logprobs)
    require(descending([-offset for offset in logprobs["text_offset"]]), "text_offset never falls", logprobs)
    for token, value, candidates in zip(
        logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True
    ):
        text(token, "a token")
        require(value <= 1e-6, "a logprob is at most 0", value)
        require(1 <= len(candidates) <= top + 1, f"top_logprobs holds 1 to {top + 1} tokens", candidates)
        names = list(candidates)
        require(names[0] == token, "the chosen token stands first", (token, candidates))
        require(candidates[token] == value, "the chosen token has its own logprob", (value, candidates))
        require(descending([candidates[name] for name in names[1:]]), "the others descend", candidates)
    return count


def check_offsets(choices: Sequence[Json], start: int = 0) -> None:
    """text_offset in code points, running on over the choices from `start`, where tokens spell the text."""
    for choice in choices:
        offsets = choice["logprobs"]["text_offset"]
        tokens = choice["logprobs"]["tokens"]
        if offsets:
            require(offsets[0] == start, f"the first token of choice {choice['index']} is at {start}", offsets)
        if "".join(tokens) == choice["text"]:
            expected = [start + sum(len(token) for token in tokens[:index]) for index in range(len(tokens))]
            require(offsets == expected, f"text_offset is {expected}", offsets)
        start += len(choice["text"])


def check_indices(choices: Sequence[Json], count: int) -> None:
    """As many choices as asked for, numbered in order."""
    require([choice["index"] for choice in choices] == list(range(count)), f"choices are 0 to {count - 1}", choices)


def check_message(message: Json, *, thinking: bool = False) -> None:
    """The message of a whole chat choice."""
    reasoning = ["reasoning_content"] if thinking else []
    keys(message, ["role", "content", *reasoning, "tool_calls"], "message")
    require(message["role"] == "assistant", "role is assistant", message)
    require(message["content"] is None or isinstance(message["content"], str), "content is text", message)
    check_tool_calls(message["tool_calls"])


def check_chat(
    answer: Json, *, model: str | None = None, choices: int = 1, top: int | None = None, thinking: bool = False
) -> None:
    """A whole chat answer with this many choices; top: the candidates asked for, None for no logprobs."""
    keys(
        answer,
        ["id", "object", "created", "model", "choices", "usage", "prefill_time", "decode_time_arr"],
        "a chat answer",
    )
    check_envelope(answer, "chat.completion", model)
    check_indices(answer["choices"], choices)
    tokens: list[int] = []
    for choice in answer["choices"]:
        keys(choice, ["index", "message", "logprobs", "finish_reason"], "a chat choice")
        check_message(choice["message"], thinking=thinking)
        check_finish(choice["finish_reason"], chat=True)
        called = bool(choice["message"]["tool_calls"])
        require(called == (choice["finish_reason"] == "tool_calls"), "tool_calls end with tool_calls", choice)
        if top is None:
            require(choice["logprobs"] is None, "logprobs are null when not asked for", choice)
        else:
            tokens.append(check_chat_logprobs(choice["logprobs"], top))
    rounds = check_total_usage(answer["usage"], choices, thinking=thinking)
    check_tokens(answer["usage"], tokens, rounds)
    number(answer["prefill_time"], "prefill_time")
    require(len(answer["decode_time_arr"]) == rounds - 1, "decode_time_arr has one entry less than rounds", answer)
    for time_ms in answer["decode_time_arr"]:
        number(time_ms, "an entry of decode_time_arr")


def check_tokens(usage: Json, tokens: Sequence[int], rounds: int) -> None:
    """Where logprobs show each choice's tokens: usage counts them all, and the longest makes the rounds."""
    if tokens:
        require(sum(tokens) == usage["completion_tokens"], f"completion_tokens is the sum of {tokens}", usage)
        require(max(tokens) == rounds, f"there are as many rounds as tokens in the longest of {tokens}", usage)


def check_completion(
    answer: Json, *, model: str | None = None, choices: int = 1, top: int | None = None, thinking: bool = False
) -> None:
    """A whole completions answer with this many choices; top: the logprobs asked for, None for none."""
    keys(answer, ["id", "object", "created", "model", "choices", "usage"], "a completions answer")
    check_envelope(answer, "text_completion", model)
    check_indices(answer["choices"], choices)
    tokens = [check_completion_choice(choice, top) for choice in answer["choices"]]
    for choice in answer["choices"]:
        check_finish(choice["finish_reason"], chat=False)
    rounds = check_total_usage(answer["usage"], choices, thinking=thinking)
    if top is not None:
        check_tokens(answer["usage"], tokens, rounds)
        check_offsets(answer["choices"])


def check_completion_choice(choice: Json, top: int | None) -> int:
    """A choice of a whole completions answer or of an event; returns the tokens that its logprobs show."""
    keys(choice, ["index", "text", "logprobs", "stop_reason", "finish_reason"], "a completions choice")
    text(choice["text"], "text")
    reason = choice["stop_reason"]
    require(reason is None or type(reason) in (str, int), "stop_reason is a string, an id or null", reason)
    require(reason is None or choice["finish_reason"] == "stop", "only a stop has a stop_reason", choice)
    if top is None:
        require(choice["logprobs"] is None, "logprobs are null when not asked for", choice)
        return 0
    return check_completion_logprobs(choice["logprobs"], top) if choice["logprobs"] is not None else 0


def mean_logprobs(answer: Json) -> list[float]:
    """The mean logprob of each choice of a whole answer of either endpoint that shows logprobs."""
    means = []
    for choice in answer["choices"]:
        logprobs = choice["logprobs"]
        chat = "content" in logprobs
        values = [entry["logprob"] for entry in logprobs["content"]] if chat else logprobs["token_logprobs"]
        means.append(sum(values) / len(values))
    return means


def check_best_first(answer: Json) -> None:
    """Choices sorted by mean logprob, best first."""
    means = mean_logprobs(answer)
    require(all(before >= after - 1e-9 for before, after in pairwise(means)), "choices descend by mean logprob", means)


def check_whole_headers(answer: Answer) -> None:
    """A whole answer is 200 and JSON."""
    require(answer.status_code == 200, "status 200", told(answer))
    require(answer.headers["content-type"].startswith("application/json"), "JSON", answer.headers["content-type"])
