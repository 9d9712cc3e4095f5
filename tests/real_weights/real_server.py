"""A whole server on the default model in float32: a real socket, the engine in a process of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from engine.front import EngineSpec, Limits, ProcessFront
from engine.generation import Generation
from engine.text.tokenizer import tokenizer_from_folder
from engine.types import Request
from handlers.defaults import ModelDefaults
from handlers.listeners import one_listener
from handlers.server import ApiServer
from handlers.service import Service
from handlers.settings import Settings

NAME = "real"
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
_START_S = 120.0


class _ListeningFront(ProcessFront):
    """A front that notes what it was asked for."""

    last: Request | None = None

    def submit(self, request: Request) -> Generation:
        """See ``Front.submit``."""
        self.last = request
        return super().submit(request)


class RealServer:
    """What ``mindspec serve`` runs, in a thread of the test's process."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        """Start loading; ``wait`` before the first request."""
        spec = EngineSpec("engine.packed_loader:load_executor", {"path": str(folder), "dtype": "float32"}, threads=1)
        self.front = _ListeningFront(tokenizer_from_folder(folder), spec, limits=Limits())
        service = Service(Settings(model_name=NAME, **settings), self.front, ModelDefaults.read(folder))
        listener = one_listener("127.0.0.1", 0)
        self._ready = threading.Event()
        self._said: list[str] = []
        self._server = ApiServer(service, self._hear)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._server.serve([listener])), name="real server", daemon=True
        )
        self._thread.start()
        base = listener.url
        # More connections than any test opens at once: a client that queues requests would hide real company.
        limits = httpx.Limits(max_connections=64)
        self.client = httpx.Client(base_url=base, timeout=120.0, trust_env=False, limits=limits)

    def _hear(self, line: str) -> None:
        self._said.append(line)
        if "loads" not in line:
            self._ready.set()

    def wait(self) -> RealServer:
        """Wait until the model answers."""
        assert self._ready.wait(_START_S), self._said
        assert self.front.state == "ready", self._said
        return self

    def stop(self) -> None:
        """Stop; nothing runs any more."""
        self.client.close()
        self._server.loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(30)

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        """One request as it is, but for the model's name."""
        return self.client.post(path, json={"model": NAME, **body})

    def whole(self, path: str = COMPLETIONS, **body: Any) -> dict[str, Any]:
        """The answer to a request that must succeed."""
        answer = self.post(path, body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def ask(self, question: str, **body: Any) -> dict[str, Any]:
        """The whole chat answer to one user message."""
        return self.whole(CHAT, messages=[{"role": "user", "content": question}], **body)

    def events(self, path: str = COMPLETIONS, **body: Any) -> list[dict[str, Any]]:
        """The events of a stream that must succeed, ``[DONE]`` left out."""
        answer = self.post(path, {**body, "stream": True})
        assert answer.status_code == 200, answer.text
        lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
        assert lines[-1] == "[DONE]"
        return [json.loads(line) for line in lines[:-1]]

    def together(self, bodies: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
        """The whole answers to requests that are sent at the same time."""
        with ThreadPoolExecutor(len(bodies)) as pool:
            return list(pool.map(lambda sent: self.whole(sent[0], **sent[1]), bodies))


def texts(answer: dict[str, Any]) -> list[str]:
    """The texts of a whole answer's choices, of either endpoint."""
    return [choice["text"] if "text" in choice else choice["message"]["content"] for choice in answer["choices"]]


def reasons(answer: dict[str, Any]) -> list[str]:
    """The finish reasons of a whole answer's choices."""
    return [choice["finish_reason"] for choice in answer["choices"]]


def joined(events: Sequence[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Per choice of a stream: its text, finish and stop reason, usage, and the logprobs of its events."""
    found: dict[int, dict[str, Any]] = {}
    for event in events:
        (choice,) = event["choices"]
        whole = found.setdefault(choice["index"], {"text": "", "finishes": [], "logprobs": []})
        whole["text"] += choice["text"] if "text" in choice else choice["delta"].get("content", "")
        if choice["logprobs"] is not None:
            whole["logprobs"].append(choice["logprobs"])
        if choice["finish_reason"] is not None:
            whole["finishes"].append(choice["finish_reason"])
            whole["stop_reason"] = choice.get("stop_reason")
            whole["usage"] = event["usage"]
    return found
