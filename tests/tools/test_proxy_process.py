"""`mindspec proxy` before the real mock: what passes, what is told, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mock_app import CHAT, COMPLETIONS, TOOL
from mock_process import ROOT, mock_server
from proxy_process import proxy_server

HELLO = {"model": "mock", "messages": [{"role": "user", "content": "Hello"}], "seed": 3}
TEXT = {"model": "mock", "prompt": "Hello", "seed": 3}
CLEAN: list[tuple[str, dict[str, Any]]] = [
    (CHAT, HELLO),
    (CHAT, {**HELLO, "stream": True}),
    (CHAT, {**HELLO, "stream": True, "n": 3, "temperature": 1.5, "logprobs": True, "top_logprobs": 3}),
    (CHAT, {**HELLO, "best_of": 3, "n": 1, "presence_penalty": 1, "stop": ["the", "。"], "max_tokens": 30}),
    (CHAT, {**HELLO, "use_beam_search": True, "n": 2, "max_tokens": 12}),
    (CHAT, {**HELLO, "use_beam_search": True, "n": 2, "max_tokens": 12, "stream": True}),
    (CHAT, {**HELLO, "tools": [TOOL], "tool_choice": "required", "stream": True}),
    (CHAT, {**HELLO, "response_format": {"type": "json_object"}}),
    (COMPLETIONS, TEXT),
    (COMPLETIONS, {**TEXT, "stream": True, "n": 2, "logprobs": 2, "max_tokens": 20, "ignore_eos": True}),
    (COMPLETIONS, {**TEXT, "use_beam_search": True, "n": 3, "logprobs": 1, "max_tokens": 9, "stream": True}),
    (COMPLETIONS, {**TEXT, "max_tokens": 5, "stop": ["a"], "include_stop_str_in_output": True}),
]


@pytest.fixture(scope="module")
def mock() -> Iterator[str]:
    """A mock's address."""
    with mock_server() as (_, url):
        yield url


def client_of(url: str) -> httpx.Client:
    """A client that keeps its connections."""
    return httpx.Client(base_url=url, trust_env=False, timeout=60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_clean_exchanges_pass_and_nothing_is_told(mock: str, number: signal.Signals, tmp_path: Path) -> None:
    """Answers are the server's own, ids and times aside; the exit code is 0."""
    with proxy_server(mock, tmp_path, end=number) as proxy, client_of(proxy.url) as client, client_of(mock) as direct:
        for url, body in CLEAN:
            through, own = client.post(url, json=body), direct.post(url, json=body)
            assert through.status_code == own.status_code == 200, through.text
            assert through.headers.keys() == own.headers.keys()
            assert texts(through) == texts(own)
        for path in ("/v1/models", "/health", "/metrics", "/nothing"):
            assert client.get(path).status_code == direct.get(path).status_code
        assert client.head("/v1/models").status_code == 200
        assert client.post("/own", content=b"\x00" * 100_000).status_code == 404
    assert (proxy.code, proxy.lines, proxy.told_in_all) == (0, [], 0)
    assert (proxy.counts["requests"], proxy.counts["streams"]) == (len(CLEAN) + 6, 6)


def texts(answer: httpx.Response) -> list[Any]:
    """All choices, without the random ids of calls."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        found = [json.loads(line[6:])["choices"] for line in answer.text.splitlines() if line and line[6:] != "[DONE]"]
    else:
        found = answer.json()["choices"]
    return json.loads(json.dumps(found).replace('"id"', '"-"'), object_pairs_hook=lambda pairs: [
        pair for pair in pairs if pair[0] != "-"])  # fmt: skip


def test_planted_breaches_are_told_exactly_once(mock: str, tmp_path: Path) -> None:
    """Two in one request, one of a profile, and three of a server that breaks off; each in order, with its number."""
    with proxy_server(mock, tmp_path, "--profile", "mtp") as proxy, client_of(proxy.url) as client:
        client.post(CHAT, json=HELLO)
        client.post(CHAT, json={**HELLO, "n": 3, "best_of": 2, "top_k": 0})
        client.post(CHAT, json={**HELLO, "n": 2}, headers={"req-id": "mine"})
        for stream in (True, False):
            with pytest.raises(httpx.RemoteProtocolError):
                client.post(CHAT, json={**HELLO, "stream": stream}, headers={"X-Mock": "disconnect-after=2"})
        client.put(CHAT, json=HELLO)
    lines = proxy.lines
    assert [(line["request"], line["side"], line["law"], line["field"]) for line in lines] == [
        (2, "client", "out_of_range", "top_k"),
        (2, "client", "best-of-at-least-n", "best_of"),
        (2, "client", "mtp-excludes-n", "n"),
        (2, "client", "mtp-excludes-best-of", "best_of"),
        (3, "client", "mtp-excludes-n", "n"),
        (4, "server", "stream-done-last", None),
        (5, "server", "answer-whole", None),
        (6, "client", "method_not_allowed", None),
    ]
    assert lines[4]["id"] == "mine"
    assert all(line["message"] and line["remedy"] for line in lines)
    assert (proxy.code, proxy.told_in_all) == (1, len(lines))


def test_a_client_that_leaves_is_gone_from_the_engine_before_its_next_token(mock: str, tmp_path: Path) -> None:
    """The next would come in 500 s; its place is free at once."""
    slow = {"X-Mock": "slow-token=500s"}
    with proxy_server(mock, tmp_path) as proxy, client_of(proxy.url) as client, client_of(mock) as direct:

        def free() -> int:
            found: int = direct.get("/v2/models/mock/getSlotCount").json()["free_slots"]
            return found

        def becomes(places: int) -> bool:
            """The engine tells of its places with its next report."""
            deadline_s = time.monotonic() + 60
            while free() != places and time.monotonic() < deadline_s:
                time.sleep(0.01)
            return free() == places

        before = free()
        with client.stream("POST", CHAT, json={**HELLO, "stream": True}, headers=slow) as answer:
            lines = answer.iter_lines()  # held: the client would leave with it
            assert next(lines).startswith("data: ")
            assert becomes(before - 1)
        assert becomes(before)
    assert (proxy.code, proxy.lines) == (0, [])


def test_a_server_that_is_down_is_a_502(tmp_path: Path) -> None:
    """No breach of anybody's, but counted."""
    with proxy_server("http://127.0.0.1:9", tmp_path) as proxy, client_of(proxy.url) as client:
        answer = client.post(CHAT, json=HELLO)
        assert (answer.status_code, answer.json()["code"]) == (502, "unreachable")
    assert (proxy.code, proxy.lines) == (0, [])
    assert proxy.counts["requests that did not reach the server"] == 1


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["127.0.0.1:80"], 2, "is not of the form http://HOST:PORT/BASE"),
        (["https://x", "--ca", "none.pem"], 2, "none.pem cannot be used"),
        (["http://x", "--report", "none/file"], 2, "none/file"),
        (["http://x", "--host", "203.0.113.1"], 98, "cannot listen on 203.0.113.1:1026"),
    ],
)
def test_what_cannot_be_used_ends_the_start_with_one_sentence(options: list[str], code: int, message: str) -> None:
    """And a code: 2 for the command line, 98 for the address."""
    command = [sys.executable, "-m", "tools.cli", "proxy", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1)
    assert message in done.stderr
