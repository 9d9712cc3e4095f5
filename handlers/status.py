"""GET /v1/status and GET /v2/models/{model}/getSlotCount: the engine's state in numbers, as MindIE gives it."""

from __future__ import annotations

from generated.models import SlotCount, Status, StatusLinks, StatusResource, StatusService
from generated.operations import GetSlotCount, GetSlotCountAnswer, GetStatus, GetStatusAnswer
from handlers.models import check_deployed
from handlers.room import room_of
from handlers.service import Service


class StatusHandler:
    """Tells who else could be served now; for whoever divides requests among servers."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def get_status(self) -> GetStatusAnswer:
        """Requests, places and pages.

        Raises:
            Problem: 503 while requests are not served.
        """
        front = self._service.front
        _, limits = self._service.ready()
        room, waiting = room_of(self._service, limits), front.waiting
        resource = StatusResource(
            availSlotsNum=room.free_slots,
            availBlockNum=room.free_pages,
            waitingRequestNum=self._service.waiting,
            runningRequestNum=front.running - waiting,
            swappedRequestNum=0,
            freeNpuBlockNums=room.free_pages,
            freeCpuBlockNums=0,
            totalNpuBlockNums=room.total_pages,
            totalCpuBlockNums=0,
        )
        service = StatusService(roleStatus="RoleReady", currentRole="none")
        return GetStatus.Ok(Status(service=service, resource=resource, linkStatus=StatusLinks(peers=[])))

    async def get_slot_count(self, model: str) -> GetSlotCountAnswer:
        """Places, and the tokens that free pages hold.

        Raises:
            Problem: 404 for a name that is not deployed; 503 while requests are not served.
        """
        check_deployed(self._service, model)
        _, limits = self._service.ready()
        room = room_of(self._service, limits)
        return GetSlotCount.Ok(
            SlotCount(
                total_slots=room.total_slots,
                free_slots=room.free_slots,
                available_tokens_length=room.free_pages * self._service.settings.engine.cache_block_size,
            )
        )
