"""MindIE's health probe: a token now and then, and what its failure means (npuUsageThreshold)."""

from __future__ import annotations

import asyncio
from typing import Literal

from engine.front import Front
from engine.types import EngineError
from handlers.health_limits import HealthLimits

Verdict = Literal["healthy", "busy", "abnormal"]


class HealthProbe:
    """Asks the engine for one token at intervals; only where the threshold is above 0.

    MindIE compares its NPUs' use with the threshold. Here it is the engine's load: the part of its pages of keys and
    values that running sequences own, or of ``maxBatchSize`` that runs, whichever is more.
    """

    def __init__(self, front: Front, limits: HealthLimits) -> None:
        self._front = front
        self._limits = limits
        self._task: asyncio.Task[None] | None = None
        self.verdict: Verdict = "healthy"
        """Of the latest probe."""

    def start(self) -> None:
        """Begin, on the running event loop."""
        if self._limits.npu_usage_threshold > 0:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """One probe."""
        try:
            await self._front.probe(self._limits.probe_timeout_s)
        except EngineError:
            if self._front.state == "ready":
                busy = self._front.usage_percent >= self._limits.npu_usage_threshold
                self.verdict = "busy" if busy else "abnormal"
                return
        self.verdict = "healthy"  # or another state than ready says what there is to say

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._limits.probe_interval_s)
            await self.look()
