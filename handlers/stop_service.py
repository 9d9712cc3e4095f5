"""GET /stopService: a stop signal by HTTP, where not everybody may send one."""

from __future__ import annotations

from typing import Final

from generated.models import Stopped
from generated.operations import StopService, StopServiceAnswer
from handlers.errors import Problem, refused
from handlers.service import Service

FORCE: Final = "Force"
FORCE_TIMEOUT_S: Final = 5.0
"""What running requests get with mode=Force, in seconds; MindIE's number."""


class StopServiceHandler:
    """Ends the server."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def stop(self, mode: str | None = None) -> StopServiceAnswer:
        """Drain, and answer when nothing runs any more; the server ends then.

        Raises:
            Problem: 404 where this is not offered, 422 for an unknown mode, 500 when the server is stopping already.
        """
        service = self._service
        if not service.settings.stops_by_request:
            message = (
                "/stopService is not offered on an address that requests come to from elsewhere; give the management "
                "plane an address of its own (--management-port), or send the process SIGTERM"
            )
            raise Problem(404, "not_found", message)
        if mode not in (None, FORCE):
            raise refused("out_of_range", f"mode must be {FORCE} or absent, got {mode[:100]!r}", "mode")
        if service.ending.begun:
            raise Problem(500, "stopping", "The server is stopping already")
        timeout_s = service.settings.drain_timeout_s
        service.ending.begin(min(timeout_s, FORCE_TIMEOUT_S) if mode == FORCE else timeout_s)
        await service.ending.wait()
        return StopService.Ok(Stopped(message="Nothing runs any more; the server ends."))
