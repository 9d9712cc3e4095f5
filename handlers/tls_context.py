"""A listener's TLS context whose files can be renewed, and which tells a client why a handshake failed."""

from __future__ import annotations

import logging
import ssl
from typing import Any, Final

from pydantic_core import to_json

from handlers.errors import INPUT

_log = logging.getLogger(__name__)

_BODY: Final = to_json(
    {
        "error": "This port speaks HTTPS, and the request came as plain HTTP; use https://",
        "error_type": INPUT,
        "param": None,
        "code": "https_needed",
    }
)
PLAIN_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)
"""What plain HTTP is told."""
_MOST_IGNORED: Final = 1024 * 1024
"""Bytes that a client may still send after its handshake has failed."""


class RenewableContext(ssl.SSLContext):
    """Hands every new connection to the context that is current then.

    Changing a living context instead would keep revoked certificates: its store cannot forget a list or a CA, and
    clients could resume their sessions without being checked again.
    """

    def __new__(cls, current: ssl.SSLContext) -> RenewableContext:
        """Without files of its own: what asyncio asks of it goes to ``current``."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, current: ssl.SSLContext) -> None:
        self.current = current

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """TLS for one connection; asyncio calls this."""
        made = self.current.wrap_bio(incoming, outgoing, *args, **kwargs)
        if isinstance(made, TellingObject):
            made.tell_through(incoming, outgoing)
        return made


class TellingObject(ssl.SSLObject):
    """TLS of one connection, whose client learns why it is refused.

    asyncio closes the connection when a handshake fails, without sending the alert that is ready to go. So the failure
    is held back until that has gone, and until the client has hung up or asyncio's time for handshakes is over.
    """

    _incoming: ssl.MemoryBIO | None = None
    _outgoing: ssl.MemoryBIO | None = None
    _failure: ssl.SSLError | None = None
    _ignored = 0

    def tell_through(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        """The buffers of the connection, in bytes as they go over the wire."""
        self._incoming, self._outgoing = incoming, outgoing

    def do_handshake(self) -> None:
        """As ssl.SSLObject's, but for the end of a failed one."""
        incoming, outgoing = self._incoming, self._outgoing
        if self._failure is not None and incoming is not None:
            self._ignored += len(incoming.read())
            if self._ignored > _MOST_IGNORED:
                raise self._failure
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLSyscallError):
            raise
        except ssl.SSLError as error:
            _log.info("a TLS connection was refused: %s", reason_of(error))
            if incoming is None or outgoing is None:
                raise
            if error.reason == "HTTP_REQUEST":
                outgoing.write(PLAIN_ANSWER)
            if not outgoing.pending:
                raise
            self._failure = error
            incoming.read()
            raise ssl.SSLWantReadError from None


def reason_of(error: ssl.SSLError) -> str:
    """What went wrong, in OpenSSL's words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()
