"""A model of fifteen words behind both endpoints: it samples as the contract says, but for one planted fault."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from typing import Any, Final

from tools.conform.wire import Exchange, Got, Sent

Json = dict[str, Any]
WORDS: Final = (
    "the",
    "river",
    "one",
    "two",
    "sea",
    "wind",
    "boat",
    "and",
    "rain",
    "sun",
    "fish",
    "song",
    "day",
    "sky",
    "moon",
)
FAULTS: Final = {
    "beams.one": "beam", "seed.absent": "fixed", "sampling.narrow": "cold", "sampling.top-k": "top_k",
        "sampling.top-p": "top_p",
    "sampling.temperature": "temperature", "sampling.presence": "presence", "sampling.frequency": "frequency",
    "sampling.penalties": "penalties", "sampling.prompt": "prompt",
}  # fmt: skip
"""Which fault breaks which law."""


def logits(last: str) -> dict[str, float]:
    """Two words follow each other in turns; the others are less likely the farther they stand in the list."""
    place = WORDS.index(last) if last in WORDS else 0
    partner, draw = place ^ 1 if place < len(WORDS) - 1 else 0, random.Random(last)
    return {word: 3.0 - 0.5 * ((at - partner) % len(WORDS)) + 0.1 * draw.random() for at, word in enumerate(WORDS)}


def log_softmax(scores: dict[str, float]) -> dict[str, float]:
    """Of a word's scores."""
    most = max(scores.values())
    total = most + math.log(sum(math.exp(score - most) for score in scores.values()))
    return {word: score - total for word, score in scores.items()}


class ToyModel:
    """A transport; ``fault`` is one of ``FAULTS``' values or empty."""

    def __init__(self, fault: str = "") -> None:
        self._fault = fault
        self._asked = 0

    def exchange(self, sent: Sent) -> Exchange:
        """See ``Transport``."""
        if sent.method != "POST" or not sent.path.endswith("/completions"):
            return Exchange(sent, Got(404))
        given, chat = json.loads(sent.body), "chat" in sent.path
        self._asked += 1
        if not given:
            return Exchange(sent, Got(422))
        prompt = given["messages"][0]["content"] if chat else given["prompt"]
        count = given.get("n") or 1
        choices = [self._choice(given, prompt.split(), index, chat) for index in range(count)]
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": given["max_tokens"] * count}
        if given.get("stream"):
            body = b"".join(self._events(choices, usage, chat))
            return Exchange(sent, Got(200, {"content-type": "text/event-stream"}, body))
        body = json.dumps({"id": "1", "model": "toy", "choices": choices, "usage": usage}).encode()
        return Exchange(sent, Got(200, {"content-type": "application/json"}, body))

    def _events(self, choices: list[Json], usage: Json, chat: bool) -> list[bytes]:
        events = []
        for choice in choices:
            event = {key: value for key, value in choice.items() if key != "message"}
            if chat:
                event["delta"] = choice["message"]
            whole = {"id": "1", "model": "toy", "choices": [event], "usage": usage}
            events.append(b"data: " + json.dumps(whole).encode() + b"\n\n")
        return [*events, b"data: [DONE]\n\n"]

    def _choice(self, given: Json, prompt: list[str], index: int, chat: bool) -> Json:
        written: list[str] = []
        absent = 42 if self._fault == "fixed" else 1000 + self._asked
        entries = []
        for place in range(given["max_tokens"]):
            raw = log_softmax(logits((prompt + written)[-1]))
            word = self._draw(given, raw, prompt, written, f"{given.get('seed', absent)} {index} {place}")
            written.append(word)
            entries.append((word, raw))
        text = "".join(f" {word}" for word in written)
        wanted = given.get("logprobs") is not None and given["logprobs"] is not False
        logprobs = self._logprobs(given, entries, chat) if wanted else None
        said = {"message": {"role": "assistant", "content": text}} if chat else {"text": text, "stop_reason": None}
        return {"index": index, **said, "logprobs": logprobs, "finish_reason": "length"}

    def _logprobs(self, given: Json, entries: list[tuple[str, dict[str, float]]], chat: bool) -> Json:
        count = given.get("top_logprobs", 0) if chat else given["logprobs"]
        tops = [sorted(raw.items(), key=lambda item: -item[1])[:count] for _, raw in entries]
        if chat:
            content = [
                {**_entry(word, raw[word]), "top_logprobs": [_entry(*one) for one in top]}
                for (word, raw), top in zip(entries, tops, strict=True)
            ]
            return {"content": content}
        held = [
            {f" {word}": raw[word], **{f" {w}": v for w, v in top}}
            for (word, raw), top in zip(entries, tops, strict=True)
        ]
        return {
            "tokens": [f" {word}" for word, _ in entries], "token_logprobs": [raw[word] for word, raw in entries],
            "top_logprobs": held, "text_offset": [0] * len(entries),
        }  # fmt: skip

    def _draw(self, given: Json, raw: dict[str, float], prompt: list[str], written: list[str], key: str) -> str:
        heat = given.get("temperature", 1.0)
        scores = dict(raw)
        if given.get("use_beam_search"):
            return sorted(scores, key=lambda word: -scores[word])[1 if self._fault == "beam" else 0]
        if heat == 0 or (heat < 1e-5 and self._fault != "cold"):
            return max(scores, key=lambda word: scores[word])
        counts, seen = Counter(written), set(written) | (set() if self._fault == "prompt" else set(prompt))
        if self._fault != "penalties":
            presence = 0 if self._fault == "presence" else given.get("presence_penalty") or 0
            frequency = 0 if self._fault == "frequency" else given.get("frequency_penalty") or 0
            repetition = given.get("repetition_penalty") or 1
            for word in scores:
                scores[word] *= repetition if word in seen else 1
                scores[word] -= presence * (counts[word] > 0) + frequency * counts[word]
        heat = 1.0 if self._fault in ("temperature", "cold") else heat
        kept = log_softmax({word: score / heat for word, score in scores.items()})
        ordered = sorted(kept, key=lambda word: -kept[word])
        if given.get("top_k", -1) > 0 and self._fault != "top_k":
            ordered = ordered[: given["top_k"]]
        mass, within = 0.0, []
        for word in ordered:
            if mass >= given.get("top_p", 1.0) and self._fault != "top_p":
                break
            within.append(word)
            mass += math.exp(kept[word])
        weights = [math.exp(kept[word]) for word in within]
        return random.Random(key).choices(within, weights)[0]


def _entry(word: str, logprob: float) -> Json:
    return {"token": f" {word}", "logprob": logprob, "bytes": list(f" {word}".encode())}
