"""What the proxy passes on: every byte, at once, in both directions, and nothing of a pair when half of it is gone."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pki import Authority

from tools.proxy.frames import Kind
from tools.proxy.links import MAX_HELD_BYTES, ClientLink, ServerLink
from tools.proxy.server import Proxy
from tools.proxy.upstream import Upstream, read_upstream

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
GET = b"GET /v1/models?x=1 HTTP/1.1\r\nHost: p.test\r\nX-Own: A b\r\nproxy-connection: close\r\naCCept: */*\r\n\r\n"


class Told:
    """Stands for the process that judges."""

    def __init__(self) -> None:
        self.frames: list[tuple[Kind, bytes]] = []

    def tell(self, kind: Kind, link: int, payload: bytes = b"") -> None:
        """Keep what is told."""
        self.frames.append((kind, payload))


class Pair:
    """A proxy before a server of a test."""

    def __init__(self, port: int, told: Told) -> None:
        self.port = port
        self.told = told

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the proxy."""
        return await asyncio.open_connection("127.0.0.1", self.port, limit=2**26)


@asynccontextmanager
async def pair(serve: Serve, base: str = "", **options: Any) -> AsyncIterator[Pair]:
    """A proxy whose server does what a test says; ``options``: its TLS, what is known of it, the most connections."""
    tls, known = options.get("tls"), {name: options[name] for name in ("ca", "verify") if name in options}
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls, limit=2**26)
    port = server.sockets[0].getsockname()[1]
    scheme, name = ("http", "127.0.0.1") if tls is None else ("https", "localhost")
    async with proxy_to(read_upstream(f"{scheme}://{name}:{port}{base}", **known), options.get("most", 100)) as found:
        yield found
    server.close()


@asynccontextmanager
async def proxy_to(upstream: Upstream, most: int = 100) -> AsyncIterator[Pair]:
    """A proxy before any server."""
    told = Told()
    proxy = Proxy(upstream, told, most)  # type: ignore[arg-type] # it tells alike
    front = await asyncio.get_running_loop().create_server(proxy.link, "127.0.0.1", 0)
    try:
        yield Pair(front.sockets[0].getsockname()[1], told)
    finally:
        proxy.close()
        front.close()


async def head_of(reader: asyncio.StreamReader) -> bytes:
    """A head, with the empty line."""
    return await reader.readuntil(b"\r\n\r\n")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 Fine\r\nX-CaSe:  two  spaces \r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n"
        b"3;ext=1\r\nabc\r\n1\r\n\x00\r\n0\r\nT: end\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end \xff\xfe",
        b"HTTP/1.1 418 No\r\nContent-Length: 4\r\nConnection: close\r\n\r\n<p/>",
        b"this is no HTTP at all\n",
    ],
)
async def test_an_answer_passes_byte_for_byte(answer: bytes) -> None:
    """Head, chunks, trailers, and what is no HTTP; and the same bytes are told."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(answer)
        writer.close()

    async with pair(serve) as proxy:
        reader, writer = await proxy.client()
        writer.write(GET)
        assert await reader.read() == answer
        writer.close()
        assert b"".join(data for kind, data in proxy.told.frames if kind is Kind.ANSWER) == answer
        assert proxy.told.frames[-1][0] is Kind.SERVER_CLOSED


@pytest.mark.parametrize(("base", "target"), [("", b"/v1/models?x=1"), ("/a/b/", b"/a/b/v1/models?x=1")])
async def test_a_request_is_addressed_to_the_server(base: str, target: bytes) -> None:
    """Its Host and base path; all other headers in their case and order."""
    seen: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("sockname")[1]
        seen.put_nowait((await head_of(reader)).replace(b":%d" % port, b":PORT"))
        writer.close()

    async with pair(serve, base) as proxy:
        _, writer = await proxy.client()
        writer.write(GET)
        host = b"127.0.0.1:PORT"
        lines = [b"GET %b HTTP/1.1" % target, b"Host: " + host, b"X-Own: A b", b"aCCept: */*", b"", b""]
        assert await seen.get() == b"\r\n".join(lines)
        writer.close()


async def test_bodies_of_both_kinds_and_pipelined_requests_arrive() -> None:
    """Chunked with a trailer, then one with a length, sent at once on one connection."""
    seen: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        seen.put_nowait(await reader.readuntil(b"\r\n\r\n"))
        await head_of(reader)
        seen.put_nowait(await reader.readexactly(4))
        writer.close()

    async with pair(serve) as proxy:
        _, writer = await proxy.client()
        writer.write(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: 1\r\n\r\n")
        writer.write(b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
        assert await seen.get() == b"2\r\nab\r\n0\r\nT: 1\r\n\r\n"
        assert await seen.get() == b"body"
        writer.close()
        kinds = [kind for kind, _ in proxy.told.frames]
        assert kinds[:6] == [Kind.REQUEST, Kind.BODY, Kind.END, Kind.REQUEST, Kind.BODY, Kind.END]


async def test_an_event_passes_before_the_next_is_made() -> None:
    """The server makes the second only when the client has told that it has the first."""
    arrived = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        await arrived.wait()
        writer.write(b"data: 2\n\n")
        writer.close()

    async with pair(serve) as proxy:
        reader, writer = await proxy.client()
        writer.write(GET)
        assert (await reader.readuntil(b"data: 1\n\n")).endswith(b"1\n\n")
        arrived.set()
        assert await reader.read() == b"data: 2\n\n"
        writer.close()


async def test_a_large_body_passes_in_both_directions() -> None:
    """16 MiB there and back; much more than is ever held."""
    body = bytes(range(256)) * 2**16

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        data = await reader.readexactly(len(body))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        await writer.drain()

    async with pair(serve) as proxy:
        reader, writer = await proxy.client()
        writer.write(b"PUT /big HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await head_of(reader)
        assert await reader.readexactly(len(body)) == body
        writer.close()


async def test_a_client_that_leaves_takes_the_servers_connection_along() -> None:
    """In the middle of an answer."""
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nfirst")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        gone.set()

    async with pair(serve) as proxy:
        reader, writer = await proxy.client()
        writer.write(GET)
        await reader.readuntil(b"first")
        writer.close()
        await asyncio.wait_for(gone.wait(), 30)
        assert proxy.told.frames[-1][0] is Kind.CLIENT_CLOSED


async def test_what_follows_an_upgrade_passes_as_it_is() -> None:
    """Another protocol, and it is told that it is."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: own\r\nConnection: Upgrade\r\n\r\n")
        writer.write((await reader.readexactly(3))[::-1])
        writer.close()

    async with pair(serve) as proxy:
        reader, writer = await proxy.client()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: own\r\n\r\n")
        await head_of(reader)
        writer.write(b"\x00\r\n")
        assert await reader.read() == b"\n\r\x00"
        writer.close()
        assert Kind.RAW in [kind for kind, _ in proxy.told.frames]


async def test_a_server_that_is_down_is_a_502_with_a_sentence() -> None:
    """In MindIE's form, and also to a client that has sent a body."""
    async with proxy_to(read_upstream("http://127.0.0.1:9")) as proxy:
        reader, writer = await proxy.client()
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70000)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: application/json\r\n")
        found = json.loads(body)
        assert found["error"].startswith("The server http://127.0.0.1:9 cannot be reached: ")
        assert (found["code"], found["param"]) == ("unreachable", None)
        writer.close()
        assert proxy.told.frames[-1][0] is Kind.UNREACHABLE


async def test_what_is_no_request_is_a_400() -> None:
    """The server is not asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""

    async with pair(serve) as proxy:
        reader, writer = await proxy.client()
        writer.write(b"\x16\x03\x01 no request\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"malformed_http" in answer
        writer.close()


async def test_a_server_with_tls_is_asked_over_tls(tmp_path: Path) -> None:
    """With the certificates that it comes from, or without looking; otherwise it is a 502."""
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    certificate, key = authority.issue("server").write(tmp_path, "server")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    async def status(**known: Any) -> bytes:
        async with pair(serve, tls=tls, **known) as proxy:
            reader, writer = await proxy.client()
            writer.write(GET)
            line = await reader.readline()
            writer.close()
            return line

    assert await status(ca=tmp_path / "ca.pem") == b"HTTP/1.1 204 No Content\r\n"
    assert await status(verify=False) == b"HTTP/1.1 204 No Content\r\n"
    assert await status() == b"HTTP/1.1 502 Bad Gateway\r\n"


async def test_one_connection_too_many_is_closed_at_once() -> None:
    """The others go on, and when one of them ends there is room again."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with pair(serve, most=1) as proxy:
        reader, writer = await proxy.client()
        writer.write(GET)
        assert (await head_of(reader)).startswith(b"HTTP/1.1 204")
        surplus, surplus_writer = await proxy.client()
        assert await surplus.read() == b""
        surplus_writer.close()
        writer.close()
        while proxy.told.frames[-1][0] is not Kind.CLIENT_CLOSED:  # noqa: ASYNC110 - it is told on this loop
            await asyncio.sleep(0)
        reader, writer = await proxy.client()
        writer.write(GET)
        assert (await head_of(reader)).startswith(b"HTTP/1.1 204")
        writer.close()


@pytest.mark.parametrize("url", ["127.0.0.1:80", "ftp://x", "http://", "http://x/?a=1", "http://u:p@x"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """With the form that it must have."""
    with pytest.raises(ValueError, match="is not of the form http://HOST:PORT/BASE"):
        read_upstream(url)


class Transport(asyncio.Transport):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.high: int | None = None

    def pause_reading(self) -> None:
        """Note it."""
        self.reading = False

    def resume_reading(self) -> None:
        """Note it."""
        self.reading = True

    def is_closing(self) -> bool:
        """Never."""
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Note it."""
        self.high = high


def test_neither_side_is_read_faster_than_the_other_reads() -> None:
    """What is held for a slow one is bounded, and its peer is read on when it has taken that."""
    client = ClientLink(1, read_upstream("http://x"), Told(), lambda _: None)  # type: ignore[arg-type] # it tells alike
    server = ServerLink(client)
    client._server = server
    near, far = Transport(), Transport()
    client.connection_made(near)
    server.connection_made(far)
    assert (near.high, far.high) == (MAX_HELD_BYTES, MAX_HELD_BYTES)
    for link, peer in ((client, far), (server, near)):
        link.pause_writing()
        assert not peer.reading
        link.resume_writing()
        assert peer.reading
