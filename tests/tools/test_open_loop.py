"""The open-loop load: the books of both sides, and what counts as a wrong answer."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tools.load.client import Exchange
from tools.open_loop.driver import Books, Outcome, fault_of

FULL = {"error": "full", "error_type": "Service Unavailable", "param": None, "code": "queue_full"}


def exchange(status: int, body: object, *headers: str) -> Exchange:
    """A whole answer."""
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}", *headers]
    return Exchange(0.0, [(0.1, "\r\n".join([*lines, "", ""]).encode() + data)], "whole", 0.2)


def stream(tokens: int, last: str = "data: [DONE]\n\n") -> str:
    """The events of an answer."""
    return f'data: {{"usage": {{"completion_tokens": {tokens}}}}}\n\n{last}'


@pytest.mark.parametrize(
    ("done", "streamed", "fault"),
    [
        (exchange(200, {"usage": {"completion_tokens": 16}}), False, None),
        (exchange(200, {"usage": {"completion_tokens": 15}}), False, "the answer has 15 tokens"),
        (exchange(200, stream(16)), True, None),
        (exchange(200, stream(16, "")), True, "the stream has no proper end"),
        (exchange(200, 'data: {"error": {}}\n\ndata: [DONE]\n\n'), True, "the stream has no proper end"),
        (exchange(429, FULL, "Retry-After: 3"), True, None),
        (exchange(429, FULL), True, "a 429 without Retry-After"),
        (exchange(429, FULL, "Retry-After: 0"), True, "a 429 without Retry-After"),
        (exchange(429, "busy", "Retry-After: 3"), False, "the 429 is no JSON: b'busy'"),
        (exchange(503, FULL), False, f"503: {FULL}"),
    ],
)
def test_an_answer_is_looked_at(done: Exchange, streamed: bool, fault: str | None) -> None:
    """Its tokens, its end, and of a refusal that it says when to come back."""
    assert fault_of(done, stream=streamed, tokens=16) == fault


def test_books_that_differ_are_a_complaint() -> None:
    """One answer more on either side, or a connection without an answer."""
    totals = {"request_received_total": 3, "request_success_total": 2, "request_failed_total": 1}
    same = Counter({"200": 2, "429": 1})
    assert Outcome(sent=3, by_status=same, books=Books(same, Counter(totals))).complaints() == []

    other = Outcome(sent=3, by_status=same, books=Books(Counter({"200": 3}), Counter(totals)))
    assert other.complaints() == ["the server counted {'200': 3}, the client {'200': 2, '429': 1}"]
    lost = Outcome(sent=4, by_status=same, broken=Counter({"lost": 1}), books=Books(same, Counter(totals)))
    assert lost.complaints()[:2] == ["exchanges without a whole answer: {'lost': 1}", "4 were sent and 3 answered"]


def test_the_slope_of_memory_is_that_of_its_end() -> None:
    """100 MB more at first, then 2 MB a minute."""
    points = [(0.0, 100.0), (60.0, 200.0), (120.0, 202.0), (180.0, 204.0)]
    assert Outcome(memory=points).slope_mb_per_minute(60) == pytest.approx(2.0)


def test_books_are_compared_by_what_has_changed() -> None:
    """What was counted before does not matter."""
    before = Books(Counter({"200": 5, "422": 1}), Counter({"request_received_total": 6}))
    after = Books(Counter({"200": 7, "422": 1}), Counter({"request_received_total": 8}))

    assert after.since(before) == Books(Counter({"200": 2}), Counter({"request_received_total": 2}))
