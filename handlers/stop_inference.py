"""POST /v2/models/{model}/stopInfer: ends a request that is being answered."""

from __future__ import annotations

from generated.models import StopInferenceRequest, StoppedInference
from generated.operations import StopInference, StopInferenceAnswer
from handlers.call import Call
from handlers.errors import Problem
from handlers.models import check_deployed
from handlers.service import Service

_SHOWN = 100


class StopInferenceHandler:
    """Ends requests by the ids of their answers, where keys are needed only those of the same key; for one call."""

    def __init__(self, service: Service, call: Call) -> None:
        self._service = service
        self._call = call

    async def __call__(self, request: StopInferenceRequest, model: str) -> StopInferenceAnswer:
        """End the request where it stands; its own client gets what there is.

        Raises:
            Problem: 404 for a model that is not deployed, and for an id that no request of this client has.
        """
        check_deployed(self._service, model)
        live = self._service.live
        record = live.find(request.id) or live.find_uuid(request.id)
        if record is None or record.key_name != self._call.record.key_name:
            message = f"RequestId is {request.id[:_SHOWN]} not found; no request of this id is being answered"
            raise Problem(404, "not_found", message, "id")
        record.stop()
        return StopInference.Ok(StoppedInference(id=request.id))
