"""What a run may spend: requests, and tokens that the server reads and writes for it."""

from __future__ import annotations

import re
import threading
from typing import Final

from tools.conform.law import UsedUp
from tools.conform.wire import Exchange

_TOTAL: Final = re.compile(rb'"total_tokens"\s*:\s*(\d{1,12})')
_CHARACTERS_A_TOKEN: Final = 4
_LONGEST_PROMPT: Final = 1_048_576
"""Tokens; the contract accepts no more."""


GONE_AFTER: Final = 5
"""Requests in a row without any answer, after which a server counts as gone."""


class Budget:
    """Counts down; threads may share it. A server that is gone has used up everything."""

    def __init__(self, requests: int, tokens: int) -> None:
        self._lock = threading.Lock()
        self._requests_left, self._tokens_left = requests, tokens
        self.requests = self.tokens = 0
        self._unanswered = 0

    def reserve(self, tokens: int) -> None:
        """Take a request of at most so many tokens. Raises UsedUp, and takes nothing, where that is too much."""
        with self._lock:
            if self._unanswered >= GONE_AFTER:
                raise UsedUp(f"the server is gone: {GONE_AFTER} requests in a row had no answer")
            if self._requests_left < 1:
                raise UsedUp(f"budget used up: {self.requests} requests (--requests)")
            if self._tokens_left < tokens:
                raise UsedUp(f"budget used up: {tokens} tokens needed, {self._tokens_left} left (--tokens)")
            self._requests_left -= 1
            self._tokens_left -= tokens
            self.requests += 1

    def settle(self, reserved: int, exchange: Exchange) -> None:
        """Give back what the exchange did not use: refusals use nothing, an answer what it counts."""
        if 400 <= exchange.got.status < 500:
            used = 0
        else:
            counted = [int(found) for found in _TOTAL.findall(exchange.got.body)]
            used = min(sum(counted), reserved) if counted else reserved
        with self._lock:
            gone = exchange.got.fault == "connection" and not exchange.got.status
            self._unanswered = self._unanswered + 1 if gone else 0
            self._tokens_left += reserved - used
            self.tokens += used


def prompt_estimate(body: bytes) -> int:
    """Tokens that a body's text may be."""
    return min(len(body) // _CHARACTERS_A_TOKEN, _LONGEST_PROMPT)
