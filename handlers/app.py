"""The chain that a request passes, in order, and the application built from it.

bytes -> WatchMiddleware (ids, counts, the log line) -> AccessMiddleware (API keys) -> MetricsMiddleware (GET /metrics,
where there is one) -> ExceptionMiddleware (every failure becomes a contract error) -> PlanesMiddleware (what another
address offers) -> PagesMiddleware (pages for readers) -> LimitsMiddleware (path, media type, size, id) ->
AdmissionMiddleware (who is worked on) ->
RoutingMiddleware (generated/routes.yaml) -> RequestValidationMiddleware (the generated model, straight from the
bytes) -> DispatchMiddleware (the handler, and its answer as bytes).

All of these but seven are Connexion's own, used through its ``middlewares`` argument; stages without work here (Swagger
UI, security, response validation, the request context) are left out. DispatchMiddleware stands in for the end of
Connexion's chain, where a handler's decorators are rebuilt for each call: it cost more than all the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Any

import yaml
from connexion import AsyncApp
from connexion.lifecycle import ConnexionRequest, ConnexionResponse
from connexion.middleware.exceptions import ExceptionMiddleware
from connexion.middleware.lifespan import LifespanMiddleware
from connexion.middleware.request_validation import RequestValidationMiddleware
from connexion.middleware.routing import RoutingMiddleware
from connexion.resolver import Resolver
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from engine.front import Front
from engine.log_form import PRIVATE
from generated.operations import (
    CountTokensHandler,
    CreateChatCompletionHandler,
    CreateCompletionHandler,
    GetConfigHandler,
    GetHealthHandler,
    GetInfoHandler,
    GetLiveHandler,
    GetModelConfigHandler,
    GetModelHandler,
    GetModelMetadataHandler,
    GetModelReadyHandler,
    GetReadyHandler,
    GetServerHandler,
    GetSlotCountHandler,
    GetStatusHandler,
    GetTimedHealthHandler,
    GetTimedHealthWithinHandler,
    ListModelsHandler,
    LoadLoraAdapterHandler,
    StopInferenceHandler,
    StopServiceHandler,
    UnloadLoraAdapterHandler,
)
from handlers.access import AccessMiddleware
from handlers.adapters import AdaptersHandler
from handlers.admitting import AdmissionMiddleware
from handlers.call import Call
from handlers.chat import ChatHandler
from handlers.completions import CompletionHandler
from handlers.count_tokens import TokenizerHandler
from handlers.defaults import ModelDefaults
from handlers.descriptions import DescriptionsHandler
from handlers.dispatch import DispatchMiddleware, WithBody
from handlers.errors import Problem, internal
from handlers.health import HealthHandler
from handlers.limits import LimitsMiddleware
from handlers.metrics import PATH as METRICS_PATH
from handlers.metrics import MetricsMiddleware
from handlers.models import ModelsHandler
from handlers.nowhere import Nowhere
from handlers.pages.middleware import METHODS, PATHS, PagesMiddleware
from handlers.paths import PathTable
from handlers.planes import PlanesMiddleware, PlaneTable
from handlers.record import record_of
from handlers.service import Service
from handlers.settings import Settings
from handlers.status import StatusHandler
from handlers.stop_inference import StopInferenceHandler as StopInference
from handlers.stop_service import StopServiceHandler as StopService
from handlers.validation import BodyValidators
from handlers.watch import WatchMiddleware

_log = logging.getLogger(__name__)

Operations = dict[str, WithBody | Callable[..., Any]]
Layer = Callable[[ASGIApp], ASGIApp]
"""Makes an ASGI middleware around an application."""


def build_app(settings: Settings, front: Front, defaults: ModelDefaults | None = None) -> AsyncApp:
    """The ASGI application for one deployment; its lifespan starts and stops the front."""
    return build(Service(settings, front, defaults))


def build(service: Service, handlers: Operations | None = None, *, layers: Sequence[Layer] = ()) -> AsyncApp:
    """The ASGI application around a service.

    Args:
        service: what it serves.
        handlers: stand in for its own, for a measurement or a mock.
        layers: of a mock, right inside the one that makes errors of Problems.
    """

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        await service.front.start()
        service.probe.start()
        beside = [asyncio.create_task(work()) for work in [*service.background, service.follow_files]]
        try:
            yield
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await service.front.stop()
            await service.close()

    routes = _routes()
    own = [METRICS_PATH] if service.settings.metrics else []
    nowhere = Nowhere(routes["paths"], {**dict.fromkeys(own, ("GET",)), **dict.fromkeys(PATHS, METHODS)})
    planes = PlaneTable(routes["paths"], {METRICS_PATH: "metrics", **dict.fromkeys(PATHS, "business")})
    app = AsyncApp(
        "mindspec",
        lifespan=lifespan,
        middlewares=[
            partial(WatchMiddleware, service=service, paths=[*routes["paths"], *own, *PATHS]),
            partial(AccessMiddleware, service=service),
            *([partial(MetricsMiddleware, service=service)] if own else []),
            ExceptionMiddleware,
            *layers,
            partial(PlanesMiddleware, table=planes, nowhere=nowhere),
            partial(PagesMiddleware, service=service),
            partial(LimitsMiddleware, limit=service, paths=PathTable(routes["paths"])),
            partial(AdmissionMiddleware, service=service),
            RoutingMiddleware,
            RequestValidationMiddleware,
            LifespanMiddleware,
            DispatchMiddleware,
        ],
        resolver=Resolver((handlers or operations(service)).__getitem__),
        validator_map={"body": {"application/json": BodyValidators(service)}},
    )
    for failure, handler in error_handlers(service, nowhere).items():
        app.add_error_handler(failure, handler)
    app.add_api(routes)
    return app


def operations(service: Service) -> Operations:
    """The handler of each operationId; the annotations hold each to the answers that the contract lists."""

    def chat(call: Call) -> CreateChatCompletionHandler:
        return ChatHandler(service, call)

    def completion(call: Call) -> CreateCompletionHandler:
        return CompletionHandler(service, call)

    def load_adapter(_: Call) -> LoadLoraAdapterHandler:
        return AdaptersHandler(service).load

    def unload_adapter(_: Call) -> UnloadLoraAdapterHandler:
        return AdaptersHandler(service).unload

    def count_tokens(_: Call) -> CountTokensHandler:
        return TokenizerHandler(service).count

    def stop_inference(call: Call) -> StopInferenceHandler:
        return StopInference(service, call)

    models = ModelsHandler(service)
    list_models: ListModelsHandler = models.list_models
    get_model: GetModelHandler = models.get_model
    health = HealthHandler(service)
    get_health: GetHealthHandler = health.get_health
    get_live: GetLiveHandler = health.get_live
    get_ready: GetReadyHandler = health.get_ready
    get_model_ready: GetModelReadyHandler = health.get_model_ready
    get_timed_health: GetTimedHealthHandler = health.get_timed_health
    get_timed_health_within: GetTimedHealthWithinHandler = health.get_timed_health_within
    stop_service: StopServiceHandler = StopService(service).stop
    descriptions = DescriptionsHandler(service)
    get_server: GetServerHandler = descriptions.get_server
    get_model_metadata: GetModelMetadataHandler = descriptions.get_model_metadata
    get_model_config: GetModelConfigHandler = descriptions.get_model_config
    get_info: GetInfoHandler = descriptions.get_info
    get_config: GetConfigHandler = descriptions.get_config
    status = StatusHandler(service)
    get_status: GetStatusHandler = status.get_status
    get_slot_count: GetSlotCountHandler = status.get_slot_count
    return {
        "create_chat_completion": WithBody(chat),
        "create_completion": WithBody(completion),
        "list_models": list_models,
        "get_model": get_model,
        "get_health": get_health,
        "get_live": get_live,
        "get_ready": get_ready,
        "get_model_ready": get_model_ready,
        "get_timed_health": get_timed_health,
        "get_timed_health_within": get_timed_health_within,
        "stop_service": stop_service,
        "count_tokens": WithBody(count_tokens),
        "stop_inference": WithBody(stop_inference),
        "get_server": get_server,
        "get_model_metadata": get_model_metadata,
        "get_model_config": get_model_config,
        "get_info": get_info,
        "get_config": get_config,
        "get_status": get_status,
        "get_slot_count": get_slot_count,
        "load_lora_adapter": WithBody(load_adapter),
        "unload_lora_adapter": WithBody(unload_adapter),
    }


Handler = Callable[[ConnexionRequest, Exception], Any]


def error_handlers(service: Service, nowhere: Nowhere) -> Mapping[type[Exception], Handler]:
    """How each kind of exception becomes a contract error; never with the exception's own text."""

    def answered(request: ConnexionRequest, problem: Problem) -> ConnexionResponse:
        record_of(request.scope).problem = problem
        return ConnexionResponse(
            status_code=problem.status,
            content_type="application/json",
            body=to_json(problem.body(openai_form=service.openai_form)),
            headers=dict(problem.headers),
        )

    async def on_problem(request: ConnexionRequest, error: Exception) -> ConnexionResponse:
        assert isinstance(error, Problem)
        if error.code == "not_found" and error.param == "model":  # its name may be the rest of a path
            error = nowhere.refusal(request.method, request.scope["path"]) or error
        return answered(request, error)

    async def on_http(request: ConnexionRequest, error: Exception) -> ConnexionResponse:
        assert isinstance(error, HTTPException)
        if error.status_code in (404, 405):
            return answered(request, nowhere.problem(request.method, request.scope["path"]))
        return unexpected(request, error)

    async def on_anything(request: ConnexionRequest, error: Exception) -> ConnexionResponse:
        return unexpected(request, error)

    def unexpected(request: ConnexionRequest, error: Exception) -> ConnexionResponse:
        _log.error("a request failed", exc_info=error, extra=PRIVATE)
        return answered(request, internal())

    return {Problem: on_problem, HTTPException: on_http, Exception: on_anything}


def _routes() -> dict[str, Any]:
    """The routes for Connexion, parsed here: it would run a file through a template engine first."""
    routes: dict[str, Any] = yaml.safe_load((files("generated") / "routes.yaml").read_text(encoding="utf-8"))
    return routes
