"""The laws of all choices together: of a whole answer, and of the one event of a beam search."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tools.laws import logprobs, said, usage
from tools.laws.asked import Asked
from tools.laws.breach import Breach
from tools.laws.said import Call, Said
from tools.laws.table import broken

Json = Mapping[str, Any]


def of_answer(answer: Json, asked: Asked) -> list[Breach]:
    """What a whole answer that obeys its schema breaks."""
    found = named(answer, asked) + of_choices(answer, asked)
    if asked.chat:
        rounds, times = len(answer["usage"]["batch_size"]), len(answer["decode_time_arr"])
        if times != max(rounds - 1, 0):
            message = f"decode_time_arr has {times} entries after {rounds} rounds; one less than rounds are due"
            found.append(broken("decode-times", "decode_time_arr", message))
    return found


def named(answer: Json, asked: Asked) -> list[Breach]:
    """The id and the model of an answer or event."""
    found = []
    if asked.id is not None and answer["id"] != asked.id:
        found.append(broken("answer-id", "id", f"id is {answer['id'][:100]}; the request's req-id is {asked.id[:100]}"))
    if asked.model and answer["model"] != asked.model:
        message = f"model is {answer['model'][:100]}; the request named {asked.model[:100]}"
        found.append(broken("answer-model", "model", message))
    return found


def of_choices(answer: Json, asked: Asked) -> list[Breach]:
    """Choices and their usage; each choice has ended."""
    choices = answer["choices"]
    found = []
    if asked.sure and len(choices) != asked.choices:
        message = f"there are {len(choices)} choices; {asked.choices} were asked for"
        found.append(broken("choices-count", "choices", message))
    indices = [choice["index"] for choice in choices]
    if indices != list(range(len(choices))):
        found.append(broken("choices-in-order", "choices", f"the choices have the indices {indices[:20]}"))
    uneven = bool(found)
    for place, choice in enumerate(choices):
        where = f"choices[{place}]"
        found += said.breaches(_said(choice, where), asked)
        found += of_logprobs(choice["logprobs"], asked, f"{where}.logprobs")
    if asked.sure and asked.top is not None and not asked.chat:
        found += _offsets(choices)
    if asked.ranked:
        means = [mean for mean in map(logprobs.mean, choices) if mean is not None]
        if any(after > before + logprobs.ROUNDING for before, after in pairwise(means)):
            found.append(broken("choices-best-first", "choices", "the choices are not sorted by mean logprob"))
    if uneven:
        return found  # sums over too many or too few choices say nothing more
    return found + usage.of_all(answer["usage"], asked, _tokens(choices, asked))


def of_logprobs(value: Json | None, asked: Asked, where: str, *, may_be_null: bool = False) -> list[Breach]:
    """The logprobs of a choice, or of an event, which may have none for now."""
    if not asked.sure:
        return []
    if value is None:
        if asked.top is None or may_be_null:
            return []
        return [broken("logprobs-as-asked", where, f"{where} is null, although log probabilities were asked for")]
    if asked.top is None:
        return [broken("logprobs-as-asked", where, f"{where} must be null, since none were asked for")]
    judge = logprobs.of_chat if asked.chat else logprobs.of_completion
    return judge(value, asked.top, where)


def count(value: Json | None) -> int:
    """The tokens that a logprobs object shows."""
    return 0 if value is None else len(value["content"] if "content" in value else value["tokens"])


def _tokens(choices: list[Json], asked: Asked) -> list[int] | None:
    """The tokens of each choice, where logprobs show them."""
    if not asked.sure or asked.top is None:
        return None
    return [count(choice["logprobs"]) for choice in choices]


def _said(choice: Json, where: str) -> Said:
    message = choice.get("message") or choice.get("delta")
    if message is None:
        return Said(where, choice["text"], (), choice["finish_reason"], choice["stop_reason"])
    calls = [_call(call) for call in message.get("tool_calls") or ()]
    return Said(where, message.get("content") or "", calls, choice["finish_reason"])


def _call(call: Json) -> Call:
    function = call["function"]
    return Call(call.get("id", ""), function.get("name", ""), function.get("arguments", ""))


def _offsets(choices: list[Json]) -> list[Breach]:
    start = 0
    for place, choice in enumerate(choices):
        value = choice["logprobs"] or {"tokens": (), "text_offset": ()}
        where = f"choices[{place}].logprobs"
        found = logprobs.offsets(choice["text"], value["tokens"], value["text_offset"], start, where)
        if found:
            return found
        start += len(choice["text"])
    return []
