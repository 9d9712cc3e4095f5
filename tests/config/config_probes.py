"""Requests and probes of a server, whose answers keys of config.json change."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace
from typing import Any, cast

from config_server import Server

from engine.silence import Silence
from engine.types import EngineError
from handlers.listeners import open_listeners
from handlers.log_settings import configure
from handlers.planes import Plane

Probe = Callable[[Server], Awaitable[Any]]
IDS = [65 + index % 20 for index in range(40)]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


async def status(server: Server, **fields: Any) -> int:
    """Of a completion."""
    return (await server.completion(**fields)).status_code


def completes(**fields: Any) -> Probe:
    """The status of a completion with these fields."""
    return lambda server: status(server, **fields)


def listens(plane: Plane) -> Probe:
    """Where a plane is served."""

    async def probe(server: Server) -> str:
        listeners = open_listeners(server.service.settings)
        try:
            return next(listener.url for listener in listeners if plane in listener.planes).removeprefix("http://")
        finally:
            for listener in listeners:
                listener.socket.close()

    return probe


async def half_used(server: Server) -> int:
    """What readiness says when a probe fails while half of the engine is in use."""

    async def fails(_: float) -> None:
        raise EngineError("timeout", "late")

    probe = server.service.probe
    probe._front = cast(Any, SimpleNamespace(probe=fails, state="ready", usage_percent=50))
    await probe.look()
    return (await server.client.get("/v2/health/ready")).status_code


async def instances(server: Server) -> int:
    """How many engines answered four requests that came together."""
    for answer in await asyncio.gather(*(server.complete([65 + place, *IDS]) for place in range(4))):
        assert "usage" in answer
    fronts = getattr(server.front, "instances", [server.front])
    return sum(front._scheduler.stats.received > 0 for front in fronts)


async def error_form(server: Server) -> list[str]:
    """The keys of a refusal."""
    return sorted((await server.completion(top_p=7)).json())


async def last_event(server: Server) -> list[str]:
    """The keys of a chat stream's last event."""
    events = (await server.chat(stream=True)).text.split("\n\n")
    return sorted(json.loads(events[-3].removeprefix("data: ")))


async def late(server: Server) -> str:
    """What a request is told that an engine never answers."""
    server.front.step_delay_s = 3600.0
    answer = await server.complete()
    return str(answer["error"]).partition(",")[0] + answer["error"].partition("(")[2]


async def slow(server: Server) -> int:
    """The status of an answer of one token that takes one and a half seconds."""
    server.front.step_delay_s = 1.5
    return await status(server, max_tokens=1)


async def stopped(server: Server) -> int:
    """The status of an answer that runs when the server is told to stop, and then takes a second."""
    server.front.step_delay_s = 0.05
    running = asyncio.create_task(server.completion(max_tokens=20))
    while not server.front.counts.generated_tokens:  # noqa: ASYNC110 - the engine is on this loop
        await asyncio.sleep(0)
    await server.client.get("/stopService")
    return (await running).status_code


async def silent(server: Server) -> float:
    """After how many seconds an engine that says nothing and does nothing would be ended."""
    silence, looks = Silence(server.front.hang), 0
    while not silence.hangs(owes=True, loading=False, cpu_s=0.0):
        looks += 1
    return looks * float(server.front.hang.tick_s)


async def together(server: Server) -> list[int]:
    """The statuses of three requests that come at the same time."""
    server.front.step_delay_s = 0.01
    return sorted(await asyncio.gather(*(status(server) for _ in range(3))))


async def large_body(server: Server) -> int:
    """The status of a body of 1.5 MB, whose prompt is too long for the model."""
    return await status(server, prompt="ab " * 2**19)


async def deep_body(server: Server) -> int:
    """The status of a body with 15 lists inside each other."""
    value: Any = 1
    for _ in range(15):
        value = [value]
    return await status(server, metadata=value)


async def tokens(server: Server) -> int:
    """How many tokens an answer has that may have 100."""
    return int((await server.complete([65] * 10, max_tokens=100))["usage"]["completion_tokens"])


def kept(ask: str) -> Probe:
    """Which part of a prompt of 8 tokens a deployment of 4 answers, on one of the endpoints."""

    async def probe(server: Server) -> str:
        fields = {"max_tokens": 8}
        if ask == "prompt":
            whole = await server.completion([97, 98, 99, 100, 101, 102, 103, 104], **fields)
            text = "" if whole.status_code != 200 else whole.json()["choices"][0]["text"]
            parts = {
                "beginning": (await server.complete([97, 98, 99, 100], **fields))["choices"][0]["text"],
                "end": (await server.complete([101, 102, 103, 104], **fields))["choices"][0]["text"],
            }
        else:
            whole = await server.chat("abcdefgh", chat_template="{{ messages[0].content }}", **fields)
            text = "" if whole.status_code != 200 else whole.json()["choices"][0]["message"]["content"]
            parts = {}
            for name, part in (("beginning", "abcd"), ("end", "efgh")):
                answer = await server.chat(part, chat_template="{{ messages[0].content }}", **fields)
                parts[name] = answer.json()["choices"][0]["message"]["content"]
        return f"{whole.status_code} {next((name for name, value in parts.items() if value == text), 'neither')}"

    return probe


async def models(server: Server) -> list[str]:
    """GET /v1/models."""
    return [entry["id"] for entry in (await server.client.get("/v1/models")).json()["data"]]


async def text(server: Server) -> str:
    """Of a greedy answer."""
    return str((await server.complete([65, 66, 67], max_tokens=12))["choices"][0]["text"])


async def differs(server: Server) -> bool:
    """Whether the adapter ``french`` answers otherwise than the model."""
    plain = await text(server)
    answer = await server.complete([65, 66, 67], max_tokens=12, model="french")
    return bool(answer["choices"][0]["text"] != plain)


async def loading(server: Server) -> list[int]:
    """The statuses of loading two adapters of rank 4 while the server runs."""
    bodies = [{"lora_name": name, "lora_path": "french"} for name in ("one", "two")]
    return [(await server.client.post("/v1/load_lora_adapter", json=body)).status_code for body in bodies]


async def pages(server: Server) -> int:
    """Pages for keys and values, in thousands (1024)."""
    return round(server.front._scheduler.stats.executor.memory.pages_total / 1024)


async def thought(server: Server) -> bool:
    """Whether an answer that is thought comes apart."""
    message = (await server.chat()).json()["choices"][0]["message"]
    return bool(message.get("reasoning_content")) and not message["content"]


async def said_at_the_end(server: Server) -> bool:
    """Whether a thought of two tokens ends with the deployment's words."""
    kwargs = {"thinking_budget": 2}
    answer = await server.chat(max_tokens=20, ignore_eos=True, chat_template_kwargs=kwargs)
    return bool(answer.json()["choices"][0]["message"]["reasoning_content"].endswith("Enough."))


async def mocked(server: Server) -> bool:
    """Whether the answers are made up."""
    return (await text(server)) != "" and server.front.forces_tool_calls


async def two_choices_with_tools(server: Server) -> int:
    """The status."""
    return (await server.chat(tools=[TOOL], n=2, temperature=1)).status_code


async def prompt_tokens(server: Server) -> int:
    """Of a conversation."""
    return int((await server.chat()).json()["usage"]["prompt_tokens"])


async def called(server: Server) -> list[str]:
    """The calls that are read in what the model writes."""
    server.front.executor._replies = lambda _: '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    message = (await server.chat(tools=[TOOL], max_tokens=200)).json()["choices"][0]["message"]
    return [call["function"]["name"] for call in message["tool_calls"]]


async def cached(server: Server) -> int:
    """Tokens of a prompt of 40 that come from the cache the second time."""
    answers = [await server.complete(IDS) for _ in range(2)]
    return int(answers[1]["usage"]["prompt_tokens_details"]["cached_tokens"])


async def beside(server: Server) -> int:
    """How many sequences ran in the step of a prompt that came while another answer was written."""
    events = server.client.stream(
        "POST",
        "/v1/completions",
        json={"model": server.model, "prompt": [65], "max_tokens": 200, "ignore_eos": True, "stream": True},
    )
    running = asyncio.create_task(_read(events))
    while not server.front._scheduler.stats.executor.running:  # noqa: ASYNC110 - the engine is on this loop
        await asyncio.sleep(0)
    answer = await server.complete([66, 67], max_tokens=2)
    await running
    return int(answer["usage"]["batch_size"][0])


async def _read(events: Any) -> None:
    async with events as answer:
        await answer.aread()


def steps(*lengths: int) -> Probe:
    """In which step each of several prompts that come together has its first token."""
    prompts = [[65 + place, *IDS[: length - 1]] for place, length in enumerate(lengths)]
    return lambda server: server.first_tokens(prompts)


async def greedy(server: Server) -> bool:
    """Whether an answer without sampling fields is greedy."""
    plain = (await server.complete([65, 66], max_tokens=12, temperature=None, seed=5))["choices"][0]["text"]
    return bool(plain == (await server.complete([65, 66], max_tokens=12))["choices"][0]["text"])


async def metrics(server: Server) -> int:
    """The status of GET /metrics."""
    return (await server.client.get("/metrics")).status_code


async def averaged(server: Server) -> int:
    """Of three requests, those that averages look back over."""
    for _ in range(3):
        await server.completion(max_tokens=1)
    return server.service.traffic.averaged


async def logged(_: Server) -> str:
    """The level from which on lines are logged."""
    await asyncio.sleep(0)  # what runs beside the requests begins
    return logging.getLevelName(logging.getLogger().level)


async def log_stream(server: Server) -> list[str]:
    """Where the line of a request goes."""
    streams = {"stdout": io.StringIO(), "stderr": io.StringIO()}
    with redirect_stdout(streams["stdout"]), redirect_stderr(streams["stderr"]):
        writer = configure(server.service.settings.logs)
        try:
            await server.completion()
        finally:
            logging.getLogger().removeHandler(writer)
            logging.captureWarnings(False)
            writer.close()
    return [name for name, stream in streams.items() if "endpoint=/v1/completions" in stream.getvalue()]


def media(name: str) -> Probe:
    """A limit of media; what it does is seen in tests/media."""

    async def probe(server: Server) -> Any:
        return getattr(server.service.settings.media, name)

    return probe
