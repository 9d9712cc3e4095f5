"""How the server ends: by GET /stopService, by a second signal, by an engine that is lost, and with which code."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from in_process import started
from mock_process import LONG, ROOT, mock_server

from engine.mock_front import MockFront
from handlers import stop_service
from handlers.service import Service
from handlers.settings import Settings

CHAT = "/v1/chat/completions"
ENDLESS = {**LONG, "max_tokens": 100_000}
LOST = """
import sys
from engine.front import EngineSpec, ProcessFront
from engine.text.byte_tokenizer import mock_tokenizer
from handlers.listeners import open_listeners
from handlers.server import run
from handlers.service import Service
from handlers.settings import Settings
front = ProcessFront(mock_tokenizer(), EngineSpec(sys.argv[1], trace=False))
settings = Settings("m", port=0)
sys.exit(run(Service(settings, front), open_listeners(settings)))
"""


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run mindspec to its end."""
    program = [sys.executable, "-m", "tools.cli", *arguments]
    return subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(("grace_s", "status"), [("30", 200), ("0.1", 503)])
def test_a_whole_answer_is_finished_or_told_that_the_server_stops(grace_s: str, status: int) -> None:
    """A request of two seconds: within the grace period its answer, else 503 stopping; the code is 0 both times."""
    with (
        mock_server("--step-delay-ms", "25", "--drain-timeout", grace_s) as (process, url),
        httpx.Client(base_url=url, trust_env=False, timeout=30) as client,
    ):
        asking = subprocess.Popen([sys.executable, "-c", ASK, url], stdout=subprocess.PIPE, text=True)
        until(lambda: metric(client, "mindspec_sequences_running") == 1)
        process.send_signal(signal.SIGTERM)
        said, _ = asking.communicate(timeout=60)
        answer = json.loads(said)

        assert answer["status"] == status
        assert answer.get("code") == (None if status == 200 else "stopping")
        assert process.wait(30) == 0


ASK = """
import json, sys, httpx
body = {"model": "mock", "messages": [{"role": "user", "content": "hello"}], "ignore_eos": True, "max_tokens": 80}
answer = httpx.post(sys.argv[1] + "/v1/chat/completions", json=body, trust_env=False, timeout=60)
print(json.dumps({"status": answer.status_code, "code": answer.json().get("code")}))
"""


def until(condition: Callable[[], bool]) -> None:
    """Wait for what nobody tells."""
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s


def is_draining(url: str) -> bool:
    """Whether readiness has fallen."""
    return httpx.get(f"{url}/v2/health/ready", trust_env=False).status_code == 503


def metric(client: httpx.Client, name: str) -> float:
    """A figure of GET /metrics."""
    text = client.get("/metrics").text
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))


def test_a_second_signal_ends_at_once_and_streams_are_told() -> None:
    """The stream's last event is the error; the code says that something was cut short."""
    with (
        mock_server("--step-delay-ms", "25") as (process, url),
        httpx.Client(base_url=url, trust_env=False, timeout=30) as client,
        client.stream("POST", CHAT, json=ENDLESS) as stream,
    ):
        lines = stream.iter_lines()
        next(lines)
        process.send_signal(signal.SIGTERM)
        until(lambda: is_draining(url))
        live = httpx.get(f"{url}/v2/health/live", trust_env=False)
        process.send_signal(signal.SIGTERM)
        rest = [line.removeprefix("data: ") for line in lines if line]

        assert live.status_code == 200
        assert rest[-1] == "[DONE]"
        assert json.loads(rest[-2])["error"]["code"] == "stopping"
        assert process.wait(30) == 1


def test_stop_service_answers_when_nothing_runs_and_ends_the_server() -> None:
    """The running stream finishes, a second call is a 500, the first one a 200, the exit code 0."""
    with (
        mock_server("--step-delay-ms", "25") as (process, url),
        httpx.Client(base_url=url, trust_env=False, timeout=30) as client,
        client.stream("POST", CHAT, json=LONG) as stream,
    ):
        lines = stream.iter_lines()
        next(lines)
        asking = subprocess.Popen([sys.executable, "-c", STOP, url], stdout=subprocess.PIPE, text=True)
        until(lambda: is_draining(url))
        second = httpx.get(f"{url}/stopService", trust_env=False)
        process.send_signal(signal.SIGTERM)  # what a service manager sends after its stop hook
        rest = [line.removeprefix("data: ") for line in lines if line]
        first, _ = asking.communicate(timeout=30)

        assert (second.status_code, second.json()["code"]) == (500, "stopping")
        assert json.loads(rest[-2])["choices"][0]["finish_reason"] == "length"
        assert first == "200\n"
        assert process.wait(30) == 0


STOP = """
import sys, httpx
print(httpx.get(sys.argv[1] + "/stopService", trust_env=False, timeout=60).status_code)
"""


async def test_stop_service_with_force_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here after 0 instead of 5 s: what runs is told that the server stops."""
    monkeypatch.setattr(stop_service, "FORCE_TIMEOUT_S", 0.0)
    front = MockFront(step_delay_s=0.001, max_position_embeddings=10**7)
    async with started(Service(Settings("mock", max_iter_times=10**6), front)) as client:
        running = asyncio.create_task(client.post(CHAT, json={**ENDLESS, "stream": False}))
        while not front.counts.generated_tokens:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        answer = await client.get("/stopService?mode=Force")
        cut = await running

    assert (answer.status_code, answer.json()) == (200, {"message": "Nothing runs any more; the server ends."})
    assert (cut.status_code, cut.json()["code"]) == (503, "stopping")


async def test_an_unknown_mode_of_stop_service_stops_nothing() -> None:
    """It names what is allowed."""
    async with started(Service(Settings("mock"), MockFront())) as client:
        answer = await client.get("/stopService?mode=soft")
        ready = await client.get("/v2/health/ready")

    assert (answer.status_code, answer.json()["param"], ready.status_code) == (422, "mode", 200)
    assert answer.json()["error"] == "mode must be Force or absent, got 'soft'"


async def test_stop_service_is_not_offered_to_everybody() -> None:
    """Where other machines may send requests, and the management plane has no address of its own."""
    async with started(Service(Settings("mock", host="192.0.2.1"), MockFront())) as client:
        answer = await client.get("/stopService")
        ready = await client.get("/v2/health/ready")

    assert (answer.status_code, ready.status_code) == (404, 200)
    assert "--management-port" in answer.json()["error"]


@pytest.mark.parametrize(
    ("factory", "code", "words"),
    [
        ("refusing", 66, "The model folder is empty."),
        ("without_its_device", 69, "There is no such processor."),
        ("dying", 70, "ended 3 times within 5 minutes and is not started again"),
        ("failing", 70, "it was told to"),
    ],
)
def test_an_engine_that_is_lost_ends_the_server_with_a_code_and_a_sentence(factory: str, code: int, words: str) -> None:
    """Missing weights, a missing device, a crash loop, and a failure that nobody foresaw; no stack trace."""
    program = [sys.executable, "-c", LOST, f"tests.engine.fake_executor:{factory}"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == code
    last = done.stderr.splitlines()[-1]
    assert last.startswith("mindspec cannot serve m: ")
    assert words in last
    assert "Traceback" not in done.stderr


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 8, "hidden_size": 8}
TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"},
}


@pytest.mark.parametrize("what", ["no folder", "no weights", "truncated", "unreadable", "no tokenizer", "no JSON"])
def test_weights_that_cannot_be_used_end_the_server_with_66(what: str, tmp_path: Path) -> None:
    """One line that names what is wrong, and no stack trace."""
    folder = tmp_path / "model"
    if what != "no folder":
        folder.mkdir()
        (folder / "config.json").write_text("{" if what == "no JSON" else json.dumps(CONFIG))
        if what != "no tokenizer":
            (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        if what == "unreadable":
            (folder / "model.safetensors").mkdir()
        elif what != "no weights":
            (folder / "model.safetensors").write_bytes((1000).to_bytes(8, "little") + b"{")
    done = command("serve", "--model", str(folder), "--port", "0", "--dtype", "float32")

    assert done.returncode == 66
    assert done.stderr.splitlines()[-1].startswith("mindspec")
    assert "model" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_trace_is_there_for_who_asks(tmp_path: Path) -> None:
    """--trace shows where the failure came from."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")  # whole, and without a tensor
    done = command("serve", "--model", str(tmp_path), "--port", "0", "--dtype", "float32", "--trace")

    assert done.returncode == 66
    assert "Traceback" in done.stderr
