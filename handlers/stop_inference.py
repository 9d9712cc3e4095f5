"""POST /v2/models/{model}/stopInfer: ends a request that is being answered."""

from __future__ import annotations

from generated.models import StopInferenceRequest, StoppedInference
from generated.operations import StopInference, StopInferenceAnswer
from handlers.errors import Problem
from handlers.models import check_deployed
from handlers.service import Service

_SHOWN = 100


class StopInferenceHandler:
    """Ends requests by the ids of their answers, whoever asks."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def stop(self, request: StopInferenceRequest, model: str) -> StopInferenceAnswer:
        """End the request where it stands; its own client gets what there is.

        Raises:
            Problem: 404 for a model that is not deployed, and for an id that no request has.
        """
        check_deployed(self._service, model)
        record = self._service.live.find(request.id) or self._service.live.find_uuid(request.id)
        if record is None:
            message = f"RequestId is {request.id[:_SHOWN]} not found; no request of this id is being answered"
            raise Problem(404, "not_found", message, "id")
        record.stop()
        return StopInference.Ok(StoppedInference(id=request.id))
