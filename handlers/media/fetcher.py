"""Fetches media over http and https: from listed hosts, at addresses that were checked, within sizes and times."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from handlers.errors import Problem, refused
from handlers.media.addresses import plain, read_address, refused_address
from handlers.media.limits import MB, MediaLimits
from handlers.media.parts import MediaPart
from handlers.media.resolver import Resolver
from handlers.media.sink import Sink
from handlers.media.urls import Url, UrlError, is_listed, read_redirect, read_url
from handlers.version import VERSION

if TYPE_CHECKING:
    import httpcore

    from handlers.media.connecting import CheckedBackend, Connector

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_BLOCK_BYTES: Final = MB
"""Gathered before they are written."""
_RETRY_AFTER_S: Final = 1

logger = logging.getLogger(__name__)

InThread = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments in a thread."""


class Fetcher:
    """Reads what stands at addresses of listed hosts.

    A host's name is looked up once for each connection; every address that it has must be one that may be connected
    to, and the connection is made to these and no others. There are no proxies, no cookies and no compression.
    """

    def __init__(
        self,
        limits: MediaLimits,
        resolver: Resolver,
        connector: Connector | None,
        in_thread: InThread,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Args:
        connector: None: connects to where it is told.
        in_thread: for what waits for the disk.
        tls: trust in servers; None: the system's CAs, or those of the variables SSL_CERT_FILE and SSL_CERT_DIR.
        """
        if limits.domains:  # what the first fetch would wait for otherwise
            import handlers.media.connecting  # noqa: F401

            tls = tls or ssl.create_default_context()
        self._limits = limits
        self._resolve = resolver
        self._connect = connector
        self._in_thread = in_thread
        self._tls = tls
        # Its debug lines show headers of answers, among them addresses with the secrets in them.
        logging.getLogger("httpcore").setLevel(logging.INFO)
        self._turns: dict[str, asyncio.Semaphore] = {}
        """By host, of which there are as many as are listed."""

    def checked(self, part: MediaPart) -> Url:
        """The address that a part names, as far as it can be judged by its text.

        Raises:
            Problem: 422 media_forbidden, too_long.
        """
        most = self._limits.max_url_chars
        if len(part.value) > most:
            message = f"{part.param} is an address of {len(part.value)} characters; it may have {most}"
            raise refused("too_long", message, part.param)
        try:
            url = read_url(part.value)
        except UrlError as error:
            raise _forbidden(part, f"{part.param} {error}") from None
        self._check_host(url, part, f"{part.param} names {url.shown}")
        return url

    async def fetch(self, url: Url, sink: Sink) -> None:
        """Write what stands at an address of ``checked`` into a file.

        Raises:
            Problem: 422 media_forbidden, media_unreachable, media_invalid, media_too_large; 429 queue_full where its
                turn did not come in time.
        """
        limits, loop = self._limits, asyncio.get_running_loop()
        left_s = limits.fetch_s
        where = f"{sink.part.param} names {url.shown}"
        for _ in range(limits.max_redirects + 1):
            async with self._turn(url.host, sink.part):
                began_s = loop.time()
                try:
                    async with asyncio.timeout(left_s):
                        following = await self._hop(url, sink, where)
                except TimeoutError:
                    why = f"which was not there whole within {limits.fetch_s:g} s, the time that one item has"
                    raise _unreachable(sink.part, f"{where}, {why}") from None
                left_s -= loop.time() - began_s
            if following is None:
                return
            url = following
            where = f"{where}, which redirects to {url.shown}"
            self._check_host(url, sink.part, where)
            where = where[:1000]
        why = f"which redirects more than {limits.max_redirects} times, the most that is followed"
        raise _unreachable(sink.part, f"{where}, {why}")

    def _check_host(self, url: Url, part: MediaPart, where: str) -> None:
        if is_listed(url, self._limits.domains):
            return
        if self._limits.domains:
            why = "whose host and port are not on this deployment's list of hosts that media may be fetched from"
        else:
            why = "but this deployment fetches no media over the network: its list of hosts is empty"
        raise _forbidden(part, f"{where}, {why}")

    @asynccontextmanager
    async def _turn(self, host: str, part: MediaPart) -> AsyncIterator[None]:
        """Wait for a place, but not for ever: a host that answers slowly holds up its own media and no others."""
        turns = self._turns.setdefault(host, asyncio.Semaphore(self._limits.max_fetches))
        try:
            async with asyncio.timeout(self._limits.fetch_wait_s):
                await turns.acquire()
        except TimeoutError:
            message = f"Too many media are being fetched from {host}, and {part.param} got no turn; try again soon"
            headers = {"Retry-After": str(_RETRY_AFTER_S)}
            raise Problem(429, "queue_full", message, part.param, headers=headers) from None
        try:
            yield
        finally:
            turns.release()

    async def _hop(self, url: Url, sink: Sink, where: str) -> Url | None:
        """One connection. Returns where it redirects to; None once the answer is written."""
        import httpcore

        from handlers.media.connecting import CheckedBackend, connect

        part = sink.part
        addresses = await self._addresses(url, part, where)
        backend = CheckedBackend(addresses, self._connect or connect, self._limits.connect_s)
        try:
            return await self._exchange(url, backend, sink, where)
        except httpcore.ConnectError as error:
            if backend.connected:
                reason = _tls_reason(error)
                raise _unreachable(part, f"{where}, with which no TLS could be agreed on: {reason}") from None
            raise _unreachable(part, f"{where}, to which no connection could be made") from None
        except httpcore.ConnectTimeout:
            why = f"to which no connection could be made within {self._limits.connect_s:g} s"
            raise _unreachable(part, f"{where}, {why}") from None
        except httpcore.TimeoutException:
            why = f"which sent nothing for {self._limits.read_s:g} s, the most that is waited"
            raise _unreachable(part, f"{where}, {why}") from None
        except (httpcore.NetworkError, httpcore.ProtocolError):
            raise _unreachable(part, f"{where}, which gave no whole and valid HTTP answer") from None
        finally:
            await backend.close()

    async def _addresses(self, url: Url, part: MediaPart, where: str) -> list[str]:
        """Where a host is; all of its addresses may be connected to.

        Raises:
            Problem: one may not be, or there is none.
        """
        literal = read_address(url.host)
        if literal is not None:
            found = [str(literal)]
        else:
            try:
                async with asyncio.timeout(self._limits.connect_s):
                    found = list(await self._resolve(url.host, url.port))
            except TimeoutError:
                why = f"whose host's address was not found within {self._limits.connect_s:g} s"
                raise _unreachable(part, f"{where}, {why}") from None
            except OSError:
                found = []
        addresses: list[str] = []
        for text in found:
            address = read_address(text)
            if address is None:
                raise _forbidden(part, f"{where}, whose host is at an address that is none")
            reason = refused_address(address, self._limits.private_networks)
            if reason is not None:
                # Clients are not told where hosts inside are.
                logger.info("no media from %s at %s: it is %s", url.authority, text, reason)
                raise _forbidden(part, f"{where}, whose host is at {reason}")
            addresses.append(str(plain(address)))
        if not addresses:
            raise _unreachable(part, f"{where}, whose host has no address that can be found")
        return addresses

    async def _exchange(self, url: Url, backend: CheckedBackend, sink: Sink, where: str) -> Url | None:
        import httpcore

        origin = httpcore.Origin(url.scheme.encode(), url.host.encode(), url.port)
        connection = httpcore.AsyncHTTPConnection(origin, ssl_context=self._tls, network_backend=backend)
        limits = self._limits
        request = httpcore.Request(
            "GET",
            httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=url.target.encode()),
            headers=[
                ("Host", url.authority),
                ("User-Agent", f"mindspec/{VERSION}"),
                ("Accept", "*/*"),
                ("Accept-Encoding", "identity"),
                ("Connection", "close"),
            ],
            extensions={"timeout": {"connect": limits.connect_s, "read": limits.read_s, "write": limits.read_s}},
        )
        response = await connection.handle_async_request(request)
        if response.status in _REDIRECTS:
            return self._followed(response, url, sink.part, where)
        await self._read(response, sink, where)
        return None

    async def _read(self, response: httpcore.Response, sink: Sink, where: str) -> None:
        part = sink.part
        if response.status != 200:
            raise _unreachable(part, f"{where}, which was answered with HTTP status {response.status} instead of 200")
        codings = ", ".join(_values(response, b"content-encoding"))
        if codings.lower() not in ("", "identity"):
            why = f"which came compressed ({codings[:40]!r}), although no compression was asked for"
            raise refused("media_invalid", f"{where}, {why}", part.param)
        for length in _values(response, b"content-length")[:1]:
            await self._in_thread(sink.expect, int(length))
        gathered = bytearray()
        async with aclosing(response.aiter_stream()) as pieces:  # type: ignore[type-var]  # it is a generator
            async for piece in pieces:
                gathered += piece
                sink.fits(len(gathered))
                if len(gathered) >= _BLOCK_BYTES:
                    await self._in_thread(sink.write, bytes(gathered))
                    gathered.clear()
        if gathered:
            await self._in_thread(sink.write, bytes(gathered))

    def _followed(self, response: httpcore.Response, url: Url, part: MediaPart, where: str) -> Url:
        locations = _values(response, b"location")
        if len(locations) != 1:
            raise _unreachable(part, f"{where}, which redirects to {len(locations) or 'no'} addresses instead of one")
        if len(locations[0]) > self._limits.max_url_chars:
            why = f"which redirects to an address of {len(locations[0])} characters; it may have"
            raise _forbidden(part, f"{where}, {why} {self._limits.max_url_chars}")
        try:
            return read_redirect(locations[0].encode("latin-1"), url)
        except UrlError as error:
            raise _forbidden(part, f"{where}, which redirects to an address that {error}") from None


def _values(response: httpcore.Response, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in response.headers if key.lower() == name]


def _tls_reason(error: BaseException) -> str:
    """What is wrong with a server's certificate, in the words of the TLS library, which show nothing of ours."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return str(cause.verify_message)
        if isinstance(cause, ssl.SSLError):
            return str(cause.reason or "it failed").replace("_", " ").lower()
        cause = cause.__cause__ or cause.__context__
    return "the connection was lost"


def _forbidden(part: MediaPart, message: str) -> Problem:
    return refused("media_forbidden", message, part.param)


def _unreachable(part: MediaPart, message: str) -> Problem:
    return refused("media_unreachable", message, part.param)
