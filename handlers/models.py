"""GET /v1/models and GET /v1/models/{model}."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from generated.models import Model, ModelList
from generated.operations import GetModel, GetModelAnswer, ListModels, ListModelsAnswer
from handlers.errors import Problem
from handlers.service import Service
from handlers.settings import Limits

OWNER: Final = "MindIE Server"


def check_deployed(service: Service, model: str) -> None:
    """Raise Problem, 404, for a name in a path that is not deployed."""
    if model not in service.model_names:
        shown = model if len(model) <= 100 else model[:100] + "..."
        raise Problem(404, "not_found", f"The model {shown!r} is not deployed here", "model")


def folder_name(service: Service, name: str) -> str | None:
    """Name of the folder that a deployed model or adapter comes from; None where there is none."""
    adapters = service.front.adapters.ready
    folder = next((adapter.folder for adapter in adapters if adapter.name == name), None)
    return service.settings.weights_name if folder is None else PurePath(folder).name


class ModelsHandler:
    """Describes what is deployed."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def list_models(self) -> ListModelsAnswer:
        """All names that a request may use."""
        return ListModels.Ok(ModelList(object="list", data=[self._model(name) for name in self._service.model_names]))

    async def get_model(self, model: str) -> GetModelAnswer:
        """One of them.

        Raises:
            Problem: 404 for a name that is not deployed.
        """
        check_deployed(self._service, model)
        return GetModel.Ok(self._model(model))

    def _model(self, name: str) -> Model:
        service = self._service
        parent = None if service.adapter_of(name) is None else service.settings.model_name
        made = Model(id=name, object="model", created=service.created, owned_by=OWNER, parent=parent)
        root = folder_name(service, name)
        if root is not None:
            made.root = root
        info = service.front.info
        if info is not None:
            made.max_model_len = Limits.of(service.settings, info.max_position_embeddings).max_seq_len
        return made
