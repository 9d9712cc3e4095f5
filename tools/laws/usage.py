"""The laws of usage: its sums, its two lists of one entry a round, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.laws.asked import Asked
from tools.laws.breach import Breach
from tools.laws.table import broken

Usage = Mapping[str, Any]
"""A usage object that obeys its schema."""


def of_all(usage: Usage, asked: Asked, tokens: Sequence[int] | None) -> list[Breach]:
    """The usage of all choices together; ``tokens``: those of each choice, where logprobs show them."""
    found = _sums(usage)
    rounds, counted = len(usage["batch_size"]), usage["completion_tokens"]
    if not found and asked.sure and not rounds <= counted <= rounds * asked.choices:
        message = f"{counted} completion tokens of {asked.choices} choices do not fit {rounds} rounds"
        found.append(broken("usage-rounds", "usage.batch_size", message))
    if tokens is not None:
        found += _count(usage, sum(tokens))
        if not found and max(tokens, default=0) != rounds:
            message = f"there are {rounds} rounds, but the longest choice has {max(tokens, default=0)} tokens"
            found.append(broken("usage-rounds", "usage.batch_size", message))
    return found + _limit(counted, asked, asked.choices)


def of_one(usage: Usage, asked: Asked, tokens: int | None) -> list[Breach]:
    """The usage in a choice's last event; ``tokens``: as many as its logprobs show."""
    found = _sums(usage)
    rounds, counted = len(usage["batch_size"]), usage["completion_tokens"]
    if not found and (rounds < counted or (asked.sure and asked.choices == 1 and rounds != counted)):
        message = f"{counted} completion tokens of a choice do not fit {rounds} rounds"
        found.append(broken("usage-rounds", "usage.batch_size", message))
    if tokens is not None:
        found += _count(usage, tokens)
    return found + _limit(counted, asked, 1)


def _sums(usage: Usage) -> list[Breach]:
    found = []
    prompt, completion, total = usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]
    if total != prompt + completion:
        message = f"total_tokens is {total}, but {prompt} prompt and {completion} completion tokens are"
        found.append(broken("usage-adds-up", "usage.total_tokens", f"{message} {prompt + completion}"))
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    if cached > prompt:
        message = f"{cached} tokens of a prompt of {prompt} are said to be cached"
        found.append(broken("usage-details-fit", "usage.prompt_tokens_details.cached_tokens", message))
    thought = usage.get("completion_tokens_details", {}).get("reasoning_tokens", 0)
    if thought > completion:
        message = f"{thought} of {completion} completion tokens are said to be reasoning"
        found.append(broken("usage-details-fit", "usage.completion_tokens_details.reasoning_tokens", message))
    sizes, waits = len(usage["batch_size"]), len(usage["queue_wait_time"])
    if sizes != waits:
        message = f"batch_size has {sizes} entries and queue_wait_time {waits}"
        found.append(broken("usage-rounds", "usage.queue_wait_time", message))
    return found


def _count(usage: Usage, shown: int) -> list[Breach]:
    counted = usage["completion_tokens"]
    if counted == shown:
        return []
    message = f"logprobs show {shown} tokens, usage counts {counted}"
    return [broken("logprobs-count", "usage.completion_tokens", message)]


def _limit(counted: int, asked: Asked, choices: int) -> list[Breach]:
    if asked.max_tokens is None or counted <= asked.max_tokens * choices:
        return []
    each = "" if choices == 1 else f" for each of {choices} choices"
    message = f"{counted} completion tokens where max_tokens is {asked.max_tokens}{each}"
    return [broken("usage-within-max-tokens", "usage.completion_tokens", message)]
