"""For each mutant a request, and whether its answer keeps what the contract promises: true of a good server only."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx

CHAT: Final = "/v1/chat/completions"
TEXT: Final = "/v1/completions"
_SEEDS: Final = range(1, 25)


class Ask:
    """A client of one server."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=60.0)

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def __call__(self, path: str, **members: Any) -> httpx.Response:
        """The answer to a request with a short prompt and these members besides."""
        said: dict[str, Any] = {"prompt": "Tell me"} if path == TEXT else {"messages": [_user("Tell me")]}
        return self._client.post(path, json={"model": "mock", **said, **members})

    def status(self, path: str, **members: Any) -> int:
        """The status alone."""
        return self(path, **members).status_code

    def choices(self, path: str, **members: Any) -> Any:
        """The choices of a whole answer."""
        return self(path, **members).json()["choices"]

    def texts(self, **members: Any) -> list[str]:
        """The texts of a whole completion, or of a streamed one, by choice."""
        if not members.get("stream"):
            return [choice["text"] for choice in self.choices(TEXT, **members)]
        found: dict[int, str] = {}
        for event in self.events(TEXT, **members):
            for choice in event["choices"]:
                found[choice["index"]] = found.get(choice["index"], "") + choice["text"]
        return [found[index] for index in sorted(found)]

    def data(self, path: str, **members: Any) -> list[str]:
        """What the events of a stream hold, as text."""
        lines = self(path, stream=True, **members).text.split("\n\n")
        return [line.removeprefix("data: ") for line in lines if line]

    def events(self, path: str, **members: Any) -> list[Any]:
        """The same but for [DONE], parsed."""
        members.pop("stream", None)
        return [json.loads(text) for text in self.data(path, **members) if text != "[DONE]"]


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _first_role(ask: Ask) -> bool:
    """Each choice of a chat stream begins with role and empty content."""
    first: dict[int, Any] = {}
    for event in ask.events(CHAT, n=3, max_tokens=3):
        for choice in event["choices"]:
            first.setdefault(choice["index"], choice["delta"])
    return all(delta == {"role": "assistant", "content": ""} for delta in first.values())


def _usage_first(ask: Ask) -> bool:
    """usage stands before choices in a chat event."""
    keys = [list(event) for event in ask.events(CHAT, max_tokens=3) if "usage" in event]
    return keys == [["id", "object", "created", "model", "usage", "choices"]]


def _nothing_after_finish(ask: Ask) -> bool:
    """The event with a choice's finish_reason is its last."""
    reasons = [event["choices"][0]["finish_reason"] for event in ask.events(TEXT, max_tokens=3)]
    return reasons[-1] is not None


def _end_counted(ask: Ask) -> bool:
    """completion_tokens is the number of entries of logprobs, of which the end of sequence is one."""
    answer = ask(CHAT, logprobs=True, seed=1, max_tokens=200).json()
    choice = answer["choices"][0]
    counted = len(choice["logprobs"]["content"]) == answer["usage"]["completion_tokens"]
    return choice["finish_reason"] == "stop" and counted


def _none_cached(ask: Ask) -> bool:
    """Of a prompt that nobody has sent before nothing is cached."""
    usage = ask(TEXT, prompt="Zq7 never sent before", max_tokens=1).json()["usage"]
    return bool(usage["prompt_tokens_details"]["cached_tokens"] == 0)


def _sums_choices(ask: Ask) -> bool:
    """A whole answer counts all choices."""
    usage = ask(TEXT, n=2, max_tokens=4, ignore_eos=True).json()["usage"]
    return bool(usage["completion_tokens"] == 8)


def _own_usage(ask: Ask) -> bool:
    """A stream's last event of a choice counts this choice."""
    events = ask.events(CHAT, n=2, max_tokens=4, ignore_eos=True)
    return [event["usage"]["completion_tokens"] for event in events if "usage" in event] == [4, 4]


def _same(ask: Ask, **members: Any) -> bool:
    """The same request gives the same texts."""
    return ask.texts(max_tokens=30, **members) == ask.texts(max_tokens=30, **members)


def _cut_at_last_token(ask: Ask) -> bool:
    """A stop string is cut where it ends with the last token, too."""
    text = ask.texts(temperature=0, max_tokens=6, ignore_eos=True)[0]
    stop = next(text[-length:] for length in range(1, 9) if text.index(text[-length:]) == len(text) - length)
    return ask.texts(temperature=0, max_tokens=6, ignore_eos=True, stop=stop)[0] == text[: -len(stop)]


def _white_space_stays(ask: Ask) -> bool:
    """Of the text before a stop string nothing is cut."""
    text = ask.texts(temperature=0, max_tokens=40, ignore_eos=True)[0]
    words = [word for word in text.split(" ")[1:-1] if len(word) > 1]
    return all(
        ask.texts(temperature=0, max_tokens=40, ignore_eos=True, stop=word)[0] == text[: text.index(word)]
        for word in words
    )


def _stop_inside_token(ask: Ask) -> bool:
    """A stop string that ends inside a token is found."""
    choice = ask.choices(TEXT, temperature=0, max_tokens=40, ignore_eos=True, logprobs=0)[0]
    token = next(token for token in choice["logprobs"]["tokens"] if len(token) > 3 and token.isascii())
    stop, text = token[:3], choice["text"]
    return ask.texts(temperature=0, max_tokens=40, ignore_eos=True, stop=stop)[0] == text[: text.index(stop)]


def _stop_token_told(ask: Ask) -> bool:
    """A stream says which stop token ended it."""
    last = ask.events(TEXT, stop_token_ids=list(range(256)), max_tokens=100, ignore_eos=True)[-1]["choices"][0]
    return isinstance(last["stop_reason"], int)


def _stop_token_kept(ask: Ask) -> bool:
    """The text of a stop token stays where it is asked for."""
    members: dict[str, Any] = {"stop_token_ids": list(range(256)), "max_tokens": 100, "temperature": 0}
    without = ask.texts(**members)[0]
    return len(ask.texts(include_stop_str_in_output=True, **members)[0]) > len(without)


def _ranked_by_mean(ask: Ask) -> bool:
    """Choices of best_of above n come with the best mean logprob first."""
    for seed in _SEEDS:
        listed = [
            choice["logprobs"]["token_logprobs"]
            for choice in ask.choices(TEXT, best_of=4, n=1, logprobs=0, seed=seed, max_tokens=100)
        ]
        means = [sum(values) / len(values) for values in listed]
        if len(means) != 4 or any(after > before + 1e-9 for before, after in itertools.pairwise(means)):
            return False
    return True


def _beam_indices(ask: Ask) -> bool:
    """The choices of a streamed beam search are numbered."""
    event = ask.events(TEXT, use_beam_search=True, n=3, max_tokens=5)[0]
    return [choice["index"] for choice in event["choices"]] == [0, 1, 2]


def _raw_logprobs(ask: Ask) -> bool:
    """The temperature does not change the candidates' logprobs at the first position."""
    cold, hot = (
        ask.choices(CHAT, logprobs=True, top_logprobs=3, max_tokens=1, temperature=temperature)[0]
        for temperature in (0.5, 2)
    )
    return bool(cold["logprobs"]["content"][0]["top_logprobs"] == hot["logprobs"]["content"][0]["top_logprobs"])


def _chosen_first(ask: Ask) -> bool:
    """The chosen token stands first in top_logprobs of completions."""
    found = ask.choices(TEXT, logprobs=3, temperature=2, seed=1, max_tokens=40)[0]["logprobs"]
    pairs = zip(found["tokens"], found["top_logprobs"], strict=True)
    return all(next(iter(top)) == token for token, top in pairs)


def _raw_bytes(ask: Ask) -> bool:
    """The bytes of all tokens, joined, are the text."""
    for seed in _SEEDS:
        choice = ask.choices(CHAT, logprobs=True, seed=seed, max_tokens=40, ignore_eos=True, skip_special_tokens=False)
        content = choice[0]["logprobs"]["content"]
        joined = b"".join(bytes(entry["bytes"]) for entry in content)
        if joined.decode(errors="replace") != choice[0]["message"]["content"]:
            return False
    return True


def _offsets_run_on(ask: Ask) -> bool:
    """The second choice's offsets count the first one's characters."""
    for seed in _SEEDS:
        first, second = ask.choices(TEXT, n=2, logprobs=0, seed=seed, max_tokens=30)
        if second["logprobs"]["text_offset"][0] != len(first["text"]):
            return False
    return True


WITNESSES: Final[Mapping[str, Callable[[Ask], bool]]] = {
    "chat-seed-from-one": lambda ask: ask.status(CHAT, seed=0) == 200,
    "completions-top-p-below-one": lambda ask: ask.status(TEXT, top_p=1) == 200,
    "chat-frequency-penalty-not-null": lambda ask: ask.status(CHAT, frequency_penalty=None) == 200,
    "completions-ignore-eos-lax": lambda ask: ask.status(TEXT, ignore_eos="true", max_tokens=3) == 422,
    "completions-stream-best-of-alone": lambda ask: ask.status(TEXT, stream=True, best_of=2, max_tokens=3) == 422,
    "chat-beams-stop-in-streams-only": lambda ask: ask.status(CHAT, use_beam_search=True, n=2, stop="x") == 422,
    "completions-stop-longest-counts": lambda ask: ask.status(TEXT, stop=["a" * 20000, "b" * 20000]) == 422,
    "beams-without-done": lambda ask: ask.data(CHAT, use_beam_search=True, n=2, max_tokens=5)[-1] == "[DONE]",
    "role-of-first-choice-only": _first_role,
    "chat-usage-after-choices": _usage_first,
    "completions-event-after-finish": _nothing_after_finish,
    "end-token-not-counted": _end_counted,
    "cached-tokens-are-the-others": _none_cached,
    "whole-usage-of-first-choice": _sums_choices,
    "stream-usage-sums-choices": _own_usage,
    "seed-not-in-streams": lambda ask: _same(ask, seed=5, stream=True),
    "seed-up-to-int64": lambda ask: _same(ask, seed=2**63 + 5),
    "seed-of-first-choice-only": lambda ask: _same(ask, seed=5, n=2),
    "stop-kept-at-the-last-token": _cut_at_last_token,
    "stop-cuts-white-space": _white_space_stays,
    "stop-at-token-ends-only": _stop_inside_token,
    "stop-reason-no-token-in-streams": _stop_token_told,
    "include-stop-no-token": _stop_token_kept,
    "n-before-best-of": lambda ask: len(ask.choices(TEXT, n=2, best_of=3, max_tokens=3)) == 3,
    "ranked-by-sum": _ranked_by_mean,
    "beam-indices-zero": _beam_indices,
    "logprobs-after-temperature": _raw_logprobs,
    "chosen-token-not-first": _chosen_first,
    "bytes-of-the-shown-text": _raw_bytes,
    "text-offset-runs-on-in-bytes": _offsets_run_on,
}
"""By the mutant's name."""
