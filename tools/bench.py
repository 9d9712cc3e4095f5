"""Measures what the contract costs, as ratios to a bare Starlette application in the same run; decides no test."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import socket
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tools.bench_apps import EVENTS, bare_answer, bare_stream, contract_answer, contract_stream

ROUNDS = 7
REQUESTS = 300
STREAMS = 16
PATH = "/v1/chat/completions"

TARGETS = {"request": 8.0, "body_ms": 30.0, "stream": 1.25}
"""What each figure should stay below."""


def chat_body(text_bytes: int) -> bytes:
    """A chat request of about ``text_bytes``, with the fields that clients commonly send."""
    text = ("How many roads must a man walk down? " * (text_bytes // 36 + 1))[: max(text_bytes - 330, 1)]
    return json.dumps(
        {
            "model": "mock",
            "messages": [
                {"role": "system", "content": "You are a helpful assistant."},
                {"role": "user", "content": text},
            ],
            "temperature": 0.7,
            "top_p": 0.95,
            "top_k": 50,
            "seed": 42,
            "max_tokens": 128,
            "stop": ["END"],
            "presence_penalty": 0.1,
            "repetition_penalty": 1.05,
            "n": None,
        }
    ).encode()


def many_messages(count: int, text_bytes: int) -> bytes:
    """A chat request of ``count`` messages."""
    messages = [{"role": "user", "content": "x" * text_bytes} for _ in range(count)]
    return json.dumps({"model": "mock", "messages": messages}).encode()


async def call(app: ASGIApp, body: bytes) -> int:
    """One POST straight into an ASGI application; the status."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": PATH,
        "raw_path": PATH.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1025),
        "state": {},
    }
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    status = 0

    async def receive() -> dict[str, Any]:
        return sent.pop() if sent else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]

    await app(scope, receive, send)
    return status


async def request_us(app: ASGIApp, body: bytes) -> float:
    """Microseconds of one request in process, mean of many."""
    assert await call(app, body) == 200
    begin = time.perf_counter()
    for _ in range(REQUESTS):
        await call(app, body)
    return (time.perf_counter() - begin) / REQUESTS * 1e6


async def measure_requests() -> dict[str, float]:
    """The 1 kB request: bytes to validated model and handler, against json.loads and a handler."""
    body = chat_body(1024)

    async def answer(request: StarletteRequest) -> Response:
        return bare_answer(json.loads(await request.body()))

    bare: ASGIApp = Starlette(routes=[Route(PATH, answer, methods=["POST"])])
    ours = await contract_answer()
    times: list[tuple[float, float]] = []
    gc.freeze()
    for _ in range(ROUNDS):
        times.append((await request_us(bare, body), await request_us(ours, body)))
    return {
        "bytes": len(body),
        "bare_us": statistics.median(bare for bare, _ in times),
        "ours_us": statistics.median(ours for _, ours in times),
        "request": statistics.median(ours / bare for bare, ours in times),
    }


def measure_bodies() -> dict[str, float]:
    """Milliseconds from the bytes of a 4 MB body to the validated model, rules included."""
    from generated.models import ChatCompletionRequest
    from handlers.settings import Settings
    from handlers.validation import validate

    settings = Settings(model_name="mock")

    class Rules:
        json_limits = settings.json_limits()
        deployment = settings.deployment()

    found = {}
    for name, body in {"one message": chat_body(4_190_000), "10,000 messages": many_messages(10_000, 390)}.items():
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            kept = validate(
                body, ChatCompletionRequest, Rules()
            )  # taking it apart again is not part of the measurement
            times.append((time.perf_counter() - begin) * 1e3)
            del kept
        found[name] = statistics.median(times)
    return {**found, "body_ms": max(found.values())}


def serve(make: str, listener: socket.socket) -> None:
    """The child process of a stream measurement: uvicorn around one of the two applications."""
    import uvicorn

    async def run() -> None:
        app: ASGIApp = await contract_stream() if make == "ours" else bare_stream()
        config = uvicorn.Config(app, log_level="error", lifespan="off", http="h11", ws="none")
        await uvicorn.Server(config).serve(sockets=[listener])

    asyncio.run(run())


async def one_stream(port: int, request: bytes) -> int:
    """Read one stream to its end; the number of events."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    data = bytearray()
    while b"[DONE]" not in data[-200:]:
        piece = await reader.read(1 << 16)
        if not piece:
            raise RuntimeError(f"the stream ended early: {bytes(data[:300])!r}")
        data += piece
    writer.close()
    return data.count(b"data: ")


async def streams_ms(port: int) -> float:
    """Milliseconds of all streams at once."""
    body = json.dumps({"model": "mock", "messages": [{"role": "user", "content": "hi"}], "stream": True}).encode()
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    begin = time.perf_counter()
    counts = await asyncio.gather(*[one_stream(port, head.encode() + body) for _ in range(STREAMS)])
    assert min(counts) >= EVENTS, counts
    return (time.perf_counter() - begin) * 1e3


async def measure_streams() -> dict[str, float]:
    """200 events a stream, 16 streams at once, through uvicorn, against bare Starlette."""
    context = multiprocessing.get_context("spawn")
    ports, children = {}, []
    for make in ("bare", "ours"):
        listener = socket.create_server(("127.0.0.1", 0))
        ports[make] = listener.getsockname()[1]
        child = context.Process(target=serve, args=(make, listener), daemon=True)
        child.start()
        children.append(child)
    try:
        for port in ports.values():
            await until_up(lambda port=port: streams_ms(port))  # type: ignore[misc] # the default binds the port
        pairs = [(await streams_ms(ports["bare"]), await streams_ms(ports["ours"])) for _ in range(ROUNDS * 3)]
    finally:
        for child in children:
            child.terminate()
    return {
        "bare_ms": statistics.median(bare for bare, _ in pairs),
        "ours_ms": statistics.median(ours for _, ours in pairs),
        "stream": statistics.median(ours / bare for bare, ours in pairs),
    }


async def until_up(probe: Callable[[], Awaitable[float]]) -> None:
    """Wait for a server: its socket listens before its application does."""
    await asyncio.wait_for(probe(), 60)
    await probe()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the three figures and their targets."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args(arguments)
    figures = {
        "request": asyncio.run(measure_requests()),
        "body_ms": measure_bodies(),
        "stream": asyncio.run(measure_streams()),
    }
    if given.json:
        print(json.dumps(figures, indent=1))
        return 0
    for name, values in figures.items():
        detail = ", ".join(f"{key} {value:.4g}" for key, value in values.items() if key != name)
        print(f"{name:8} {values[name]:6.2f}  (target below {TARGETS[name]:g})   {detail}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
