"""The numbers of an answer: token counts and the scheduler's measurements."""

from __future__ import annotations

from collections.abc import Sequence

from engine.types import Stats
from generated.models import CompletionTokensDetails, PromptTokensDetails, Usage
from handlers.running import Gathered


def usage(stats: Stats, completion_tokens: int, longest: int, reasoning_tokens: int | None = None) -> Usage:
    """The usage object.

    Args:
        stats: of the request; it may already hold rounds that the answer has not reached.
        completion_tokens: of all choices in a whole answer, of one in a stream's last event.
        longest: tokens of the longest choice that is counted, which is the length of both lists.
        reasoning_tokens: those of completion_tokens that were thinking; None where the model does not think.
    """
    made = Usage(
        prompt_tokens=stats.prompt_tokens,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=stats.cached_tokens),
        completion_tokens=completion_tokens,
        total_tokens=stats.prompt_tokens + completion_tokens,
        batch_size=stats.batch_size[:longest],
        queue_wait_time=stats.queue_wait_us[:longest],
    )
    if reasoning_tokens is not None:
        made.completion_tokens_details = CompletionTokensDetails(reasoning_tokens=reasoning_tokens)
    return made


def total_usage(stats: Stats, gathered: Sequence[Gathered]) -> Usage:
    """The usage of all choices together."""
    thinking = [choice.reasoning_tokens for choice in gathered if choice.reasoning_tokens is not None]
    tokens = sum(choice.token_count for choice in gathered)
    return usage(stats, tokens, rounds(gathered), sum(thinking) if thinking else None)


def rounds(gathered: Sequence[Gathered]) -> int:
    """Tokens of the longest choice."""
    return max(choice.token_count for choice in gathered)


def prefill_time_ms(stats: Stats) -> int:
    """Milliseconds from submission to the first token."""
    return round(stats.round_ms[0]) if stats.round_ms else 0


def decode_times_ms(stats: Stats, longest: int) -> list[int]:
    """Milliseconds of each round after the first."""
    return [round(time) for time in stats.round_ms[1:longest]]
