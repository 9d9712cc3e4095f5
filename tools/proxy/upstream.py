"""The server behind the proxy: its address, and how a request is addressed to it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where requests go."""

    url: str
    host: str
    port: int
    host_header: bytes
    base_path: bytes
    """What is put before the path of every request; no slash at its end."""
    tls: ssl.SSLContext | None

    def target(self, target: bytes) -> bytes:
        """A request's target as this server is asked for it."""
        return self.base_path + target if target.startswith(b"/") else target


def read_upstream(url: str, ca: Path | None = None, *, verify: bool = True) -> Upstream:
    """The server of a URL.

    Args:
        url: http or https, perhaps with a base path.
        ca: certificates that its own must come from, where it is https; the system's if None.
        verify: whether its certificate is looked at.

    Raises:
        ValueError: the URL or the file cannot be used; the message says why.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(f"{url!r} is not of the form http://HOST:PORT/BASE or https://HOST:PORT/BASE")
    tls = None
    if parts.scheme == "https":
        try:
            tls = ssl.create_default_context(cafile=None if ca is None else str(ca))
        except OSError as error:
            raise ValueError(f"{ca} cannot be used: {error}") from None
        if not verify:
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    port = parts.port or (443 if tls is not None else 80)
    return Upstream(url, parts.hostname, port, parts.netloc.encode(), parts.path.rstrip("/").encode(), tls)
