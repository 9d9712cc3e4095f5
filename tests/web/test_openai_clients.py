"""The clients of OpenAI for JavaScript and for Python against the mock, and against the proxy before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai_client
import pytest
from mock_process import mock_server
from proxy_process import proxy_server

FORMS = ("vllm", "openai")
TOOL_CALL = {"finish": "tool_calls", "name": "weather", "city": "string"}
BROKEN_OFF = {"some": True, "whole": False, "failed": True}
ERRORS = {
    "range": ("UnprocessableEntityError", 422, "out_of_range"),
    "rule": ("UnprocessableEntityError", 422, "top-logprobs-needs-logprobs"),
    "model": ("NotFoundError", 404, "not_found"),
    "busy": ("RateLimitError", 429, "queue_full"),
    "loading": ("InternalServerError", 503, "loading"),
    "engine": ("InternalServerError", 500, "internal"),
}
BREACHES = [
    ("client", "out_of_range", "temperature"),
    ("client", "top-logprobs-needs-logprobs", "top_logprobs"),
    ("server", "stream-done-last", None),  # the connection that the mock was asked to cut
]


def due(form: str) -> dict[str, Any]:
    """What a client has to see; it reads the contract's code by itself in OpenAI's form only."""
    errors = {
        name: {"kind": kind, "status": status, "code": code if form == "openai" else None}
        for name, (kind, status, code) in ERRORS.items()
    }
    return {
        "whole": {"object": "chat.completion", "role": "assistant", "finish": "length", "tokens": 6},
        "stream": {"same": True, "opening": ["assistant", ""], "finishes": ["length"], "tokens": 6},
        "choices": [0, 1],
        "helper": True,
        "logprobs": {"tokens": 6, "candidates": [3], "greedy": True},
        "completions": {"same": True, "offset": 0, "tokens": 5},
        "tools": [TOOL_CALL, TOOL_CALL],
        "json": "string",
        "models": ["mock"],
        "errors": errors,
        "failed": BROKEN_OFF,
        "cut": BROKEN_OFF,
        "abort": {"before": 3, "after": "length"},
    }


@pytest.fixture(scope="module", params=FORMS)
def mock(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A mock in a process of its own: the form that it answers in, and its address."""
    with mock_server("--open-ai-support", request.param) as (_, url):
        yield request.param, url


def test_python_client_against_the_mock(mock: tuple[str, str]) -> None:
    """Whole and streamed answers, choices, logprobs, tools, schemas, errors as exceptions, cuts, and giving up."""
    form, url = mock
    assert openai_client.paces(url, "mock") == due(form)


def test_javascript_client_against_the_mock(mock: tuple[str, str], node: Callable[..., Any]) -> None:
    """The same."""
    form, url = mock
    assert node("openai_client.mjs", url, "mock") == due(form)


def test_python_client_through_the_proxy(mock: tuple[str, str], tmp_path: Path) -> None:
    """The same, and the proxy tells just what the client does wrong and where the mock was asked to break off."""
    form, url = mock
    with proxy_server(url, tmp_path, "--open-ai-support", form) as proxy:
        assert openai_client.paces(proxy.url, "mock") == due(form)
    assert proxy.breaches == BREACHES


def test_javascript_client_through_the_proxy(mock: tuple[str, str], tmp_path: Path, node: Callable[..., Any]) -> None:
    """The same."""
    form, url = mock
    with proxy_server(url, tmp_path, "--open-ai-support", form) as proxy:
        assert node("openai_client.mjs", proxy.url, "mock") == due(form)
    assert proxy.breaches == BREACHES
