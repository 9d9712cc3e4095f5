"""The numbers of an answer: token counts and the scheduler's measurements."""

from __future__ import annotations

from engine.types import Stats
from generated.models import PromptTokensDetails, Usage


def usage(stats: Stats, completion_tokens: int, rounds: int) -> Usage:
    """The usage object.

    Args:
        stats: of the request; it may already hold rounds that the answer has not reached.
        completion_tokens: of all choices in a whole answer, of one in a stream's last event.
        rounds: tokens of the longest choice that is counted, which is the length of both lists.
    """
    return Usage(
        prompt_tokens=stats.prompt_tokens,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=stats.cached_tokens),
        completion_tokens=completion_tokens,
        total_tokens=stats.prompt_tokens + completion_tokens,
        batch_size=stats.batch_size[:rounds],
        queue_wait_time=stats.queue_wait_us[:rounds],
    )


def prefill_time_ms(stats: Stats) -> int:
    """Milliseconds from submission to the first token."""
    return round(stats.round_ms[0]) if stats.round_ms else 0


def decode_times_ms(stats: Stats, rounds: int) -> list[int]:
    """Milliseconds of each round after the first."""
    return [round(time) for time in stats.round_ms[1:rounds]]
