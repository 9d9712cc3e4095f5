"""Requests of one token that a front sends by itself, to know that its engine still generates."""

from __future__ import annotations

import asyncio

from engine.types import EngineError, Request, RequestFailure, SamplingParams, StepOutput

PROBE_TOKEN_ID = 0
"""The prompt: the one id that every vocabulary has."""
_SAMPLING = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True)
_LATE = "The engine generated no token within {s:g} s."


class Probes:
    """Those on their way; what the engine says about them is handed in."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._begun = 0

    def begin(self) -> Request:
        """A request to send; its id is not one of a client's, which begin with a number."""
        self._begun += 1
        request = Request(f"probe:{self._begun}", (PROBE_TOKEN_ID,), _SAMPLING, reserved=True)
        self._waiting[request.request_id] = asyncio.get_running_loop().create_future()
        return request

    async def outcome(self, request: Request, timeout_s: float | None) -> None:
        """Wait until its token has come.

        Raises:
            EngineError: timeout, or the engine failed.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._waiting[request.request_id]
        except TimeoutError:
            raise EngineError("timeout", _LATE.format(s=timeout_s)) from None
        finally:
            self._waiting.pop(request.request_id, None)

    def take(self, output: StepOutput | RequestFailure) -> bool:
        """Hand in a report; whether it was one on a probe that has its token now, or has failed."""
        probe = self._waiting.get(output.request_id)
        if probe is None or probe.done():
            return False
        if isinstance(output, RequestFailure):
            probe.set_exception(EngineError(output.code, output.message))
            return True
        if output.tokens:
            probe.set_result(None)
        return bool(output.tokens)

    def fail(self, error: EngineError) -> None:
        """The engine is gone."""
        for probe in self._waiting.values():
            if not probe.done():
                probe.set_exception(error)
