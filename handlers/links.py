"""The connections of one listener: how many there are, and what all of them know."""

from __future__ import annotations

import resource
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from handlers.errors import Problem
from handlers.link_limits import LinkLimits

_OTHER_FILES: Final = 256
"""Descriptors for everything that is no connection."""
_MAX_TOLD: Final = 1024
"""Refused connections that are read for a while; of more, those that were answered first are closed."""


class Closable(Protocol):
    """A connection as it is seen here."""

    def close_now(self) -> None:
        """Read no more."""
        ...


@dataclass(frozen=True, slots=True)
class LinkContext:
    """What a connection asks of the running service."""

    limits: LinkLimits
    openai_form: Callable[[], bool]
    retry_after_s: int
    refused: Callable[[int], None]
    """Told the status of an answer that was given before a request could be read."""


class Links:
    """Counts the connections of one listener. Belongs to one event loop."""

    def __init__(self, context: LinkContext, most: int) -> None:
        """``most``: connections that are served; more are answered 503."""
        self.context = context
        self.most = most
        self.served = 0
        """Connections that count."""
        self._told: OrderedDict[Closable, None] = OrderedDict()
        self.stopping = False

    @property
    def full(self) -> bool:
        """One more is refused."""
        return self.served >= self.most

    def tell(self, connection: Closable) -> None:
        """A refused connection has been answered, and is read for a while."""
        self._told[connection] = None
        if len(self._told) > _MAX_TOLD:
            self._told.popitem(last=False)[0].close_now()

    def forget(self, connection: Closable) -> None:
        """It is over."""
        self._told.pop(connection, None)

    @property
    def overfull(self) -> Problem:
        """What one more connection is told."""
        message = f"The server has {self.most} connections, all that it takes (its setting maxConnections); use fewer"
        return self._unavailable("too_many_connections", message)

    @property
    def stopped(self) -> Problem:
        """What a connection is told that has no request when the server ends."""
        return self._unavailable("stopping", "The server is stopping; try another one")

    def _unavailable(self, code: str, message: str) -> Problem:
        return Problem(503, code, message, headers={"Retry-After": str(self.context.retry_after_s)})


def connections_allowed(wanted: int) -> int:
    """How many of ``wanted`` connections the system's limit of open files allows, which is raised as far as needed."""
    needed = wanted + _MAX_TOLD + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < needed:
        soft = needed if hard == unlimited else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == unlimited or soft >= needed:
        return wanted
    return max(1, min(wanted, (soft - _OTHER_FILES) * 3 // 4))
