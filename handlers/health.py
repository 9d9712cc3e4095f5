"""GET /health."""

from __future__ import annotations

from generated.models import Health
from generated.operations import GetHealth, GetHealthAnswer
from handlers.service import Service


class HealthHandler:
    """Tells whether the engine answers."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def get_health(self) -> GetHealthAnswer:
        """200 when requests are served; 503 while loading, draining or down."""
        front = self._service.front
        if front.state == "ready":
            return GetHealth.Ok(Health(status="ready"))
        if front.state == "down" and front.failure:
            return GetHealth.ServiceUnavailable(Health(status="down", message=front.failure))
        return GetHealth.ServiceUnavailable(Health(status=front.state))
