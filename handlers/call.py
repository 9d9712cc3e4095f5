"""One HTTP call as a handler sees it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from starlette.types import Receive

from handlers.record import Record


@dataclass(frozen=True, slots=True)
class Call:
    """What a handler needs besides the validated body."""

    record: Record
    """Its ids and its beginning, and where to note what becomes of it."""
    receive: Receive
    """Gives only the client's disconnect, once the body has been read."""
    body_bytes: int = 0
    """Size of the body: what is made of a large one is made in a thread."""
    kept: ExitStack = field(default_factory=ExitStack)
    """What the request has until it is over, and the engine has been told so."""

    @property
    def request_id(self) -> str:
        """The id of the answer."""
        return self.record.request_id

    @property
    def begun_s(self) -> float:
        """When the request came, on ``time.monotonic``'s clock."""
        return self.record.begun_s

    @staticmethod
    def now() -> int:
        """Seconds since 1970."""
        return int(time.time())
