"""Log probabilities in the two endpoints' forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.types import TokenCandidate, TokenText
from generated.models import ChatLogprobs, ChatTokenLogprob, ChatTopLogprob, CompletionLogprobs

LOWEST: Final = -9999.0
"""What stands for the logarithm of zero, which JSON cannot write."""


def chat_logprobs(tokens: Sequence[TokenText]) -> ChatLogprobs:
    """One entry a token, with the likeliest candidates as they were asked for."""
    return ChatLogprobs(
        content=[
            ChatTokenLogprob(
                token=token.token.text,
                logprob=_finite(token.token.logprob),
                bytes=list(token.token.raw),
                top_logprobs=[
                    ChatTopLogprob(token=other.text, logprob=_finite(other.logprob), bytes=list(other.raw))
                    for other in token.top
                ],
            )
            for token in tokens
        ]
    )


def completion_logprobs(tokens: Sequence[TokenText], offset: int) -> CompletionLogprobs:
    """Four lists of equal length. ``offset``: code points of the choices before this one, where offsets run on."""
    return CompletionLogprobs(
        text_offset=[offset + token.text_offset for token in tokens],
        token_logprobs=[_finite(token.token.logprob) for token in tokens],
        tokens=[token.token.text for token in tokens],
        top_logprobs=[_position(token.token, token.top) for token in tokens],
    )


def _position(chosen: TokenCandidate, top: Sequence[TokenCandidate]) -> dict[str, float]:
    """The chosen token first, then the others descending; of equal texts the likelier stays, the chosen always."""
    found = {chosen.text: _finite(chosen.logprob)}
    for other in top:
        if other.token_id != chosen.token_id:
            found.setdefault(other.text, _finite(other.logprob))
    return found


def _finite(logprob: float) -> float:
    return min(max(logprob, LOWEST), 0.0)
