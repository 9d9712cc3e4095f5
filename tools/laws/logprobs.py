"""The laws of log probabilities on both endpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

from generated.problems import shown
from tools.laws.breach import Breach
from tools.laws.table import broken

ROUNDING: Final = 1e-6
"""Differences up to this are no disorder."""

Logprobs = Mapping[str, Any]
"""A logprobs object that obeys its schema."""


def of_chat(logprobs: Logprobs, top: int, where: str) -> list[Breach]:
    """Each token of a chat choice has ``top`` candidates, best first, and is one of them if it is likely enough."""
    for place, entry in enumerate(logprobs["content"]):
        candidates = entry["top_logprobs"]
        field = f"{where}.content[{place}].top_logprobs"
        if len(candidates) != top:
            return [broken("logprobs-candidates", field, f"{field} has {len(candidates)} candidates; asked for: {top}")]
        if not _descend([one["logprob"] for one in candidates]):
            return [broken("logprobs-candidates", field, f"{field} is not sorted, likeliest first")]
        likely = candidates and entry["logprob"] > candidates[-1]["logprob"] + ROUNDING
        if likely and all(one["token"] != entry["token"] for one in candidates):
            message = f"{field} lacks the token {shown(entry['token'], 40)}, which is likelier than its last"
            return [broken("logprobs-candidates", field, message)]
    return []


def of_completion(logprobs: Logprobs, top: int, where: str) -> list[Breach]:
    """The four lists are of one length; each token stands first among at most ``top`` others, which descend."""
    count = len(logprobs["tokens"])
    for name in ("text_offset", "token_logprobs", "top_logprobs"):
        if len(logprobs[name]) != count:
            message = f"{where}.{name} has {len(logprobs[name])} entries for {count} tokens"
            return [broken("logprobs-lists", f"{where}.{name}", message)]
    for place, (token, value, candidates) in enumerate(
        zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True)
    ):
        field = f"{where}.top_logprobs[{place}]"
        names = list(candidates)
        if not names or names[0] != token or abs(candidates[token] - value) > ROUNDING:
            message = f"{field} does not begin with the chosen token {shown(token, 40)} and its log probability"
            return [broken("logprobs-candidates", field, message)]
        if len(names) > top + 1:
            message = f"{field} has {len(names)} tokens; at most the chosen one and {top} others were asked for"
            return [broken("logprobs-candidates", field, message)]
        if not _descend([candidates[name] for name in names[1:]]):
            return [broken("logprobs-candidates", field, f"{field} is not sorted, likeliest first after the chosen")]
    return []


def offsets(text: str, tokens: Sequence[str], given: Sequence[int], start: int, where: str) -> list[Breach]:
    """text_offset begins at ``start`` and never falls; where tokens spell the text, it is the sum of their lengths."""
    field = f"{where}.text_offset"
    if not given:
        return []
    if given[0] != start:
        return [broken("text-offset-runs", field, f"{field} begins at {given[0]}; the text begins at {start}")]
    if "".join(tokens) == text:
        expected = list(accumulate(map(len, tokens[:-1]), initial=start))
        wrong = next(
            (place for place, pair in enumerate(zip(given, expected, strict=False)) if pair[0] != pair[1]), None
        )
        if wrong is not None:
            message = f"{field}[{wrong}] is {given[wrong]}; that token begins at {expected[wrong]}"
            return [broken("text-offset-runs", field, message)]
    if any(after < before for before, after in pairwise(given)):
        return [broken("text-offset-runs", field, f"{field} falls")]
    return []


def mean(choice: Mapping[str, Any]) -> float | None:
    """The mean log probability of a choice of either endpoint; None where it has none."""
    logprobs = choice["logprobs"]
    if logprobs is None:
        return None
    chat = "content" in logprobs
    values = [entry["logprob"] for entry in logprobs["content"]] if chat else logprobs["token_logprobs"]
    return sum(values) / len(values) if values else None


def _descend(values: Sequence[float]) -> bool:
    return all(before >= after - ROUNDING for before, after in pairwise(values))
