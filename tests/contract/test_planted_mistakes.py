"""Ten planted mistakes are found by `mindspec check`, exactly those; 200 clean requests get no report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted import PLANTED, Sent, chat, swapped
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


def test_ten_planted_mistakes_are_found_and_nothing_else(client_for: ClientFor, tmp_path: Path) -> None:
    """Two of them in one request, one that only the order of a stream's events shows; clean requests between them."""
    requests = [one for planted in PLANTED for one in (planted, chat(), chat(stream=True))]
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
