"""A real Prometheus scrapes a real server: every dashboard query has data, and the values are the clients' counts.

It runs where there is a prometheus binary: the environment variable PROMETHEUS names it, or it is on the PATH.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tools.dashboard.panels import MODEL, PANELS, WINDOW

ROOT = Path(__file__).parents[2]
PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
CHAT = "/v1/chat/completions"
HELLO = {"model": "mock", "messages": [{"role": "user", "content": "hello"}], "ignore_eos": True, "max_tokens": 5}
TIME_S = 120.0
CONFIG = """
global: {scrape_interval: 250ms, scrape_timeout: 200ms}
scrape_configs:
  - job_name: mindspec
    static_configs: [{targets: ['%s']}]
"""


@contextmanager
def server() -> Iterator[str]:
    """A mock server in a process of its own; its address."""
    command = [sys.executable, "-m", "tools.cli", "mock", "--port", "0", "--log-level", "error"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://(\S+)", process.stdout.readline())
        assert found
        yield found[1]
    finally:
        process.kill()
        process.wait()


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[httpx.Client]:
    """Prometheus on a free port, with a client of its API."""
    assert PROMETHEUS is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "prometheus.yml"
    config.write_text(CONFIG % target, encoding="utf-8")
    command = [PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    process = subprocess.Popen(command, cwd=folder)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1", trust_env=False, timeout=10) as client:
            yield client
    finally:
        process.kill()
        process.wait()


def ask(client: httpx.Client, expression: str) -> list[dict[str, Any]]:
    """The samples that a query gives now; none while Prometheus starts."""
    try:
        answer = client.get("/query", params={"query": expression})
    except httpx.TransportError:
        return []
    if answer.status_code == 503:
        return []
    assert answer.status_code == 200, answer.text
    result: list[dict[str, Any]] = answer.json()["data"]["result"]
    return result


def asked_until(client: httpx.Client, expression: str, value: float | None) -> float | None:
    """The first sample's value, as soon as it is ``value``, or the last one that was seen; None: any."""
    end_s = time.monotonic() + TIME_S
    seen = None
    while time.monotonic() < end_s:
        result = ask(client, expression)
        if result:
            seen = float(result[0]["value"][1])
            if value is None or seen == value:
                return seen
        time.sleep(0.1)
    return seen


@pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus: PROMETHEUS names none and there is none on the PATH")
def test_prometheus_scrapes_every_query_and_the_clients_counts(tmp_path: Path) -> None:
    """Seven answers, whole and streamed, five refusals and one client that hangs up."""
    prompt_tokens = generated_tokens = 0
    with (
        server() as address,
        prometheus(tmp_path, address) as scraped,
        httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=30) as client,
    ):
        assert asked_until(scraped, "request_received_total", 0) == 0
        for _ in range(4):
            usage = client.post(CHAT, json=HELLO).json()["usage"]
            prompt_tokens += usage["prompt_tokens"]
            generated_tokens += usage["completion_tokens"]
        for _ in range(3):
            events = client.post("/v1/completions", json={**HELLO, "prompt": "hi", "stream": True}).text
            usage = json.loads(events.split("\n\n")[-3].removeprefix("data: "))["usage"]
            prompt_tokens += usage["prompt_tokens"]
            generated_tokens += usage["completion_tokens"]
        for _ in range(5):
            assert client.post(CHAT, json={**HELLO, "top_p": 7}).status_code == 422
        with client.stream("POST", CHAT, json={**HELLO, "stream": True, "max_tokens": 100_000}) as gone:
            next(gone.iter_lines())

        counts = {
            "request_received_total": 13,
            "request_success_total": 7,
            "request_failed_total": 6,
            "num_requests_running": 0,
            "failed_request_perc": 6 / 13,
            "time_to_first_token_seconds_count": 8,
            "e2e_request_latency_seconds_count": 7,
            "request_prompt_tokens_count": 8,
            'request_generation_tokens_bucket{le="10"} >= 7': None,
            'sum(mindspec_requests_total{endpoint="/v1/chat/completions",status="422"})': 5,
            'sum(mindspec_requests_total{endpoint="/v1/chat/completions",status="499"})': 1,
            'sum(mindspec_requests_total{endpoint="/v1/completions",status="200"})': 3,
        }
        found = {name: asked_until(scraped, name, value) for name, value in counts.items()}
        assert {name: found[name] for name, value in counts.items() if value is not None} == {
            name: value for name, value in counts.items() if value is not None
        }
        # The stream that was given up has its own share of tokens, which the server knows alone.
        last = asked_until(scraped, "request_generation_tokens_sum", None)
        assert last == asked_until(scraped, "generation_tokens_total", last)
        assert last is not None
        assert last > generated_tokens
        prompts = asked_until(scraped, "prompt_tokens_total", None)
        assert prompts is not None
        assert prompts > prompt_tokens

        expressions = [query.expression for panel in PANELS for query in panel.queries]
        for expression in expressions:
            real = expression.replace(MODEL, '{model_name=~".*"}').replace(WINDOW, "1m")
            value = asked_until(scraped, real, None)
            print(f"{value!s:>22}  {real}")
            assert value is not None, real
