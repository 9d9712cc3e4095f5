"""One request to the mock: what its header asks for, and whether its connection is to be cut."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from tools.mock.wishes import Wish


@dataclass(slots=True)
class Exchange:
    """Made by the layer that reads the header, and completed by the handler."""

    wish: Wish
    cut: bool = False
    """Where the engine fails because it was told to, the connection is cut instead of an error being sent."""


EXCHANGE: Final[ContextVar[Exchange | None]] = ContextVar("mock_exchange", default=None)
"""That of the request that is being answered in this context."""
