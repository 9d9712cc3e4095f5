"""disconnect-after on a real socket: the connection ends in the middle of its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from mock_process import LONG, mock_server


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """Of a mock in a process of its own."""
    with mock_server() as (_, url), httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        yield client


def test_a_stream_is_cut_after_so_many_tokens(client: httpx.Client) -> None:
    """Five pieces of text arrive after the opening event, then the connection ends without its last chunk."""
    choices: list[dict[str, Any]] = []

    def collect() -> None:
        headers = {"X-Mock": "disconnect-after=5; slow-token=1ms"}
        with client.stream("POST", "/v1/chat/completions", json={**LONG, "seed": 8}, headers=headers) as answer:
            choices.extend(json.loads(line[6:])["choices"][0] for line in answer.iter_lines() if line)

    with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
        collect()
    assert [choice["delta"]["content"] for choice in choices] == ["", "我", "们", " about", " is", "我"]
    assert {choice["finish_reason"] for choice in choices} == {None}


def test_a_whole_answer_is_cut_before_it_begins(client: httpx.Client) -> None:
    """Nothing comes at all."""
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        client.post("/v1/chat/completions", json={**LONG, "stream": False}, headers={"X-Mock": "disconnect-after=5"})


def test_an_answer_that_is_shorter_is_whole(client: httpx.Client) -> None:
    """There is nothing left to cut."""
    body = {**LONG, "stream": False, "ignore_eos": False}
    answer = client.post("/v1/chat/completions", json=body, headers={"X-Mock": "disconnect-after=5,tokens=5"})
    assert answer.json()["usage"]["completion_tokens"] == 5


def test_the_server_goes_on(client: httpx.Client) -> None:
    """Whatever was cut before: the engine has nothing left of it."""
    status = client.get("/v2/models/mock/getSlotCount").json()
    assert status["free_slots"] == status["total_slots"]
