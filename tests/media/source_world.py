"""Sources with a network and a folder of their own, for tests that ask what becomes of parts."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostile_server import PUBLIC, Network, Script, running

from engine.types import MediaKind
from handlers.media.limits import MediaLimits
from handlers.media.parts import MediaPart
from handlers.media.sources import MediaSources
from handlers.media.spool import Spool, Spools

NO_TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Knows no CA. The system's, which take long to read, are asked where a test says None."""


@dataclass
class World:
    """All that is needed to bring media."""

    limits: MediaLimits
    network: Network
    sources: MediaSources
    spool: Spool

    async def bytes_of(self, *values: str, kind: MediaKind = "image", audio_format: str | None = None) -> list[bytes]:
        """What becomes of parts with these values."""
        files = await self.sources.files([part(value, index, kind, audio_format) for index, value in enumerate(values)],
                                         self.spool)  # fmt: skip
        assert [file.part.value for file in files] == list(values)
        found = [file.path.read_bytes() for file in files]
        assert [file.size for file in files] == [len(data) for data in found]
        return found


def part(value: str, index: int = 0, kind: MediaKind = "image", audio_format: str | None = None) -> MediaPart:
    """A part whose param tells its place."""
    return MediaPart(kind, f"messages[0].content[{index}].image_url", value, audio_format)


async def until(holds: Callable[[], bool]) -> None:
    """Give others their turns until something holds."""
    for _ in range(100_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to hold")


@asynccontextmanager
async def world(
    base: Path,
    scripts: dict[str, Script] | None = None,
    *,
    tls: Any = None,
    client_tls: ssl.SSLContext | None = NO_TRUST,
    names: Any = None,
    dead: frozenset[str] = frozenset(),
    **limits: Any,
) -> AsyncIterator[World]:
    """A world whose listed host media.test answers by the scripts; files lie in ``base``/inputs."""
    inputs = base / "inputs"
    inputs.mkdir(exist_ok=True)
    known = MediaLimits(**{"folder": inputs, "domains": ("media.test",), "spool_folder": base / "spool", **limits})
    network = Network(names or {"media.test": ((PUBLIC,),)}, scripts or {}, dead, tls)
    spools = Spools(known)
    async with running(network):
        sources = MediaSources(known, resolver=network.resolve, connector=network.connect, tls=client_tls)
        try:
            yield World(known, network, sources, spools.open())
        finally:
            sources.close()
            spools.close()
