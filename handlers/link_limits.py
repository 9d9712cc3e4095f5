"""What connections may take: how many there are, how long they may need, and how large their headers may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WAITING_PER_LINK: Final = 2
"""Requests that may wait, for each that is worked on; MindIE's number."""
CONNECTIONS_PER_LINK: Final = 4
"""Connections for each request that is worked on, where nobody said how many: one more than can have a request."""


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """The limits of connections and of the requests on them."""

    max_link_num: int = 1000
    """Inference requests that are worked on at the same time, MindIE's maxLinkNum; twice as many wait."""
    max_connections: int | None = None
    """Of the business plane; None: four times ``max_link_num``. More are told 503."""
    max_other_connections: int = 256
    """Of each other plane that has an address of its own."""
    header_timeout_s: float = 30.0
    """From the connection, or a request's first byte on a kept one, to the end of its headers."""
    body_timeout_s: float = 60.0
    """From there to the end of the body, without the time in which the server itself does not read."""
    write_timeout_s: float = 30.0
    """In so long a client has to take 64 KiB, or all that there is for it."""
    keep_alive_s: float = 75.0
    """How long a connection may wait for its next request; longer than the pools of usual proxies and clients."""
    max_header_bytes: int = 65_536
    max_headers: int = 200
    send_buffer_bytes: int = 262_144
    """What the system may keep for a client that does not read, besides 64 KiB here."""
    linger_s: float = 5.0
    """How long what a refused client still sends is read, so that no reset destroys its answer."""

    @property
    def max_waiting(self) -> int:
        """Inference requests that may wait to be worked on."""
        return WAITING_PER_LINK * self.max_link_num

    @property
    def connections(self) -> int:
        """Connections of the business plane."""
        return self.max_connections or CONNECTIONS_PER_LINK * self.max_link_num
