"""Renders the chat templates that requests bring along, each in a worker process that can be killed."""

from __future__ import annotations

from dataclasses import fields
from typing import NoReturn

from handlers import template_worker
from handlers.errors import Problem, refused
from handlers.settings import Settings
from handlers.template_faults import Source, text_of
from handlers.template_forms import Conversation
from handlers.worker_pool import WorkerFault, WorkerLimits, WorkerLost, WorkerPool, WorkersBusy, WorkerTooSlow


class TemplatePool:
    """At most ``settings.template_workers`` processes.

    One render has ``template_time_s`` seconds, ``template_memory_bytes`` of address space and may write
    ``template_output_bytes``. A process that breaks a limit is killed, and the next render gets a new one.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        limits = WorkerLimits(
            settings.template_workers,
            settings.template_time_s,
            settings.template_wait_s,
            settings.template_memory_bytes,
        )
        self.workers = WorkerPool(template_worker.__name__, limits)
        """The processes."""
        memory, output = settings.template_memory_bytes, settings.template_output_bytes
        self._source = Source("chat_template", "chat_template", "chat_template", memory, output)

    async def render(self, template: str, conversation: Conversation) -> str:
        """The rendered text.

        Raises:
            Problem: 422 template_error (see template_faults.py), or the limit that the template broke. 429 queue_full
                where no worker came free within ``template_wait_s``; 500 where none could be started.
        """
        request = {
            "template": template,
            "conversation": {member.name: getattr(conversation, member.name) for member in fields(conversation)},
            "max_bytes": self._settings.template_output_bytes,
        }
        try:
            answer = await self.workers.ask(request)
        except WorkerFault as fault:
            self._fail(fault)
        return text_of(template_worker.rendered(answer), conversation, self._source)

    async def close(self) -> None:
        """End all idle workers."""
        await self.workers.close()

    def _fail(self, fault: WorkerFault) -> NoReturn:
        settings = self._settings
        match fault:
            case WorkersBusy():
                message = "Too many chat templates sent in requests wait to be rendered; try again soon"
                raise Problem(
                    429, "queue_full", message, headers={"Retry-After": str(settings.retry_after_s)}
                ) from None
            case WorkerTooSlow():
                what = f"takes longer than the {settings.template_time_s:g} seconds allowed"
            case WorkerLost():
                what = "could not be rendered within its limits"
            case _:
                message = "The process that renders chat templates did not start; the cause is in the server's log"
                raise Problem(500, "internal", message) from None
        raise refused("template_error", f"chat_template {what}", "chat_template") from None
