"""The mock engine behind the front's door: the same scheduler and texts, run on the event loop, ready at once."""

from __future__ import annotations

import asyncio
import contextlib

from engine.front_base import STOPPING, FrontBase
from engine.lora_book import AdapterBook
from engine.mock import MockExecutor, Replies
from engine.mock_orders import ORDERS
from engine.scheduler import EngineBroken, Limits, Scheduler
from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.tokenizer import TextTokenizer
from engine.types import EngineError
from engine.wire import AdapterLoaded, Cancel, EngineCommand, LoadAdapter, Submit


class MockFront(FrontBase):
    """A ``Front`` without an engine process and without weights."""

    forces_tool_calls = True
    """The mock writes ``Request.forced_text`` where there is one."""

    def __init__(
        self,
        tokenizer: TextTokenizer | None = None,
        *,
        limits: Limits | None = None,
        max_position_embeddings: int = 131072,
        step_delay_s: float = 0.0,
        fail_at: int | None = None,
        adapters: AdapterBook | None = None,
        replies: Replies | None = None,
    ) -> None:
        """Args:
        tokenizer: the built-in byte-level one by default.
        limits: batch and queue.
        max_position_embeddings: what ``info`` says.
        step_delay_s: seconds that a round takes; the event loop is free meanwhile.
        fail_at: the round that fails, with every request in it; see ``MockExecutor``.
        adapters: names that answer otherwise; their folders are not looked at.
        replies: what to write for a prompt; see ``MockExecutor``.
        """
        super().__init__(tokenizer or mock_tokenizer(), limits or Limits(), adapters)
        self.executor = MockExecutor(
            self.tokenizer, max_position_embeddings=max_position_embeddings, fail_at=fail_at, replies=replies
        )
        self.step_delay_s = step_delay_s
        self._scheduler = Scheduler(self.executor, self.limits.max_batch_size, max_queue=self.limits.max_queue)
        self._has_work = asyncio.Event()
        self._rounds: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See ``Front.start``."""
        self.info = self.executor.info
        self.engine_stats = self._scheduler.stats
        self._rounds = asyncio.create_task(self._run_rounds())
        for command in self.adapters.commands():
            self._send(command)
        self._set_state("ready")

    async def stop(self) -> None:
        """See ``Front.stop``."""
        self._set_state("draining")
        self._cancel_all(EngineError("stopping", STOPPING))
        if self._rounds is not None:
            self._rounds.cancel()
            await asyncio.gather(self._rounds, return_exceptions=True)
            self._rounds = None

    def _send(self, command: EngineCommand) -> None:
        if isinstance(command, LoadAdapter):
            self._adapter_answered(AdapterLoaded(command.number, None))
            return
        self._order(command)
        self._scheduler.apply(command)
        self.engine_stats = self._scheduler.stats
        self._has_work.set()

    def _order(self, command: EngineCommand) -> None:
        """Hand on the orders of a request that is submitted, and forget those of one that is cancelled."""
        if isinstance(command, Submit) and (orders := ORDERS.get()) is not None:
            self.executor.order(command.request.request_id, orders)
        elif isinstance(command, Cancel):
            self.executor.forget(command.request_id)

    @property
    def _wait_s(self) -> float:
        return self.executor.wait_s

    async def _run_rounds(self) -> None:
        while True:
            if not self._scheduler.has_work:
                self._has_work.clear()
                await self._has_work.wait()
            elif (wait_s := self._wait_s) > 0:
                await self._wait(wait_s)
            try:
                outputs = self._scheduler.run_round()
            except EngineBroken as broken:
                # There is no process to start anew: a mock that is told to fail goes on as if there were.
                outputs = broken.outputs
            # The pause lets consumers read this round before the next one.
            await asyncio.sleep(self.step_delay_s)
            self._receive(outputs, self._scheduler.stats)
            await asyncio.sleep(0)

    async def _wait(self, wait_s: float) -> None:
        """Until a request is due, or something else is to be done."""
        self._has_work.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._has_work.wait()
