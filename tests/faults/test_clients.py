"""What a bad client costs: itself. Each row says what it saw; a stream beside it and later requests are whole."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
import pytest
from mock_process import LONG, mock_server
from raw_http import Heard, connect, hear, hear_one, post, talk

from tools.load.processes import memory_bytes

CHAT = "/v1/chat/completions"
TOKENS = 60
WITNESS = {**LONG, "max_tokens": TOKENS}
ENDLESS = {**LONG, "max_tokens": 10**6}
GET = b"GET /health HTTP/1.1\r\nHost: here\r\n"
PART = b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n\r\n"
SHORT = ("--header-timeout", "1", "--body-timeout", "1", "--write-timeout", "1")
IDLE = 10_000
KEPT = 4000
"""Connections that a server takes by default."""


@dataclass(frozen=True)
class Deployment:
    """A running server of two planes."""

    process: subprocess.Popen[str]
    url: str
    management: str

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        text = httpx.get(f"{self.management}/metrics", trust_env=False, timeout=30).text
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what nobody tells."""
        deadline_s = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline_s
            time.sleep(0.02)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def deployment(*options: str) -> Iterator[Deployment]:
    """A mock server of 20 ms a token, its management plane on a port of its own."""
    port = str(free_port())
    with mock_server("--step-delay-ms", "20", "--management-port", port, "--log-level", "error", *options) as found:
        yield Deployment(*found, f"http://127.0.0.1:{port}")


def slowly(url: str, beginning: bytes) -> Heard:
    """A byte now and then after the beginning, for as long as they are taken: never a whole request."""
    connection = connect(url)
    connection.sendall(beginning)
    connection.settimeout(0.2)
    for _ in range(300):
        with contextlib.suppress(TimeoutError):
            if connection.recv(1, socket.MSG_PEEK):
                break
        connection.sendall(b"x")
    connection.settimeout(30)
    return hear(connection)


def slow_headers(here: Deployment) -> None:
    """408 at the deadline, although something came all the time."""
    assert slowly(here.url, GET + b"X-Slow: ").told == (408, "request_timeout", False)


def slow_body(here: Deployment) -> None:
    """The same; it is counted as a request."""
    assert slowly(here.url, PART).told == (408, "request_timeout", False)
    assert here.metric('mindspec_requests_total{endpoint="/v1/chat/completions",status="408"}') == 1


def silence(here: Deployment) -> None:
    """Who connects and says nothing is told so, too."""
    assert hear(connect(here.url)).told == (408, "request_timeout", False)


def huge_header(here: Deployment) -> None:
    """50 MB: 431, and the answer arrives although the client went on sending; memory does not show it."""
    before = memory_bytes(here.process.pid)
    heard = talk(here.url, GET + b"X-Huge: " + bytes(b"x" * 50_000_000) + b"\r\n\r\n")

    assert heard.told == (431, "too_long", False)
    assert "65536 bytes" in heard.body["error"]
    assert memory_bytes(here.process.pid) - before < 10_000_000


def many_headers(here: Deployment) -> None:
    """10,000 of them: 431."""
    heard = talk(here.url, GET + b"".join(b"X-%d: 1\r\n" % number for number in range(10_000)) + b"\r\n")
    few = talk(here.url, GET + b"".join(b"X-%d: 1\r\n" % number for number in range(1000)) + b"\r\n")

    assert heard.told == (431, "too_long", False)
    assert few.told == (431, "too_long", False)
    assert "at most 200" in few.body["error"]


def no_http(here: Deployment) -> None:
    """400 in the contract's form, at once."""
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"hello\r\n\r\n", GET + b"Host : x\r\n\r\n"):
        assert talk(here.url, data).told == (400, "malformed_http", False)
    chunk = PART.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked") + b"zz\r\n{}"
    assert talk(here.url, chunk).told == (400, "malformed_http", False)


def stops_reading(here: Deployment) -> None:
    """Streams that nobody reads are cancelled, and counted as given up; what they wrote stays small."""
    before = memory_bytes(here.process.pid)
    hoggers = [connect(here.url, receive_bytes=4096) for _ in range(10)]
    for each in hoggers:
        # The text so far with every token: single letters would take long to fill the buffers.
        each.sendall(post(CHAT, ENDLESS))
    here.until(lambda: here.metric('mindspec_requests_total{endpoint="/v1/chat/completions",status="499"}') == 10)

    assert memory_bytes(here.process.pid) - before < 30_000_000
    for each in hoggers:
        each.close()


def idle_connections(here: Deployment) -> None:
    """10,000: 4,000 are kept, the others are told 503; the management plane answers; then everybody may come again."""
    with open_files(2 * IDLE):
        kept, told = [], []
        with ThreadPoolExecutor(8) as pool:
            opened = list(pool.map(lambda _: connect(here.url), range(room_for_connections())))
            busy = talk(here.url, post(CHAT, {**LONG, "stream": False}))
            probe = httpx.get(f"{here.management}/v2/health/ready", trust_env=False, timeout=30)
            for each in opened:
                (told if readable(each) else kept).append(each)
            answers = list(pool.map(hear, told))
            for each in kept:
                each.close()

        assert busy.told == (503, "too_many_connections", False)
        assert probe.status_code == 200
        assert {answer.told for answer in answers} == {(503, "too_many_connections", False)}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
        assert len(kept) in (KEPT - 1, KEPT)  # the stream beside has one, until it ends
        here.until(lambda: httpx.get(f"{here.url}/health", trust_env=False, timeout=30).status_code == 200)


def readable(connection: socket.socket) -> bool:
    """Whether something has come."""
    connection.setblocking(False)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(30)


@contextlib.contextmanager
def open_files(wanted: int) -> Iterator[None]:
    """Raise what the system allows this process, as far as it does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def room_for_connections() -> int:
    """10,000, or what the system allows this process and the server."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = IDLE if soft == resource.RLIM_INFINITY else min(IDLE, soft - 200)
    if possible <= KEPT:
        pytest.skip(f"the system allows {soft} open files, too few for more connections than {KEPT}")
    if possible < IDLE:
        print(f"only {possible} connections instead of {IDLE}: the system allows {soft} open files")
    return possible


ROWS = [
    (slow_headers, SHORT),
    (slow_body, SHORT),
    (silence, SHORT),
    (huge_header, ()),
    (many_headers, ()),
    (no_http, ()),
    (stops_reading, (*SHORT, "--full-text-enabled")),
    (idle_connections, ("--header-timeout", "300", "--max-link-num", "1000")),
]


@pytest.mark.parametrize(("row", "options"), ROWS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_bad_client_costs_only_itself(row: Callable[[Deployment], None], options: tuple[str, ...]) -> None:
    """A stream that runs meanwhile is whole to its last token, and a request afterwards is answered at once."""
    with deployment(*options) as here:
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(talk, here.url, post(CHAT, WITNESS, "Connection: close"))
            here.until(lambda: here.metric("request_received_total") >= 1)
            row(here)
            stream = beside.result()
        begun_s = time.monotonic()
        after = talk(here.url, post(CHAT, {**LONG, "stream": False, "max_tokens": 1}, "Connection: close"))

        assert (stream.status, stream.reset) == (200, False)
        assert b'"finish_reason":"length"' in stream.raw
        assert b"data: [DONE]\n\n" in stream.raw
        assert after.status == 200
        print(f"{row.__name__}: answered again after {time.monotonic() - begun_s:.3f} s")


@pytest.mark.parametrize(("grace_s", "tokens"), [("30", 60), ("0.2", 10**6)])
def test_sigterm_with_20_streams_open_loses_none(grace_s: str, tokens: int) -> None:
    """Within the grace period all end as usual; after it each gets the error event; nobody is cut off."""
    with deployment("--drain-timeout", grace_s) as here:
        asked = post(CHAT, {**LONG, "max_tokens": tokens}, "Connection: close")
        with ThreadPoolExecutor(20) as pool:
            streams = [pool.submit(talk, here.url, asked) for _ in range(20)]
            here.until(lambda: here.metric("mindspec_sequences_running") == 20)
            here.process.send_signal(signal.SIGTERM)
            heard = [stream.result() for stream in streams]

        assert [(each.status, each.reset) for each in heard] == [(200, False)] * 20
        for each in heard:
            events = [line for line in each.raw.split(b"\n") if line.startswith(b"data: ")]
            last = json.loads(events[-2].removeprefix(b"data: "))
            assert events[-1] == b"data: [DONE]"
            if tokens == 60:
                assert last["choices"][0]["finish_reason"] == "length"
                assert last["usage"]["completion_tokens"] == 60
            else:
                assert last["error"]["code"] == "stopping"
        assert here.process.wait(30) == 0


def test_whoever_connects_while_the_server_ends_is_answered_or_refused() -> None:
    """Again and again until the port is closed: an answer, or no connection; never a connection without an answer."""
    with mock_server("--step-delay-ms", "1", "--log-level", "error") as (process, url):
        heard: list[Heard] = []
        refused = threading.Event()

        def hammer() -> None:
            while True:
                try:
                    connection = connect(url)
                except ConnectionRefusedError:
                    refused.set()
                    return
                with contextlib.suppress(OSError):
                    connection.sendall(GET + b"Connection: close\r\n\r\n")
                heard.append(hear(connection))

        threads = [threading.Thread(target=hammer) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(heard) < 50:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)

        assert refused.is_set()
        assert process.wait(30) == 0
        assert {(each.status, each.reset) for each in heard} <= {(200, False), (503, False)}
        assert 503 in {each.status for each in heard}


def test_connections_without_a_request_are_told_that_the_server_ends() -> None:
    """One that has asked nothing yet, and one that is kept after an answer: its next request may be on its way."""
    with mock_server("--log-level", "error") as (process, url):
        new, kept = connect(url), connect(url)
        kept.sendall(GET + b"\r\n")
        first = hear_one(kept)
        process.send_signal(signal.SIGTERM)

        assert first.status == 200
        assert [hear(new).told, hear(kept).told] == [(503, "stopping", False)] * 2
        assert process.wait(30) == 0
