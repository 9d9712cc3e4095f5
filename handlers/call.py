"""One HTTP call as a handler sees it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from starlette.types import Receive


@dataclass(frozen=True, slots=True)
class Call:
    """What a handler needs besides the validated body."""

    request_id: str
    """The id of the answer."""
    receive: Receive
    """Gives only the client's disconnect, once the body has been read."""
    body_bytes: int = 0
    """Size of the body: what is made of a large one is made in a thread."""
    begun_s: float = field(default_factory=time.monotonic)
    """When the request came, on ``time.monotonic``'s clock."""

    @staticmethod
    def now() -> int:
        """Seconds since 1970."""
        return int(time.time())
