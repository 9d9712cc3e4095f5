"""Servers of configurations without a process of their own: requests, and what the engine did with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.front import EngineSpec, HangLimits, Limits
from engine.front_base import FrontBase
from engine.lora_book import AdapterBook
from engine.mock_front import MockFront
from engine.packed_loader import load_executor
from engine.scheduler import Scheduler
from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.tokenizer import TextTokenizer
from engine.types import RequestFailure, StepOutput
from engine.wire import AdapterLoaded, EngineCommand, LoadAdapter
from handlers.service import Service
from tests.engine.tiny_models import build
from tests.in_process import started
from tools import serving
from tools.cli import _parser, _settings

TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}{{- '<|im_start|>assistant\\n<think>' }}{#- closes with </think> -#}"
)


class LoopFront(MockFront):
    """A front whose engine is the real one, on the event loop."""

    forces_tool_calls = False
    _wait_s = 0.0

    def __init__(
        self,
        tokenizer: TextTokenizer,
        spec: EngineSpec,
        *,
        limits: Limits,
        hang: HangLimits | None = None,
        adapters: AdapterBook | None = None,
        on_progress: Any = None,
    ) -> None:
        FrontBase.__init__(self, tokenizer, limits, adapters)
        self.hang = hang
        self.executor: Any = load_executor(**spec.kwargs)
        self.step_delay_s = 0.0
        self._scheduler = Scheduler(self.executor, limits.max_batch_size, max_queue=limits.max_queue)
        self._has_work = asyncio.Event()
        self._rounds = None

    def begin(self) -> None:
        """The engine is there already."""

    def _order(self, command: EngineCommand) -> None:
        """The real engine takes no orders."""

    def _send(self, command: EngineCommand) -> None:
        if isinstance(command, LoadAdapter):
            try:
                read = self.executor.read_adapter(command.folder, command.max_rank)
                self.executor.load_adapter(command.number, command.name, read)
            except Exception as error:
                self._adapter_answered(AdapterLoaded(command.number, str(error)))
            else:
                self._adapter_answered(AdapterLoaded(command.number, None))
            return
        super()._send(command)


class Server:
    """One started service, asked in process."""

    def __init__(self, service: Service, client: httpx.AsyncClient) -> None:
        self.service = service
        self.front: Any = service.front
        self.client = client
        self._order: list[list[str]] = []

    @property
    def model(self) -> str:
        """The deployed name."""
        return self.service.settings.model_name

    async def complete(self, prompt: str | list[int] = "Hello there", **fields: Any) -> Any:
        """The answer of POST /v1/completions, greedy and unending unless said otherwise, parsed."""
        return (await self.completion(prompt, **fields)).json()

    async def completion(self, prompt: str | list[int] = "Hello there", **fields: Any) -> httpx.Response:
        """The same, as it came."""
        body = {"model": self.model, "prompt": prompt, "temperature": 0, "max_tokens": 4, "ignore_eos": True, **fields}
        return await self.client.post("/v1/completions", json=body)

    async def chat(self, content: str = "Hello there", **fields: Any) -> httpx.Response:
        """POST /v1/chat/completions, likewise."""
        messages = [{"role": "user", "content": content}]
        body = {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": 4, **fields}
        return await self.client.post("/v1/chat/completions", json=body)

    async def first_tokens(self, prompts: Sequence[Sequence[int]], max_tokens: int = 4) -> list[int]:
        """Requests that come at the same time: in which of the engine's steps, from 1, each had its first token."""
        scheduler, rounds = self.front._scheduler, []
        run_round = scheduler.run_round

        def held() -> list[StepOutput | RequestFailure]:
            """Wait until all are there, then run as always."""
            if not rounds and scheduler.queued < len(prompts):
                return []
            outputs: list[StepOutput | RequestFailure] = run_round()
            rounds.append([output.request_id for output in outputs if isinstance(output, StepOutput) and output.tokens])
            return outputs

        scheduler.run_round = held
        answers = await asyncio.gather(*(self.complete(list(ids), max_tokens=max_tokens) for ids in prompts))
        assert all("usage" in answer for answer in answers), answers
        order = sorted({name for names in rounds for name in names}, key=lambda name: int(name.rpartition("r")[2]))
        return [1 + next(index for index, names in enumerate(rounds) if name in names) for name in order]


def make(file: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Service:
    """The service of `serve --config FILE`, its engine on the event loop. Raises CannotStart."""
    line = ["serve", "--config", str(file), "--dtype", "float32", "--cpu-step", "torch", *arguments]
    given = _parser().parse_args(line)
    given.arguments = line

    def parse(defaults: Mapping[str, Any]) -> Any:
        return _parser(defaults).parse_args(line)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "ProcessFront", LoopFront)
        patch.setattr(serving, "open_listeners", lambda *_: [])
        return serving.served(given, parse, _settings, environment or {})[0]


@asynccontextmanager
async def served(file: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> AsyncIterator[Server]:
    """A started server of a file."""
    service = make(file, *arguments, environment=environment)
    async with started(service) as client:
        await service.front.wait_ready()
        yield Server(service, client)


def save_weights(folder: Path, seed: int = 1, **config: Any) -> Path:
    """A folder with a tiny Llama of 256 positions, a byte tokenizer, and a template whose answers are thought."""
    folder.mkdir(parents=True)
    tokenizer = mock_tokenizer(TEMPLATE, ("<think>", "</think>"))
    build("llama", seed, tokenizer.vocab_size).save_pretrained(folder)
    tokenizer._backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    (folder / "generation_config.json").write_text(json.dumps({"do_sample": False}))
    written = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**written, **config}))
    return folder
