"""What the mock may be told about one request beside the request itself: its text, its length, its pace, its end."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from engine.types import FinishReason


@dataclass(frozen=True, slots=True)
class MockOrders:
    """Orders for one request. They bend what the model would write, never what the request allows."""

    text: str | None = None
    """What every choice writes, control tokens as text; made-up text if None."""
    tokens: int | None = None
    """Tokens of every choice, the one that ends it included; ``text`` is cut or repeated."""
    finish: FinishReason | None = None
    """Length: no choice ends by itself before ``tokens`` or max_tokens. Stop: made-up text ends within max_tokens."""
    ttft_s: float = 0.0
    """Seconds until the first token."""
    token_s: float = 0.0
    """Seconds between two tokens."""
    fail_after: int | None = None
    """The request fails after so many tokens of its choices."""
    seed_ignored: bool = False
    """Draws depend on how many requests came before, not on the seed."""
    cached_tokens: int = 0
    """Tokens of the prompt that count as cached; never all of them."""


ORDERS: Final[ContextVar[MockOrders | None]] = ContextVar("mock_orders", default=None)
"""The orders of the request that is being submitted in this context."""
