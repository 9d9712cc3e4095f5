"""Turns the media parts of a request into files: what they carry, what lies on this machine, what hosts have."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from handlers.errors import refused
from handlers.media.fetcher import Fetcher
from handlers.media.inline import check_inline, is_data_uri, write_inline
from handlers.media.limits import MediaLimits
from handlers.media.local_files import MAX_PATH_CHARS, copy_local, is_file_address, local_path
from handlers.media.parts import MediaPart, SourceFile
from handlers.media.resolver import Resolver, SystemResolver
from handlers.media.sink import Sink
from handlers.media.spool import Spool

if TYPE_CHECKING:
    from handlers.media.connecting import Connector

_HTTP: Final = re.compile(r"https?:", re.IGNORECASE | re.ASCII)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}):")
_ALLOWED: Final = "http:// and https:// addresses, file:// and plain paths, and data: URIs"
_THREADS: Final = 8
"""For the disk of the spool, of all requests."""
_LOCAL_THREADS: Final = 4
"""For the folder of local files, which may be a network's and hang."""

_Way = Callable[[Sink], Awaitable[None]]
"""Brings the bytes of one part."""


class MediaSources:
    """Where media come from. Made without opening anything."""

    def __init__(
        self,
        limits: MediaLimits,
        *,
        resolver: Resolver | None = None,
        connector: Connector | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Args:
        resolver: finds the addresses of hosts; None: the system's.
        connector: connects to addresses; None: to where it is told.
        tls: trust in servers; None: the system's.
        """
        self._limits = limits
        self._threads = ThreadPoolExecutor(_THREADS, "media-disk")
        self._local_threads = ThreadPoolExecutor(_LOCAL_THREADS, "media-local")
        self._fetcher = Fetcher(limits, resolver or SystemResolver(), connector, self._in_thread, tls)

    async def files(self, parts: Sequence[MediaPart], spool: Spool) -> list[SourceFile]:
        """The file of each part, in their order.

        What the text of any part shows to be wrong is told before anything is fetched. Then parts are fetched at the
        same time; the first that fails ends the others. All is closed when this returns, however it does.

        Raises:
            Problem: 422 media_forbidden, media_unreachable, media_invalid, media_too_large or too_long, with the
                part's param; 429 or 503 queue_full where the server cannot do it now.
        """
        ways = [self._way(part) for part in parts]
        turns = asyncio.Semaphore(self._limits.max_request_fetches)

        async def brought(part: MediaPart, way: _Way) -> SourceFile:
            async with turns:
                sink = Sink(part, spool, self._limits)
                await way(sink)
                return sink.file()

        tasks = [asyncio.ensure_future(brought(part, way)) for part, way in zip(parts, ways, strict=True)]
        try:
            if tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            failures = [task.exception() for task in tasks if task.done() and not task.cancelled()]
            for failure in failures:
                if failure is not None:
                    raise failure
            return [task.result() for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> None:
        """Take no more parts; waits for nothing."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._local_threads.shutdown(wait=False, cancel_futures=True)

    def _way(self, part: MediaPart) -> _Way:
        """How the bytes of a part come.

        Raises:
            Problem: its text shows that they cannot.
        """
        value, limits = part.value, self._limits
        if part.audio_format is None and not is_data_uri(value):
            if _HTTP.match(value):
                return partial(self._fetcher.fetch, self._fetcher.checked(part))
            scheme = _SCHEME.match(value)
            if scheme is not None and not is_file_address(value):
                message = f"{part.param} begins with {scheme[0]}; media are read from {_ALLOWED}"
                raise refused("media_forbidden", message, part.param)
            if is_file_address(value) or _is_path(value):
                return partial(self._copied, local_path(part, limits))
            if part.kind != "image":
                message = f"{part.param} is no path with a dot, no address and no data URI; Base64 alone is for images"
                raise refused("media_invalid", message, part.param)
        start = check_inline(part, limits)
        return lambda sink: self._in_thread(write_inline, sink, start)

    async def _copied(self, path: Path, sink: Sink) -> None:
        most_s = self._limits.fetch_s
        copying = asyncio.get_running_loop().run_in_executor(self._local_threads, copy_local, sink, path, self._limits)
        try:
            async with asyncio.timeout(most_s):
                await copying
        except TimeoutError:
            param = sink.part.param
            message = f"{param} names a local file that was not read within {most_s:g} s, the time that one item has"
            raise refused("media_unreachable", message, param) from None

    async def _in_thread(self, function: Callable[..., None], *arguments: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)


def _is_path(text: str) -> bool:
    """Whether it is a path and not Base64, which has no dots and is rarely this short."""
    return "." in text and len(text) <= MAX_PATH_CHARS
