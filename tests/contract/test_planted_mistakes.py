"""Ten planted mistakes are found by `check` and by `proxy`, exactly those; 200 clean requests get no report."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted import PLANTED, Sent, chat, swapped
from proxy_process import proxy_server
from test_valid_requests import SPEC, plain, realistic
from wire import CHAT, COMPLETIONS, JSON_TYPE, MODEL, Answer, Client, ClientFor

from tools.cli import main
from tools.contract.strategy import contract_of, valid_requests


def recorded(sent: Sent, answer: Answer) -> dict[str, Any]:
    """An entry of a HAR."""
    body = swapped(answer.content) if sent.late else answer.content
    return {
        "request": {
            "method": "POST",
            "url": f"http://127.0.0.1:1025{sent.path}",
            "headers": [{"name": name, "value": value} for name, value in sent.headers.items()],
            "postData": {"text": sent.body.decode()},
        },
        "response": {
            "status": answer.status_code,
            "headers": [{"name": name, "value": value} for name, value in answer.headers.items()],
            "content": {"text": body.decode()},
        },
    }


def report_of(client: Client, requests: Sequence[Sent], folder: Path) -> tuple[int, dict[str, Any]]:
    """Send the requests, record them with their answers, and check the recording."""
    entries = [recorded(one, client.post(one.path, content=one.body, headers=one.headers)) for one in requests]
    har, out = folder / "client.har", folder / "report.json"
    har.write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}), encoding="utf-8")
    code = main(["check", str(har), "--format", "json", "--output", str(out)])
    return code, json.loads(out.read_text(encoding="utf-8"))


@contextlib.contextmanager
def server_of(client: Client) -> Iterator[str]:
    """A server that answers as the client's does, but for the streams that have to arrive in the wrong order."""
    late = {one.body for one in PLANTED if one.late}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one piece: the second would wait for the first to be acknowledged

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = client.post(self.path, content=body, headers={"Content-Type": self.headers["Content-Type"]})
            content = swapped(answer.content) if body in late else answer.content
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def send_all(url: str, requests: Sequence[Sent]) -> None:
    """One after the other, over one connection."""
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        for one in requests:
            client.post(one.path, content=one.body, headers=one.headers)


MIXED = [one for planted in PLANTED for one in (planted, chat(), chat(stream=True))]
"""The planted requests with clean ones between them."""


def test_the_proxy_finds_the_ten_and_nothing_else(client_for: ClientFor, tmp_path: Path) -> None:
    """Nine are the client's, and the tenth is the server's that the client talks to."""
    with server_of(client_for()) as url, proxy_server(url, tmp_path) as proxy:
        send_all(proxy.url, MIXED)
    due = [("server" if one.late else "client", *mistake) for one in MIXED for mistake in one.mistakes]
    assert proxy.breaches == due
    assert len(due) == 10


def test_the_proxy_has_nothing_to_say_of_clean_requests(client_for: ClientFor, tmp_path: Path) -> None:
    """The same 200, over a connection."""
    requests = clean("create_chat_completion", CHAT) + clean("create_completion", COMPLETIONS)
    with server_of(client_for(max_n=8192, max_iter_times=8)) as url, proxy_server(url, tmp_path) as proxy:
        send_all(proxy.url, requests)
    assert proxy.breaches == []
    assert proxy.counts["answers"] == len(requests) >= 200


def test_ten_planted_mistakes_are_found_and_nothing_else(client_for: ClientFor, tmp_path: Path) -> None:
    """Two of them in one request, one that only the order of a stream's events shows; clean requests between them."""
    requests = MIXED
    code, report = report_of(client_for(), requests, tmp_path)
    found = [(one["request"], one["law"], one["field"]) for one in report["breaches"]]
    due = [(number, *mistake) for number, one in enumerate(requests, 1) for mistake in one.mistakes]
    assert found == due
    assert len(found) == 10
    assert (code, report["requests"], report["answers"]) == (1, 27, 27)


def clean(operation: str, path: str) -> list[Sent]:
    """100 drawn requests that the contract accepts, some of them for streams."""
    requests: list[Sent] = []
    drawn = valid_requests(operation, contract=contract_of(SPEC)).filter(plain).map(realistic)

    @settings(max_examples=100, deadline=None, database=None, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(body=drawn, stream=st.booleans())
    def draw(body: dict[str, Any], stream: bool) -> None:
        body["model"] = MODEL
        if stream and body.get("best_of") is None:
            body["stream"] = True
        requests.append(Sent(path, json.dumps(body, ensure_ascii=False).encode(), headers=dict(JSON_TYPE)))

    draw()
    return requests


def test_two_hundred_clean_requests_get_no_report(client_for: ClientFor, tmp_path: Path) -> None:
    """Drawn for both endpoints, whole and streamed, with the mock's answers."""
    requests = clean("create_chat_completion", CHAT) + clean("create_completion", COMPLETIONS)
    code, report = report_of(client_for(max_n=8192, max_iter_times=8), requests, tmp_path)
    assert report["breaches"] == []
    assert code == 0
    assert report["answers"] == len(requests) >= 200
