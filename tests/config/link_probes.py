"""Probes of connections: the started application behind a real socket, on the loop of the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from config_probes import Probe
from config_server import Server

from handlers.links import LinkContext, Links
from handlers.listeners import one_listener
from handlers.plane_server import PlaneServer

GET = b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n"
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def listening(server: Server) -> AsyncIterator[int]:
    """The port of the service."""
    service, limits = server.service, server.service.settings.links
    context = LinkContext(limits, lambda: service.openai_form, 1, service.traffic.refused)
    listener, begun = one_listener("127.0.0.1", 0), asyncio.Event()
    app = cast(Any, server.client._transport).app
    plane = PlaneServer(app, listener, Links(context, limits.connections), lifespan=False, on_started=begun.set)
    running = asyncio.create_task(plane.run_listener())
    await begun.wait()
    yield listener.socket.getsockname()[1]
    plane.should_exit = True
    await running


async def second_connection(server: Server) -> bytes:
    """The status line that a second connection gets."""
    async with listening(server) as port:
        first = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.1)
        reader, second = await asyncio.open_connection("127.0.0.1", port)
        second.write(GET)
        line = await reader.readline()
        for writer in (first[1], second):
            writer.close()
    return line.strip()


def unfinished(data: bytes) -> Probe:
    """What is said to a request that does not go on."""

    async def probe(server: Server) -> str:
        async with listening(server) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            answer = (await reader.read()).decode()
            writer.close()
        return answer.split(" ", 2)[1] + answer.partition("The server waited")[2].partition(" for")[0]

    return probe


async def patience(server: Server) -> list[float]:
    """Seconds for a client that does not read, a connection without a request, and the rest of a refused one."""
    links = server.service.settings.links
    return [links.write_timeout_s, links.keep_alive_s, links.linger_s]


async def sizes(server: Server) -> list[int]:
    """Connections of another plane, and bytes for a client that does not read."""
    links = server.service.settings.links
    return [links.max_other_connections, links.send_buffer_bytes]


def headers(count: int, size: int) -> Probe:
    """The status of a request with so many headers of that size more."""

    async def probe(server: Server) -> int:
        more = {f"X-{number}": "x" * size for number in range(count)}
        return (await server.client.get("/health", headers=more)).status_code

    return probe


async def four_at_once(server: Server) -> list[int]:
    """Their statuses, sorted."""
    server.front.step_delay_s = 0.02
    answers = await asyncio.gather(*(server.completion() for _ in range(4)))
    return sorted(answer.status_code for answer in answers)
