"""The server process: its ready line, its end, and an address that is taken."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
import sys

import httpx
import pytest
from mock_process import LONG, ROOT, mock_server

from handlers.server import ready_lines


def test_a_stop_signal_lets_the_running_stream_finish() -> None:
    """After SIGTERM new requests get 503 stopping, the stream ends as usual, and the exit code is 0."""
    with (
        mock_server("--step-delay-ms", "25") as (process, url),
        httpx.Client(base_url=url, trust_env=False, timeout=30) as client,
        client.stream("POST", "/v1/chat/completions", json=LONG) as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith("data: ")
        process.send_signal(signal.SIGTERM)
        late = httpx.get(f"{url}/health", trust_env=False)
        while late.status_code == 200:  # the signal is on its way
            late = httpx.get(f"{url}/health", trust_env=False)
        refused = httpx.post(f"{url}/v1/chat/completions", json={**LONG, "stream": False}, trust_env=False)
        rest = [line.removeprefix("data: ") for line in lines if line]

        assert (late.status_code, late.json()) == (503, {"status": "draining"})
        assert (refused.status_code, refused.json()["code"]) == (503, "stopping")
        assert refused.headers["retry-after"]
        assert rest[-1] == "[DONE]"
        assert json.loads(rest[-2])["choices"][0]["finish_reason"] == "length"
        assert process.wait(30) == 0


def test_a_drain_that_takes_too_long_ends_streams_with_an_error() -> None:
    """What still runs after the grace period gets an error event, never a finish_reason."""
    with (
        mock_server("--step-delay-ms", "25", "--drain-timeout", "0.1") as (process, url),
        httpx.Client(base_url=url, trust_env=False, timeout=30) as client,
        client.stream("POST", "/v1/chat/completions", json={**LONG, "max_tokens": 100_000}) as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith("data: ")
        process.send_signal(signal.SIGTERM)
        rest = [line.removeprefix("data: ") for line in lines if line]

        assert rest[-1] == "[DONE]"
        assert json.loads(rest[-2])["error"]["code"] == "stopping"
        assert process.wait(30) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_stops_with_code_0(number: signal.Signals) -> None:
    """Either signal is an ordinary end."""
    with mock_server() as (process, _):
        process.send_signal(number)

        assert process.wait(30) == 0


def test_an_address_that_is_taken_is_one_sentence_and_code_98() -> None:
    """No traceback: the address, and how to find who has it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "tools.cli", "mock", "--port", str(port)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 98
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"mindspec: cannot listen on 127.0.0.1:{port} (business and management and metrics): ")
    assert line.endswith(f"the port is in use; `ss -ltnp 'sport = :{port}'` shows by which process")


def test_the_ready_line_has_a_command_to_paste() -> None:
    """Quoted for a shell, whatever the model is called."""
    command = shlex.split(ready_lines("http://127.0.0.1:1025", "it's 模型").splitlines()[2])

    assert command[:4] == ["curl", "http://127.0.0.1:1025/v1/chat/completions", "-H", "Content-Type: application/json"]
    assert json.loads(command[5])["model"] == "it's 模型"
