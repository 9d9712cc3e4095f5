"""Reads http addresses of media strictly, once, and says which hosts a deployment fetches from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from urllib.parse import quote, urljoin

_SCHEMES: Final = {"http": 80, "https": 443}
_FORM: Final = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.IGNORECASE | re.DOTALL | re.ASCII)
_AUTHORITY: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?")
_NAME: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
"""A name whose last part is a number is an address to resolvers, in one of several old ways of writing."""
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_KEPT: Final = "!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"
_SHOWN_CHARS: Final = 100


class UrlError(ValueError):
    """An address that is not fetched; the message goes on after the address."""


@dataclass(frozen=True, slots=True)
class Url:
    """An http address whose parts mean to everybody what they mean here."""

    scheme: str
    """http or https."""
    host: str
    """A name in small letters, or an address in its shortest form, IPv6 without brackets."""
    port: int
    target: str
    """Path and query as they are sent; ASCII."""

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them: the scheme's own port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _SCHEMES[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """For messages and logs: without the query, which may hold secrets, and shortened."""
        text = f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"
        return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."

    @property
    def uses_own_port(self) -> bool:
        """Whether it is at the port of its scheme."""
        return self.port == _SCHEMES[self.scheme]


def read_url(text: str) -> Url:
    """The parts of an address.

    Of what readers of addresses disagree about nothing is taken: user names, backslashes, control characters, escapes
    and other scripts in hosts, and numbers that old resolvers read as addresses. Other scripts in a path are escaped.

    Raises:
        UrlError: it is no such address.
    """
    if _CONTROLS.search(text):
        raise UrlError("has a control character or half a character in it, which no address may")
    if "\\" in text:
        raise UrlError("has a backslash in it, which no address may")
    found = _FORM.fullmatch(text)
    if found is None:
        raise UrlError("is not an address of the form http://host/path or https://host/path")
    scheme, authority, path, query = found[1].lower(), found[2], found[3] or "/", found[4] or ""
    if "@" in authority:
        raise UrlError("has a user name in it, which no address of media may")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise UrlError("has a host that cannot be read; it must be a name or an IP address, perhaps with a port")
    return Url(scheme, read_host(parts[1]), _port(parts[2], scheme), quote(path + query, safe=_KEPT))


def read_host(text: str) -> str:
    """A host as ``Url`` has it.

    Raises:
        UrlError: it is none.
    """
    # Before letters become small: some of other scripts become ASCII then.
    if not text.isascii():
        _no_host()
    host = text.lower()
    if host.startswith("["):
        try:
            return str(IPv6Address(host[1:-1])) if "%" not in host else _no_host()
        except ValueError:
            return _no_host()
    if _NUMBER.fullmatch(host):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise UrlError("has a number as its host; an IPv4 address is written as four decimal numbers") from None
    if len(host) > 253 or not _NAME.fullmatch(host):
        _no_host()
    return host


def _no_host() -> str:
    allowed = "a name of letters, digits, hyphens and underscores (other scripts as xn--), or an IP address"
    raise UrlError(f"has no usable host; it must be {allowed}")


def _port(text: str | None, scheme: str) -> int:
    if not text:
        return _SCHEMES[scheme]
    if len(text) > 5 or not 1 <= int(text) <= 65535:
        raise UrlError("has a port that is none; it must be a number from 1 to 65535")
    return int(text)


def read_redirect(location: bytes, before: Url) -> Url:
    """Where an answer's Location leads from an address.

    A redirect may lead to another path and another host, but not to another port, except from http at its own port to
    https at its own; and not from https to http.

    Raises:
        UrlError: nowhere that is followed; the message goes on after "redirects to an address that".
    """
    try:
        text = location.decode()
    except UnicodeDecodeError:
        raise UrlError("is not UTF-8") from None
    # Before it is joined: that would take some of these away.
    if _CONTROLS.search(text) or "\\" in text:
        raise UrlError("has a control character or a backslash in it")
    try:
        url = read_url(urljoin(f"{before.scheme}://{before.authority}{before.target}", text))
    except UrlError:
        raise
    except ValueError:
        raise UrlError("cannot be read") from None
    if before.scheme == "https" and url.scheme == "http":
        raise UrlError("has no TLS, while the one before it had")
    upgraded = before.uses_own_port and url.uses_own_port
    if url.port != before.port and not upgraded:
        raise UrlError(f"has another port, {url.port} instead of {before.port}")
    return url


def read_domain(text: str) -> str:
    """An entry of the list of hosts: a host, or a host and the one port that is allowed of it.

    Raises:
        UrlError: it is none; the message goes on after the entry.
    """
    parts = _AUTHORITY.fullmatch(text.strip())
    if parts is None or not parts[1] or parts[2] == "":
        raise UrlError("is not a host such as example.org, or example.org:8443 for one port alone")
    host = read_host(parts[1])
    shown = f"[{host}]" if ":" in host else host
    return shown if parts[2] is None else f"{shown}:{_port(parts[2], 'http')}"


def is_listed(url: Url, domains: tuple[str, ...]) -> bool:
    """Whether a host is on the list, compared as a whole; ``domains`` of ``read_domain``."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return host in domains or f"{host}:{url.port}" in domains
