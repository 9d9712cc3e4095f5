"""The health checks: GET /health, /v2/health/live, /v2/health/ready, /v2/models/{model}/ready and /health/timed-N."""

from __future__ import annotations

from typing import Final

from engine.types import EngineError
from generated.models import Health, HealthMessage, TimedHealth
from generated.operations import (
    GetHealth,
    GetHealthAnswer,
    GetLive,
    GetLiveAnswer,
    GetModelReady,
    GetModelReadyAnswer,
    GetReady,
    GetReadyAnswer,
    GetTimedHealth,
    GetTimedHealthAnswer,
    GetTimedHealthWithin,
    GetTimedHealthWithinAnswer,
)
from handlers.errors import Problem
from handlers.health_probe import Verdict
from handlers.models import check_deployed
from handlers.service import Service

ABNORMAL: Final = "Service is abnormal"
ALIVE_BUT_BUSY: Final = "Service is alive but busy"
NOT_READY_BUT_BUSY: Final = "Service is alive but busy. Consider reducing request frequency"
"""MindIE's words."""

TIMED_S: Final = 10
"""What GET /health/timed gives its token, in seconds."""
MAX_TIMED_S: Final = 600


class HealthHandler:
    """Tells whether the server is alive, ready, and able to generate."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def get_health(self) -> GetHealthAnswer:
        """200 when requests are served; 503 otherwise, and what the state is."""
        front, verdict = self._service.front, self._verdict
        if front.state == "down" and front.failure:
            return GetHealth.ServiceUnavailable(Health(status="down", message=front.failure))
        if front.state != "ready":
            return GetHealth.ServiceUnavailable(Health(status=front.state))
        if verdict == "healthy":
            return GetHealth.Ok(Health(status="ready"))
        message = NOT_READY_BUT_BUSY if verdict == "busy" else ABNORMAL
        return GetHealth.ServiceUnavailable(Health(status=verdict, message=message))

    async def get_live(self) -> GetLiveAnswer:
        """200 as long as the server can come to serve requests by itself."""
        if self._service.front.lost is not None or self._verdict == "abnormal":
            return GetLive.InternalServerError(HealthMessage(message=ABNORMAL))
        return GetLive.Ok(HealthMessage(message=ALIVE_BUT_BUSY) if self._verdict == "busy" else None)

    async def get_ready(self) -> GetReadyAnswer:
        """200 when a request would be answered: the engine has generated a token since it was started."""
        if self._verdict == "abnormal":
            return GetReady.InternalServerError(HealthMessage(message=ABNORMAL))
        if self._verdict == "busy":
            return GetReady.ServiceUnavailable(HealthMessage(message=NOT_READY_BUT_BUSY))
        return GetReady.Ok() if self._service.front.state == "ready" else GetReady.ServiceUnavailable()

    async def get_model_ready(self, model: str) -> GetModelReadyAnswer:
        """The same for one model.

        Raises:
            Problem: 404 for a name that is not deployed.
        """
        check_deployed(self._service, model)
        if self._verdict == "abnormal":
            return GetModelReady.InternalServerError(HealthMessage(message=ABNORMAL))
        if self._verdict == "busy":
            return GetModelReady.ServiceUnavailable(HealthMessage(message=NOT_READY_BUT_BUSY))
        return GetModelReady.Ok() if self._service.front.state == "ready" else GetModelReady.ServiceUnavailable()

    async def get_timed_health(self) -> GetTimedHealthAnswer:
        """One token within ten seconds.

        Raises:
            Problem: 500 when there was none.
        """
        return GetTimedHealth.Ok(await self._generate(TIMED_S))

    async def get_timed_health_within(self, seconds: str) -> GetTimedHealthWithinAnswer:
        """One token within so many seconds.

        Raises:
            Problem: 404 for what is no whole number from 1 to 600; 500 when there was no token.
        """
        given = int(seconds) if seconds.isascii() and seconds.isdecimal() and len(seconds) <= 3 else 0
        if not 1 <= given <= MAX_TIMED_S:
            message = f"/health/timed-N takes a whole number of seconds from 1 to {MAX_TIMED_S}, not {seconds[:100]!r}"
            raise Problem(404, "not_found", message, "seconds")
        return GetTimedHealthWithin.Ok(await self._generate(given))

    @property
    def _verdict(self) -> Verdict:
        """Of the probe; it says nothing where the engine's state says enough."""
        return self._service.probe.verdict if self._service.front.state == "ready" else "healthy"

    async def _generate(self, seconds: int) -> TimedHealth:
        try:
            await self._service.front.probe(seconds)
        except EngineError as error:
            raise Problem(500, error.code, error.message) from None
        return TimedHealth(status="healthy")
