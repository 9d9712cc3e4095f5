"""What the fault tests share: a server whose engine is a process of its own, and what clients see of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import httpx

from engine.executor import RequestRound
from engine.front import EngineSpec, HangLimits, ProcessFront
from engine.mock import MockExecutor
from engine.text.byte_tokenizer import mock_tokenizer
from tools.soak.watch import engine_pid

ROOT = Path(__file__).parents[2]
COMPLETIONS = "/v1/completions"
FOREVER = 10**6
"""Tokens that no test waits for."""
SHORT = "hello"
LONG = "hello " * 50
"""A prompt that ``SlowPrompts`` never has done with."""
TIME_S = 60.0
PROGRAM = "import sys; from tests.faults.fault_server import main; sys.exit(main(*sys.argv[1:]))"


class SlowPrompts(MockExecutor):
    """Prompts beyond 100 tokens stay in their prefill; what others get takes a millisecond a token."""

    def step(self) -> list[RequestRound]:
        """See ``Executor.step``."""
        held = {name: run for name, run in self._requests.items() if len(run.request.prompt_ids) > 100}
        for name in held:
            del self._requests[name]
        rounds = super().step()
        self._requests.update(held)
        return rounds + [RequestRound(name, [], None, done=False, prefilling=True) for name in held]


def slow_prompts() -> SlowPrompts:
    """The factory of the engine process."""
    return SlowPrompts(step_delay_s=0.001)


def while_weights_are_there() -> SlowPrompts:
    """The same, as long as there is the file that WEIGHTS names."""
    Path(os.environ["WEIGHTS"]).read_bytes()
    return slow_prompts()


def main(stall_s: str, token_timeout_s: str = "600", factory: str = "tests.faults.fault_server:slow_prompts") -> int:
    """The server's process."""
    from handlers.listeners import open_listeners
    from handlers.server import run
    from handlers.service import Service
    from handlers.settings import Settings

    front = ProcessFront(mock_tokenizer(), EngineSpec(factory, trace=False), hang=HangLimits(float(stall_s), 1e6))
    settings = Settings("mock", port=0, max_iter_times=FOREVER, token_timeout=float(token_timeout_s))
    return run(Service(settings, front), open_listeners(settings))


@contextlib.contextmanager
def process_of(
    *command: str, environment: Mapping[str, str] | None = None, stderr: IO[str] | int = subprocess.DEVNULL
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, once it is ready: the process, and its address."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    watchdog = threading.Timer(TIME_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        found = None
        while found is None:
            line = process.stdout.readline()
            assert line, f"the server ended with {process.wait(TIME_S)}"
            found = re.match(r"mindspec serves mock on (http://\S+)", line)
        watchdog.cancel()
        yield process, found[1]
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()


def fault_server(
    stall_s: float,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    stderr: IO[str] | int = subprocess.DEVNULL,
) -> contextlib.AbstractContextManager[tuple[subprocess.Popen[str], str]]:
    """A server whose engine runs ``SlowPrompts``, and counts as dead after so many silent seconds."""
    return process_of("-c", PROGRAM, str(stall_s), *arguments, environment=environment, stderr=stderr)


def client_of(url: str) -> httpx.AsyncClient:
    """A client of a server."""
    return httpx.AsyncClient(base_url=url, trust_env=False, timeout=TIME_S)


def engine_of(process: subprocess.Popen[str]) -> int:
    """The id of a server's engine process."""
    pid = engine_pid(process.pid)
    assert pid is not None
    return pid


def asked(prompt: str, stream: bool = False, max_tokens: int = FOREVER) -> dict[str, Any]:
    """The body of a greedy completion."""
    body = {"model": "mock", "prompt": prompt, "max_tokens": max_tokens, "stream": stream}
    return {**body, "ignore_eos": True, "temperature": 0}


async def events_of(lines: Any) -> list[str]:
    """The data of the events that are left of a stream."""
    return [line.removeprefix("data: ") async for line in lines if line]


def text_of(events: list[str]) -> str:
    """The text of events."""
    return "".join(json.loads(event)["choices"][0]["text"] for event in events)


async def metric(client: httpx.AsyncClient, name: str) -> float:
    """The sum of a figure of GET /metrics over its labels."""
    text = (await client.get("/metrics")).text
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if re.match(rf"{name}(\{{| )", line))


async def until(condition: Callable[[], Awaitable[bool]]) -> float:
    """Wait for what nobody tells; the seconds that it took."""
    began_s = time.monotonic()
    while not await condition():
        assert time.monotonic() < began_s + TIME_S
        await asyncio.sleep(0.005)
    return time.monotonic() - began_s


async def is_ready(client: httpx.AsyncClient) -> bool:
    """Whether a token has been generated."""
    return (await client.get("/v2/health/ready")).status_code == 200
