"""What the proxy's judge tells: each breach once, under its side and number, and of clean exchanges nothing."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pytest

from generated.rules import Deployment
from tools.proxy import exchange
from tools.proxy import judge as judging
from tools.proxy.frames import Frame, Kind, pack_head
from tools.proxy.judge import judge_all
from tools.proxy.report import Report

HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
ERROR = {"error": "The queue is full", "error_type": "Service Unavailable", "param": None, "code": "queue_full"}
HEAD = {"id": "a1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
USAGE = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens": 2, "total_tokens": 5,
         "batch_size": [1, 1], "queue_wait_time": [1, 1]}  # fmt: skip
SSE = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def event(text: str, finish: str | None = None) -> dict[str, Any]:
    """A chat event."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "logprobs": None, "finish_reason": finish}
    return {**HEAD, **({"usage": USAGE} if finish else {}), "choices": [choice]}


def stream(*events: Any) -> bytes:
    """Events as a chunked body, a chunk for each, ``[DONE]`` as it is."""
    texts = [one if isinstance(one, str) else json.dumps(one) for one in events]
    return (
        b"".join(b"%x\r\n%b\r\n" % (len(text) + 8, b"data: " + text.encode() + b"\n\n") for text in texts)
        + b"0\r\n\r\n"
    )


def head(status: int, headers: dict[str, str], **more: str) -> bytes:
    """The head of an answer."""
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in {**headers, **more}.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def answer(status: int, body: Any, **headers: str) -> bytes:
    """A whole answer of JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    known = {"Content-Type": "application/json", "Content-Length": str(len(data))}
    return head(status, {**known, **{name.replace("_", "-"): value for name, value in headers.items()}}) + data


CLEAN = head(200, SSE, **{"Transfer-Encoding": "chunked"}) + stream(
    event(""), event("Good"), event(" day", "stop"), "[DONE]"
)
NO_FINISH = head(200, SSE, **{"Transfer-Encoding": "chunked"}) + stream(event(""), event("Good"), "[DONE]")


def asked(body: Any = None, path: str = "/v1/chat/completions", method: str = "POST", **headers: str) -> list[Frame]:
    """The frames of a request."""
    data = json.dumps({**HELLO, "stream": True} if body is None else body).encode()
    sent = [(b"Host", b"x"), *((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())]
    top = pack_head(method.encode(), path.encode(), sent)
    return [Frame(Kind.REQUEST, 1, 0.0, top), Frame(Kind.BODY, 1, 0.0, data), Frame(Kind.END, 1, 0.0)]


def answered(data: bytes, size: int = 0) -> list[Frame]:
    """The frames of an answer, in pieces of a size."""
    pieces = [data[at : at + size] for at in range(0, len(data), size)] if size else [data]
    return [Frame(Kind.ANSWER, 1, 1.0, piece) for piece in pieces]


def told(*frames: list[Frame], form: Any = "json", deployment: Deployment | None = None) -> list[str]:
    """The lines of the judge."""
    sink = io.StringIO()
    source = io.BytesIO(b"".join(frame.packed() for part in frames for frame in part))
    judge_all(source, Report(sink, form), deployment or Deployment())
    return sink.getvalue().splitlines()


def laws(*frames: list[Frame], **options: Any) -> list[tuple[int, str, str, str | None]]:
    """(request, side, law, field) of each line."""
    *lines, _ = (json.loads(line) for line in told(*frames, **options))
    return [(line["request"], line["side"], line["law"], line["field"]) for line in lines]


@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_a_clean_exchange_is_not_told(size: int) -> None:
    """However its bytes were cut; what was judged is counted."""
    lines = told(asked(), answered(CLEAN, size))
    assert [json.loads(line) for line in lines] == [
        {"counts": {"answers": 1, "events": 4, "requests": 1, "streams": 1}, "breaches": []}
    ]


@pytest.mark.parametrize("size", [0, 1])
def test_a_breach_of_a_stream_is_told_once(size: int) -> None:
    """With the request's number and the answer's id."""
    first, last = (json.loads(line) for line in told(asked(), answered(CLEAN), asked(), answered(NO_FINISH, size)))
    assert (first["request"], first["id"], first["side"], first["law"]) == (2, "a1", "server", "stream-one-finish")
    assert last["breaches"] == [{"side": "server", "law": "stream-one-finish", "count": 1}]


def test_every_breach_of_a_request_is_told() -> None:
    """Before its answer, and the refusal of it is none."""
    refusal = {**ERROR, "error_type": "Input Validation Error", "code": "out_of_range"}
    body = {**HELLO, "n": 3, "best_of": 2, "top_k": 0}
    assert laws(asked(body), answered(answer(422, refusal))) == [
        (1, "client", "out_of_range", "top_k"),
        (1, "client", "best-of-at-least-n", "best_of"),
    ]


def test_requests_are_judged_for_the_profile() -> None:
    """As a MindIE with these features would."""
    frames = asked({**HELLO, "logprobs": True}), answered(answer(429, ERROR, Retry_After="1"))
    assert laws(*frames) == []
    profile = Deployment(features=frozenset({"prefix_cache"}))
    assert laws(*frames, deployment=profile) == [(1, "client", "prefix-cache-excludes-logprobs", "logprobs")]


@pytest.mark.parametrize(
    ("data", "law"),
    [
        (answer(429, ERROR), "error-retry-after"),
        (answer(500, ERROR), "error-type-of-status"),
        (answer(200, {"id": "x"}), "answer-schema"),
        (answer(200, b"{"), "answer-json"),
        (answer(418, ERROR), "answer-status"),
        (b"no HTTP at all\r\n\r\n", "answer-http"),
        (answer(429, b"not packed", Retry_After="1", Content_Encoding="gzip"), "answer-http"),
    ],
)
def test_a_breach_of_an_answer_is_told(data: bytes, law: str) -> None:
    """Of a request that was in order."""
    assert {found[1:3] for found in laws(asked(HELLO), answered(data))} == {("server", law)}


def test_answers_are_judged_by_what_was_asked() -> None:
    """A whole answer to a request for a stream, and another model's name."""
    assert ("server", "answer-as-asked") in [found[1:3] for found in laws(asked(), answered(answer(200, {})))]
    other = CLEAN.replace(b'"model": "m"', b'"model": "n"')
    assert [found[2] for found in laws(asked(), answered(other))] == ["answer-model"]


def test_a_packed_answer_is_judged_too() -> None:
    """gzip and deflate; other codings are counted."""
    packed = gzip.compress(json.dumps(ERROR).encode())
    assert laws(asked(HELLO), answered(answer(429, packed, Content_Encoding="gzip"))) == [
        (1, "server", "error-retry-after", "Retry-After")
    ]
    *_, last = told(asked(HELLO), answered(answer(429, b"xx", Content_Encoding="br", Retry_After="1")))
    assert json.loads(last)["counts"]["answers not judged, since they are packed"] == 1


def test_pipelined_answers_belong_to_their_requests() -> None:
    """In order, also where they come in one piece."""
    bad = answer(429, ERROR)
    found = laws(asked(HELLO), asked(), asked(HELLO), answered(answer(429, ERROR, Retry_After="1") + NO_FINISH + bad))
    assert [(number, law) for number, _, law, _ in found] == [(2, "stream-one-finish"), (3, "error-retry-after")]


def test_an_answer_before_the_end_of_its_request_is_judged() -> None:
    """The request is judged when its end comes."""
    top, body, end = asked({**HELLO, "top_k": 0})
    early = answered(answer(413, {**ERROR, "error_type": "Input Validation Error", "code": "body_too_large"}))
    assert laws([top], early, [body, end], asked(HELLO), answered(answer(429, ERROR))) == [
        (1, "client", "out_of_range", "top_k"),
        (2, "server", "error-retry-after", "Retry-After"),
    ]


@pytest.mark.parametrize(
    ("data", "law"),
    [
        (b"", "answer-whole"),
        (answer(429, ERROR, Retry_After="1")[:-5], "answer-whole"),
        (CLEAN[:-60], "stream-done-last"),
        (CLEAN[:-5], "answer-whole"),
    ],
)
def test_a_server_that_breaks_off_is_told_once(data: bytes, law: str) -> None:
    """Without an answer, within one, before and behind [DONE]; a client that leaves is none."""
    parts = answered(data) if data else []
    body = HELLO if b"429" in data else None
    assert [found[1:3] for found in laws(asked(body), parts, [Frame(Kind.SERVER_CLOSED, 1, 2.0)])] == [("server", law)]
    assert laws(asked(body), parts, [Frame(Kind.CLIENT_CLOSED, 1, 2.0)]) == []


def test_a_connection_that_is_kept_and_closed_is_none() -> None:
    """Behind its last answer."""
    assert laws(asked(), answered(CLEAN), [Frame(Kind.SERVER_CLOSED, 1, 2.0)]) == []


@pytest.mark.parametrize(
    ("frames", "count"),
    [
        ([Frame(Kind.RAW, 1, 0.0), *answered(b"\x00")], "connections left: another protocol"),
        ([Frame(Kind.SKIPPED, 1, 0.0), *answered(b"\x00")], "connections left: too much to judge"),
        ([Frame(Kind.UNREACHABLE, 1, 0.0, b"down")], "requests that did not reach the server"),
        (answered(b"HTTP/1.1 200 OK\r\n\r\n"), "connections left: bytes that belong to no request"),
    ],
)
def test_what_is_not_judged_is_counted(frames: list[Frame], count: str) -> None:
    """And is no breach."""
    (line,) = told(frames)
    assert json.loads(line) == {"counts": {count: 1}, "breaches": []}


def test_paths_that_the_contract_does_not_have_are_let_be() -> None:
    """Any body, any answer; HEAD and OPTIONS too."""
    page = answered(head(200, {"Content-Type": "text/html", "Content-Length": "4"}) + b"<p/>")
    assert laws(asked({"a": 1}, "/own"), page, asked(HELLO, method="OPTIONS"), page) == []


def test_too_many_requests_at_once_are_judged_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on what one connection can make the judge keep."""
    monkeypatch.setattr(judging, "MAX_PIPELINED", 2)
    *_, last = told(asked(), asked(), asked())
    assert json.loads(last)["counts"] == {"requests": 2, "connections left: too many requests at once": 1}


def test_a_line_is_one_line_whatever_stands_in_it() -> None:
    """Time, number, id, side, law, field, message, remedy; line ends of a client's or server's are shown as such."""
    *lines, counts, breach = told(asked({**HELLO, "model": ""}, req_id="my id"), form="text")
    assert len(lines) == 1
    assert lines[0].startswith("1970-01-01T00:00:00.000Z #1 my id client out_of_range model: model was given ")
    assert (counts, breach) == ("requests: 1", "  1 x client out_of_range")
    named = [{**event(text), "id": "a\u2028\nb"} for text in ("", "x")]
    evil = head(200, SSE, **{"Transfer-Encoding": "chunked"}) + stream(*named, "[DONE]")
    (line, *_) = told(asked(), answered(evil), form="text")
    assert "#1 a\\u2028\\u000ab server " in line


@pytest.mark.parametrize("part", ["body", "answer"])
def test_bodies_for_which_there_is_no_room_are_not_judged(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """They are counted, and what they took is free for the next."""
    monkeypatch.setattr(exchange, "MAX_KEPT_BYTES", 300)
    long = {**HELLO, "top_k": 0, "user": "x" * 300}
    frames = (
        asked(long if part == "body" else HELLO),
        answered(answer(422, ERROR if part == "body" else {"a": "x" * 300})),
    )
    *lines, last = told(*frames, asked({**HELLO, "top_k": 0}), answered(answer(429, ERROR, Retry_After="1")))
    assert [json.loads(line)["law"] for line in lines] == ["out_of_range"]
    assert json.loads(last)["counts"]["bodies not judged, since too much is kept"] == 1


def test_a_packed_answer_that_becomes_too_long_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small it came."""
    monkeypatch.setattr(exchange, "MAX_ANSWER_BYTES", 1000)
    bomb = gzip.compress(b" " * 100_000)
    (line,) = told(asked(HELLO), answered(answer(429, bomb, Content_Encoding="gzip", Retry_After="1")))
    assert json.loads(line)["counts"]["answers not judged, since they are too long"] == 1


def test_a_fault_of_the_judge_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its connection is counted as left, and others are judged."""
    monkeypatch.setattr(exchange.Exchange, "body", lambda *_: 1 / 0)
    (line,) = told(asked())
    assert json.loads(line)["counts"] == {"connections left: the judge failed": 1}
    assert "ZeroDivisionError" in capsys.readouterr().err
