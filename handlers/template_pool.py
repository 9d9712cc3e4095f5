"""Renders the chat templates that requests bring along, each in a worker process that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from handlers import template_worker
from handlers.chat_jinja import SPENT
from handlers.errors import Problem, refused
from handlers.settings import Settings
from handlers.template_faults import Source, text_of
from handlers.template_forms import Conversation, Rendered

_START_TIME_S = 20.0
_START: Final = "import sys; sys.path.append(sys.argv.pop()); from handlers.template_worker import main; main()"
"""Finds our two modules after all others; an isolated interpreter looks into no folder of ours by itself."""
_ROOT: Final = Path(template_worker.__file__).parents[1]


class TemplatePool:
    """At most ``settings.template_workers`` processes, started when needed and kept while they behave.

    One render has ``template_time_s`` seconds, ``template_memory_bytes`` of address space and may write
    ``template_output_bytes``. A process that breaks a limit is killed, and the next render gets a new one.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._idle: list[asyncio.subprocess.Process] = []
        self._slots = asyncio.Semaphore(settings.template_workers)
        memory, output = settings.template_memory_bytes, settings.template_output_bytes
        self._source = Source("chat_template", "chat_template", "chat_template", memory, output)

    async def render(self, template: str, conversation: Conversation) -> str:
        """The rendered text.

        Raises:
            Problem: 422 template_error (see template_faults.py), or the limit that the template broke. 429 queue_full
                where no worker came free within ``template_wait_s``.
        """
        request = {
            "template": template,
            "conversation": {member.name: getattr(conversation, member.name) for member in fields(conversation)},
            "max_bytes": self._settings.template_output_bytes,
        }
        data = json.dumps(request).encode()
        async with self._turn():
            worker = await self._worker()
            spent = True
            try:
                async with asyncio.timeout(self._settings.template_time_s):
                    answer = await _ask(worker, data)
            except TimeoutError:
                raise _broken(f"takes longer than the {self._settings.template_time_s:g} seconds allowed") from None
            except (asyncio.IncompleteReadError, ConnectionError):
                raise _broken("could not be rendered within its limits") from None
            else:
                spent = answer.fault is not None and answer.fault.kind in SPENT
            finally:
                if spent:
                    await _kill(worker)
                else:
                    self._idle.append(worker)
        return text_of(answer, conversation, self._source)

    async def close(self) -> None:
        """End all idle workers."""
        while self._idle:
            await _kill(self._idle.pop())

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for a worker's turn, but not for ever: endless templates must not line up behind each other."""
        try:
            async with asyncio.timeout(self._settings.template_wait_s):
                await self._slots.acquire()
        except TimeoutError:
            message = "Too many chat templates sent in requests wait to be rendered; try again soon"
            headers = {"Retry-After": str(self._settings.retry_after_s)}
            raise Problem(429, "queue_full", message, headers=headers) from None
        try:
            yield
        finally:
            self._slots.release()

    async def _worker(self) -> asyncio.subprocess.Process:
        while self._idle:
            worker = self._idle.pop()
            if worker.returncode is None:
                return worker
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-c",
            _START,
            str(self._settings.template_memory_bytes),
            str(_ROOT),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8", "TZ": os.environ.get("TZ", "")},
            cwd="/",
        )
        try:
            assert worker.stdout is not None
            async with asyncio.timeout(_START_TIME_S):
                await worker.stdout.readexactly(len(template_worker.READY))
        except (TimeoutError, asyncio.IncompleteReadError):
            await _kill(worker)
            message = "The process that renders chat templates did not start; the cause is in the server's log"
            raise Problem(500, "internal", message) from None
        except asyncio.CancelledError:
            await _kill(worker)
            raise
        return worker


def _broken(what: str) -> Problem:
    return refused("template_error", f"chat_template {what}", "chat_template")


async def _ask(worker: asyncio.subprocess.Process, data: bytes) -> Rendered:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(struct.pack(">I", len(data)) + data)
    await worker.stdin.drain()
    header = await worker.stdout.readexactly(4)
    answer: dict[str, Any] = json.loads(await worker.stdout.readexactly(struct.unpack(">I", header)[0]))
    return template_worker.rendered(answer)


async def _kill(worker: asyncio.subprocess.Process) -> None:
    if worker.returncode is None:
        try:
            worker.kill()
        except ProcessLookupError:
            return
    await worker.wait()
