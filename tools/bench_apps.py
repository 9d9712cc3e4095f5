"""The two applications that tools/bench.py compares: the contract's, and a bare Starlette one that does as little."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from engine.generation import Generation, GenerationState
from engine.mock_front import MockFront
from engine.types import ChoiceDelta, Request, SamplingParams, Stats

EVENTS = 200
ANSWER = b'{"object":"list","data":[]}'


class ScriptedFront(MockFront):
    """A front whose every answer is the same words, one a round: what is left to measure is the HTTP side."""

    def submit(self, request: Request) -> Generation:
        """See ``Front.submit``."""
        state = GenerationState()
        stats = Stats(prompt_tokens=len(request.prompt_ids))
        task = asyncio.create_task(self._write(state, stats))

        def cancel() -> None:
            task.cancel()

        return Generation(state, stats, cancel)

    async def _write(self, state: GenerationState, stats: Stats) -> None:
        for index in range(EVENTS):
            stats.batch_size.append(1)
            stats.queue_wait_us.append(0)
            stats.round_ms.append(0.0)
            last = index == EVENTS - 1
            state.add([ChoiceDelta(0, " word", 1, finish_reason="length" if last else None)])
            await asyncio.sleep(0)
        state.end()


async def contract_stream() -> ASGIApp:
    """The whole application on the scripted front."""
    from handlers.app import build
    from handlers.service import Service
    from handlers.settings import Settings

    front = ScriptedFront()
    await front.start()
    app: ASGIApp = build(Service(Settings(model_name="mock"), front))
    return app


async def contract_answer() -> ASGIApp:
    """The whole chain up to a handler that answers at once."""
    from generated.models import ModelList
    from generated.operations import ListModels
    from handlers.app import build, operations
    from handlers.dispatch import WithBody
    from handlers.service import Service
    from handlers.settings import Settings

    answer = ListModels.Ok(ModelList(object="list", data=[]))

    async def handle(_: Any) -> Any:
        return answer

    service = Service(Settings(model_name="mock"), MockFront())
    handlers = {**operations(service), "create_chat_completion": WithBody(lambda call: handle)}
    app: ASGIApp = build(service, handlers)
    return app


def bare_answer(body: Any) -> Response:
    """What the bare application's handler does: nothing."""
    assert body["model"]
    return Response(ANSWER, media_type="application/json")


def bare_stream() -> ASGIApp:
    """Starlette, json.loads, the same scripted front, json.dumps for every event."""
    front = ScriptedFront()

    async def events(generation: Generation, created: int) -> AsyncIterator[bytes]:
        async for deltas in generation:
            for delta in deltas:
                event = {
                    "id": "endpoint_common_1",
                    "object": "chat.completion.chunk",
                    "created": created,
                    "model": "mock",
                    "choices": [
                        {
                            "index": delta.index,
                            "delta": {"role": "assistant", "content": delta.text},
                            "logprobs": None,
                            "finish_reason": delta.finish_reason,
                        }
                    ],
                }
                yield b"data: " + json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"

    async def endpoint(request: StarletteRequest) -> Response:
        body = json.loads(await request.body())
        prompt = tuple(front.tokenizer.encode(body["messages"][0]["content"], add_special_tokens=False))
        generation = front.submit(Request("1", prompt, SamplingParams(max_tokens=EVENTS)))
        return StreamingResponse(events(generation, int(time.time())), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", endpoint, methods=["POST"])])
