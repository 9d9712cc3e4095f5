"""Connections: what a deadline counts, what a client that does not read keeps, how a connection is closed."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from mock_process import LONG, mock_server
from raw_http import connect, hear, hear_one, post, talk

from handlers.last_connections import take_no_more
from handlers.link_transport import LinkTransport
from handlers.links import connections_allowed

CHAT = "/v1/chat/completions"


def test_a_body_that_waits_unread_is_not_late() -> None:
    """200 kB sent at once, read 2 s later when there is a place, with a deadline of 1 s: it is answered."""
    options = ("--max-link-num", "1", "--body-timeout", "1", "--step-delay-ms", "50", "--log-level", "error")
    large = {**LONG, "stream": False, "max_tokens": 1, "padding": "x" * 200_000}
    with mock_server(*options) as (_, url), ThreadPoolExecutor(2) as pool:
        first = pool.submit(talk, url, post(CHAT, LONG, "Connection: close"))
        while "mindspec_sequences_running 1.0" not in httpx.get(f"{url}/metrics", trust_env=False).text:
            time.sleep(0.01)
        second = pool.submit(talk, url, post(CHAT, large, "Connection: close"))

        assert first.result().raw.endswith(b"0\r\n\r\n")
        assert second.result().status == 200


def test_a_kept_connection_is_closed_without_a_word() -> None:
    """After an answer nobody waits for another; a request on it in time is answered."""
    ask = b"GET /v1/models HTTP/1.1\r\nHost: here\r\n\r\n"
    with mock_server("--keep-alive", "1", "--header-timeout", "30", "--log-level", "error") as (_, url):
        kept = connect(url)
        for _ in range(2):
            kept.sendall(ask)
            assert hear_one(kept).status == 200
        heard = hear(kept)

    assert (heard.raw, heard.reset) == (b"", False)


def test_refusals_have_the_form_that_the_deployment_has() -> None:
    """OpenAI's, with an id of their own, and counted."""
    options = ("--open-ai-support", "openai", "--max-header-bytes", "2000", "--log-level", "error")
    with mock_server(*options) as (_, url):
        long = talk(url, b"GET /health HTTP/1.1\r\nHost: here\r\nX-Long: " + b"x" * 3000 + b"\r\n\r\n")
        none = talk(url, b"hello\r\n\r\n")
        metrics = httpx.get(f"{url}/metrics", trust_env=False).text

    assert (long.status, long.body["error"]["code"]) == (431, "too_long")
    assert (none.status, none.body["error"]["type"]) == (400, "Input Validation Error")
    assert none.headers["requestuuid"]
    assert 'mindspec_requests_total{endpoint="other",status="400"} 1.0' in metrics


class Recorded(asyncio.Transport):
    """A transport whose other end takes what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent = 0
        self.done: list[str] = []

    def write(self, data: Any) -> None:
        """Nothing is taken yet."""
        self.unsent += len(data)

    def get_write_buffer_size(self) -> int:
        """What is left."""
        return self.unsent

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Nothing."""
        return default

    def is_closing(self) -> bool:
        """Closed in some way."""
        return "close" in self.done or "abort" in self.done

    def can_write_eof(self) -> bool:
        """As a socket's."""
        return True

    def __getattribute__(self, name: str) -> Any:
        if name in ("abort", "close", "write_eof", "resume_reading", "pause_reading"):
            return lambda: self.done.append(name)
        return super().__getattribute__(name)


class Clock:
    """A loop whose timers run when a test says so."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Any]] = []

    def call_later(self, delay_s: float, call: Any) -> asyncio.TimerHandle:
        """Note it."""
        self.timers.append((delay_s, call))
        return asyncio.TimerHandle(delay_s, call, (), asyncio.new_event_loop())

    def tick(self) -> None:
        """The oldest timer is due."""
        self.timers.pop(0)[1]()


def link(linger_s: float = 5.0) -> tuple[Recorded, Clock, LinkTransport]:
    """A transport of a client that has 30 s to take something."""
    inner, clock = Recorded(), Clock()
    made: Any = LinkTransport(inner, clock, write_timeout_s=30, linger_s=lambda: linger_s)  # type: ignore[arg-type] # a stand-in
    return inner, clock, made


def test_a_client_that_takes_nothing_is_given_up_after_one_period() -> None:
    """The connection ends at once, with what was kept for it."""
    inner, clock, made = link()
    made.write(b"x" * 1000)
    assert [delay for delay, _ in clock.timers] == [30]
    clock.tick()
    assert inner.done == ["abort"]


@pytest.mark.parametrize(("taken", "done"), [(65_535, ["abort"]), (65_536, []), (1_000_000, [])])
def test_a_slow_client_has_to_take_64_kib_in_a_period(taken: int, done: list[str]) -> None:
    """Or all that there is."""
    inner, clock, made = link()
    made.write(b"x" * 1_000_000)
    inner.unsent -= taken
    clock.tick()
    assert inner.done == done


def test_a_connection_that_may_bring_more_is_read_on_before_it_is_closed() -> None:
    """Our end at once, the socket later; where nothing can come, the socket at once."""
    inner, clock, made = link()
    made.close()
    made.close()
    assert (inner.done, made.is_closing()) == (["write_eof", "resume_reading"], True)
    clock.tick()
    assert inner.done[-1] == "close"

    inner, _, made = link(linger_s=0)
    made.close()
    assert inner.done == ["close"]


def test_a_listener_that_takes_no_more_keeps_what_it_has() -> None:
    """A connection that was made is accepted and not reset; a new one is not made, and is refused after the close."""
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    made = socket.create_connection(address)
    take_no_more(listening)
    late = socket.socket()
    late.settimeout(0.3)
    with pytest.raises(TimeoutError):
        late.connect(address)
    accepted, _ = listening.accept()
    listening.close()
    accepted.sendall(b"hello")

    assert made.recv(5) == b"hello"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=30)
    for each in (made, late, accepted):
        each.close()


def test_as_many_connections_as_files_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The soft limit is raised as far as it may be; three quarters of a small one are for connections."""
    limits = [1024, 20_000]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.__setitem__(slice(2), pair))

    assert connections_allowed(4000) == 4000
    assert limits == [5280, 20_000]
    assert connections_allowed(50_000) == 14_808
    limits[:] = [1024, 1024]
    assert connections_allowed(4000) == 576
