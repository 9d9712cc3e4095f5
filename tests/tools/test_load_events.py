"""Streams as the load's client reads them: HTTP framing, event cutting, token times and counts."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.load.client import Address, Exchange, exchange, read, request_bytes
from tools.load.events import EventParser, streamed_answer

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(**members: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(members).encode() + b"\n\n"


def token(text: str, **more: Any) -> bytes:
    """An event with one choice's new text."""
    return event(choices=[{"index": 0, "text": text}], **more)


def chunk(data: bytes) -> bytes:
    """One chunk of HTTP's chunked coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def streamed(*pieces: tuple[float, bytes], end: bool = True) -> Exchange:
    """An exchange that was sent at 10 s, with a head at once and a chunk at each given time after that."""
    reads = [(10.0, HEAD), *((10 + at_s, chunk(data)) for at_s, data in pieces)]
    last_s = reads[-1][0]
    if end:
        reads.append((last_s, b"0\r\n\r\n"))
    return Exchange(10.0, reads, "whole" if end else "lost", last_s)


def test_token_times_are_those_of_the_first_and_the_last_text() -> None:
    """Relative to the request; the usage event and [DONE] are no tokens."""
    answer = streamed_answer(
        streamed(
            (0.5, token("a")),
            (0.6, token("b")),
            (0.9, token("c", usage={"completion_tokens": 3, "prompt_tokens": 7})),
            (1.5, b"data: [DONE]\n\n"),
        )
    )

    assert answer.failure is None
    assert (answer.first_s, answer.last_s, answer.ended_s) == pytest.approx((0.5, 0.9, 1.5))
    assert answer.gaps_s == pytest.approx([0.1, 0.3])
    assert (answer.output_tokens, answer.counted, answer.prompt_tokens, answer.text) == (3, True, 7, "abc")


def test_usage_wins_over_the_number_of_events() -> None:
    """A server may send several tokens in one event, and usage in an event without choices."""
    answer = streamed_answer(
        streamed((1, token("a")), (2, token("b and c")), (2, event(choices=[], usage={"completion_tokens": 4})))
    )
    assert (answer.output_tokens, answer.counted) == (4, True)


def test_without_usage_events_with_text_are_counted() -> None:
    """An empty last event, which carries only the reason, is no token."""
    answer = streamed_answer(streamed((1, token("a")), (2, token("b")), (3, token(""))))
    assert (answer.output_tokens, answer.counted, answer.last_s) == (2, False, pytest.approx(2.0))


def test_cached_tokens_are_taken_from_the_usage() -> None:
    """Where a server tells them."""
    usage = {"completion_tokens": 1, "prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}}
    assert streamed_answer(streamed((1, token("a", usage=usage)))).cached_tokens == 8


@pytest.mark.parametrize(
    ("done", "words"),
    [
        (Exchange(0, [], "refused", 1), "no answer (refused)"),
        (streamed((1, token("a")), end=False), "the stream broke off (lost)"),
        (streamed((1, token("a")), (2, event(error={"code": "engine_down"}))), "an error event"),
        (streamed((1, b"data: no json\n\n")), "an event that is no completion: no json"),
        (streamed((1, b"data: [DONE]\n\n")), "the stream held no text"),
        (
            Exchange(0, [(1, b"HTTP/1.1 422 Bad\r\ncontent-length: 4\r\n\r\nnope")], "whole", 1),
            "HTTP 422: nope",
        ),
    ],
)
def test_a_failed_stream_says_what_happened(done: Exchange, words: str) -> None:
    """No figures come from it."""
    answer = streamed_answer(done)
    assert answer.failure is not None
    assert words in answer.failure


@given(cuts=st.lists(st.integers(0, 200), max_size=12), end=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_do_not_depend_on_where_the_bytes_were_cut(cuts: list[int], end: bytes) -> None:
    """All three line ends, a comment, a field without effect, a text of two lines, and no cut changes anything."""
    lines = [
        b": hello",
        b"data: one",
        b"",
        b"event: x",
        b"data:two",
        b"data: lines",
        b"",
        b"",
        b"data: \xe6\x96\x87",
        b"",
    ]
    whole = end.join(lines) + end
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    parser = EventParser()

    events = [found for begin, stop in pairwise(places) for found in parser.feed(whole[begin:stop])]

    assert events == ["one", "two\nlines", "文"]


@given(cuts=st.sets(st.integers(1, 300), max_size=8))
def test_pieces_keep_the_time_at_which_their_bytes_came(cuts: set[int]) -> None:
    """However TCP cuts the answer, its body is the same and its status is read."""
    whole = HEAD + chunk(b"first") + chunk(b"second") + b"0\r\n\r\n"
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    reads = [(float(index), whole[begin:stop]) for index, (begin, stop) in enumerate(pairwise(places))]

    reply = read(Exchange(0, reads, "whole", float(len(reads))))

    assert (reply.status, reply.body, reply.whole) == (200, b"firstsecond", True)
    assert [at_s for at_s, _ in reply.pieces] == sorted(at_s for at_s, _ in reply.pieces)


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1:80", "http://example.org", "https://127.0.0.1:1", "http://127.0.0.1:1/v1", "127.0.0.1:80"]
)
def test_only_loopback_is_loaded(url: str) -> None:
    """Other machines, other schemes and paths are refused before anything is sent."""
    with pytest.raises(ValueError, match=r"loopback|of the form"):
        Address.of(url)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1", 8000),
        ("http://localhost/", "localhost", 80),
        ("http://[::1]:5", "::1", 5),
    ],
)
def test_loopback_addresses_are_read(url: str, host: str, port: int) -> None:
    """By number, by name, in both versions."""
    assert Address.of(url) == Address(host, port)


def test_a_request_has_its_length_and_asks_for_the_end() -> None:
    """One connection for each request."""
    head, _, body = request_bytes("POST", Address("::1", 5), "/v1/x", {"a": "é"}).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")

    assert lines[:3] == ["POST /v1/x HTTP/1.1", "Host: [::1]:5", "Connection: close"]
    assert f"Content-Length: {len(body)}" in lines
    assert json.loads(body) == {"a": "é"}


async def test_nobody_listening_is_an_ending_not_an_exception() -> None:
    """A bench that polls a starting server sees this many times."""
    from tools.load.command import free_port

    done = await exchange(Address("127.0.0.1", free_port()), "/health")
    assert (done.ending, read(done).status) == ("refused", 0)
