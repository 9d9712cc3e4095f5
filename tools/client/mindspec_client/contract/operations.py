"""For each operation: what a handler is, and the only answers that it may give. Generated from the spec; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Protocol

from . import models
from .base import ContractModel


class UnlistedStatusError(ValueError):
    """A handler gave a status that the contract does not list for its operation."""


class CreateChatCompletion:
    """POST /v1/chat/completions: Answer a conversation."""

    operation_id: ClassVar = "create_chat_completion"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 405, 413, 415, 422, 424, 429, 500, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.ChatCompletion
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Stream:
        """200 as server-sent events."""

        events: AsyncIterator[bytes]
        """Encoded events; each carries one of models.ChatCompletionChunk | models.StreamError."""
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "text/event-stream"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 405, 413, 415, 422, 424, 429, 500, 503."""

        status: Literal[401, 403, 405, 413, 415, 422, 424, 429, 500, 503]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 405, 413, 415, 422, 424, 429, 500, 503]:
                raise UnlistedStatusError(f"create_chat_completion may not answer {self.status}")


CreateChatCompletionAnswer = CreateChatCompletion.Ok | CreateChatCompletion.Stream | CreateChatCompletion.Error


class CreateChatCompletionHandler(Protocol):
    """Serves POST /v1/chat/completions."""

    async def __call__(self, request: models.ChatCompletionRequest) -> CreateChatCompletionAnswer:
        """Answer one request with one of the listed answers."""
        ...


class CreateCompletion:
    """POST /v1/completions: Continue a text."""

    operation_id: ClassVar = "create_completion"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 405, 413, 415, 422, 424, 429, 500, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.Completion
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Stream:
        """200 as server-sent events."""

        events: AsyncIterator[bytes]
        """Encoded events; each carries one of models.CompletionChunk | models.StreamError."""
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "text/event-stream"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 405, 413, 415, 422, 424, 429, 500, 503."""

        status: Literal[401, 403, 405, 413, 415, 422, 424, 429, 500, 503]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 405, 413, 415, 422, 424, 429, 500, 503]:
                raise UnlistedStatusError(f"create_completion may not answer {self.status}")


CreateCompletionAnswer = CreateCompletion.Ok | CreateCompletion.Stream | CreateCompletion.Error


class CreateCompletionHandler(Protocol):
    """Serves POST /v1/completions."""

    async def __call__(self, request: models.CompletionRequest) -> CreateCompletionAnswer:
        """Answer one request with one of the listed answers."""
        ...


class ListModels:
    """GET /v1/models: What is deployed."""

    operation_id: ClassVar = "list_models"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 405])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.ModelList
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 405."""

        status: Literal[401, 403, 405]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 405]:
                raise UnlistedStatusError(f"list_models may not answer {self.status}")


ListModelsAnswer = ListModels.Ok | ListModels.Error


class ListModelsHandler(Protocol):
    """Serves GET /v1/models."""

    async def __call__(self) -> ListModelsAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetModel:
    """GET /v1/models/{model}: One deployed model."""

    operation_id: ClassVar = "get_model"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 404, 405])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.Model
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 404, 405."""

        status: Literal[401, 403, 404, 405]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 404, 405]:
                raise UnlistedStatusError(f"get_model may not answer {self.status}")


GetModelAnswer = GetModel.Ok | GetModel.Error


class GetModelHandler(Protocol):
    """Serves GET /v1/models/{model}."""

    async def __call__(self, model: str) -> GetModelAnswer:
        """Answer one request with one of the listed answers."""
        ...


class LoadLoraAdapter:
    """POST /v1/load_lora_adapter: Load a LoRA adapter."""

    operation_id: ClassVar = "load_lora_adapter"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 404, 405, 413, 415, 422, 500, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.LoraAdapterStatus
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 404, 405, 413, 415, 422, 500, 503."""

        status: Literal[401, 403, 404, 405, 413, 415, 422, 500, 503]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 404, 405, 413, 415, 422, 500, 503]:
                raise UnlistedStatusError(f"load_lora_adapter may not answer {self.status}")


LoadLoraAdapterAnswer = LoadLoraAdapter.Ok | LoadLoraAdapter.Error


class LoadLoraAdapterHandler(Protocol):
    """Serves POST /v1/load_lora_adapter."""

    async def __call__(self, request: models.LoadLoraAdapterRequest) -> LoadLoraAdapterAnswer:
        """Answer one request with one of the listed answers."""
        ...


class UnloadLoraAdapter:
    """POST /v1/unload_lora_adapter: Unload a LoRA adapter."""

    operation_id: ClassVar = "unload_lora_adapter"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 404, 405, 413, 415, 422, 500, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.LoraAdapterStatus
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 404, 405, 413, 415, 422, 500, 503."""

        status: Literal[401, 403, 404, 405, 413, 415, 422, 500, 503]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 404, 405, 413, 415, 422, 500, 503]:
                raise UnlistedStatusError(f"unload_lora_adapter may not answer {self.status}")


UnloadLoraAdapterAnswer = UnloadLoraAdapter.Ok | UnloadLoraAdapter.Error


class UnloadLoraAdapterHandler(Protocol):
    """Serves POST /v1/unload_lora_adapter."""

    async def __call__(self, request: models.UnloadLoraAdapterRequest) -> UnloadLoraAdapterAnswer:
        """Answer one request with one of the listed answers."""
        ...


class CountTokens:
    """POST /v1/tokenizer: Count the tokens of a text."""

    operation_id: ClassVar = "count_tokens"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 405, 413, 415, 422, 500])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.TokenizerAnswer
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 405, 413, 415, 422, 500."""

        status: Literal[401, 403, 405, 413, 415, 422, 500]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 405, 413, 415, 422, 500]:
                raise UnlistedStatusError(f"count_tokens may not answer {self.status}")


CountTokensAnswer = CountTokens.Ok | CountTokens.Error


class CountTokensHandler(Protocol):
    """Serves POST /v1/tokenizer."""

    async def __call__(self, request: models.TokenizerRequest) -> CountTokensAnswer:
        """Answer one request with one of the listed answers."""
        ...


class StopInference:
    """POST /v2/models/{model}/stopInfer: End a request that is being answered."""

    operation_id: ClassVar = "stop_inference"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 404, 405, 413, 415, 422, 500])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.StoppedInference
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 404, 405, 413, 415, 422, 500."""

        status: Literal[401, 403, 404, 405, 413, 415, 422, 500]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 404, 405, 413, 415, 422, 500]:
                raise UnlistedStatusError(f"stop_inference may not answer {self.status}")


StopInferenceAnswer = StopInference.Ok | StopInference.Error


class StopInferenceHandler(Protocol):
    """Serves POST /v2/models/{model}/stopInfer."""

    async def __call__(self, request: models.StopInferenceRequest, model: str) -> StopInferenceAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetServer:
    """GET /v2: What this server is."""

    operation_id: ClassVar = "get_server"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 405, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.Server
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 405, 503."""

        status: Literal[401, 403, 405, 503]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 405, 503]:
                raise UnlistedStatusError(f"get_server may not answer {self.status}")


GetServerAnswer = GetServer.Ok | GetServer.Error


class GetServerHandler(Protocol):
    """Serves GET /v2."""

    async def __call__(self) -> GetServerAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetModelMetadata:
    """GET /v2/models/{model}: What goes into a model and comes out."""

    operation_id: ClassVar = "get_model_metadata"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 404, 405])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.ModelMetadata
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 404, 405."""

        status: Literal[401, 403, 404, 405]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 404, 405]:
                raise UnlistedStatusError(f"get_model_metadata may not answer {self.status}")


GetModelMetadataAnswer = GetModelMetadata.Ok | GetModelMetadata.Error


class GetModelMetadataHandler(Protocol):
    """Serves GET /v2/models/{model}."""

    async def __call__(self, model: str) -> GetModelMetadataAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetModelConfig:
    """GET /v2/models/{model}/config: How a model is deployed."""

    operation_id: ClassVar = "get_model_config"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 404, 405, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.ModelConfig
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 404, 405, 503."""

        status: Literal[401, 403, 404, 405, 503]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 404, 405, 503]:
                raise UnlistedStatusError(f"get_model_config may not answer {self.status}")


GetModelConfigAnswer = GetModelConfig.Ok | GetModelConfig.Error


class GetModelConfigHandler(Protocol):
    """Serves GET /v2/models/{model}/config."""

    async def __call__(self, model: str) -> GetModelConfigAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetSlotCount:
    """GET /v2/models/{model}/getSlotCount: How much room a model has."""

    operation_id: ClassVar = "get_slot_count"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 404, 405, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.SlotCount
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 404, 405, 503."""

        status: Literal[401, 403, 404, 405, 503]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 404, 405, 503]:
                raise UnlistedStatusError(f"get_slot_count may not answer {self.status}")


GetSlotCountAnswer = GetSlotCount.Ok | GetSlotCount.Error


class GetSlotCountHandler(Protocol):
    """Serves GET /v2/models/{model}/getSlotCount."""

    async def __call__(self, model: str) -> GetSlotCountAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetInfo:
    """GET /info: What is served, in the form of text-generation-inference."""

    operation_id: ClassVar = "get_info"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 405, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.Info
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 405, 503."""

        status: Literal[401, 403, 405, 503]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 405, 503]:
                raise UnlistedStatusError(f"get_info may not answer {self.status}")


GetInfoAnswer = GetInfo.Ok | GetInfo.Error


class GetInfoHandler(Protocol):
    """Serves GET /info."""

    async def __call__(self) -> GetInfoAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetConfig:
    """GET /v1/config: The sizes in force."""

    operation_id: ClassVar = "get_config"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 405, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.StaticConfig
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 405, 503."""

        status: Literal[401, 403, 405, 503]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 405, 503]:
                raise UnlistedStatusError(f"get_config may not answer {self.status}")


GetConfigAnswer = GetConfig.Ok | GetConfig.Error


class GetConfigHandler(Protocol):
    """Serves GET /v1/config."""

    async def __call__(self) -> GetConfigAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetStatus:
    """GET /v1/status: The engine's state in numbers."""

    operation_id: ClassVar = "get_status"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 405, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.Status
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 405, 503."""

        status: Literal[401, 403, 405, 503]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 405, 503]:
                raise UnlistedStatusError(f"get_status may not answer {self.status}")


GetStatusAnswer = GetStatus.Ok | GetStatus.Error


class GetStatusHandler(Protocol):
    """Serves GET /v1/status."""

    async def __call__(self) -> GetStatusAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetHealth:
    """GET /health: Whether the engine answers."""

    operation_id: ClassVar = "get_health"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 405, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.Health
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """405."""

        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[405]] = 405
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class ServiceUnavailable:
        """503."""

        body: models.Health
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[503]] = 503
        media_type: ClassVar = "application/json"


GetHealthAnswer = GetHealth.Ok | GetHealth.Error | GetHealth.ServiceUnavailable


class GetHealthHandler(Protocol):
    """Serves GET /health."""

    async def __call__(self) -> GetHealthAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetLive:
    """GET /v2/health/live: Whether the process should be left alone."""

    operation_id: ClassVar = "get_live"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 405, 500])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.HealthMessage | None = None
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """405."""

        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[405]] = 405
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class InternalServerError:
        """500."""

        body: models.HealthMessage
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[500]] = 500
        media_type: ClassVar = "application/json"


GetLiveAnswer = GetLive.Ok | GetLive.Error | GetLive.InternalServerError


class GetLiveHandler(Protocol):
    """Serves GET /v2/health/live."""

    async def __call__(self) -> GetLiveAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetReady:
    """GET /v2/health/ready: Whether requests are served."""

    operation_id: ClassVar = "get_ready"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 405, 500, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: None = None
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = ""

    @dataclass(frozen=True, slots=True)
    class Error:
        """405."""

        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[405]] = 405
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class InternalServerError:
        """500."""

        body: models.HealthMessage
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[500]] = 500
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class ServiceUnavailable:
        """503."""

        body: models.HealthMessage | None = None
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[503]] = 503
        media_type: ClassVar = "application/json"


GetReadyAnswer = GetReady.Ok | GetReady.Error | GetReady.InternalServerError | GetReady.ServiceUnavailable


class GetReadyHandler(Protocol):
    """Serves GET /v2/health/ready."""

    async def __call__(self) -> GetReadyAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetModelReady:
    """GET /v2/models/{model}/ready: Whether requests for one model are served."""

    operation_id: ClassVar = "get_model_ready"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 404, 405, 500, 503])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: None = None
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = ""

    @dataclass(frozen=True, slots=True)
    class Error:
        """404, 405."""

        status: Literal[404, 405]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [404, 405]:
                raise UnlistedStatusError(f"get_model_ready may not answer {self.status}")

    @dataclass(frozen=True, slots=True)
    class InternalServerError:
        """500."""

        body: models.HealthMessage
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[500]] = 500
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class ServiceUnavailable:
        """503."""

        body: models.HealthMessage | None = None
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[503]] = 503
        media_type: ClassVar = "application/json"


GetModelReadyAnswer = (
    GetModelReady.Ok | GetModelReady.Error | GetModelReady.InternalServerError | GetModelReady.ServiceUnavailable
)


class GetModelReadyHandler(Protocol):
    """Serves GET /v2/models/{model}/ready."""

    async def __call__(self, model: str) -> GetModelReadyAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetTimedHealth:
    """GET /health/timed: Generate one token within 10 seconds."""

    operation_id: ClassVar = "get_timed_health"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 405, 500])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.TimedHealth
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """405, 500."""

        status: Literal[405, 500]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [405, 500]:
                raise UnlistedStatusError(f"get_timed_health may not answer {self.status}")


GetTimedHealthAnswer = GetTimedHealth.Ok | GetTimedHealth.Error


class GetTimedHealthHandler(Protocol):
    """Serves GET /health/timed."""

    async def __call__(self) -> GetTimedHealthAnswer:
        """Answer one request with one of the listed answers."""
        ...


class GetTimedHealthWithin:
    """GET /health/timed-{seconds}: Generate one token within so many seconds."""

    operation_id: ClassVar = "get_timed_health_within"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 404, 405, 500])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.TimedHealth
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """404, 405, 500."""

        status: Literal[404, 405, 500]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [404, 405, 500]:
                raise UnlistedStatusError(f"get_timed_health_within may not answer {self.status}")


GetTimedHealthWithinAnswer = GetTimedHealthWithin.Ok | GetTimedHealthWithin.Error


class GetTimedHealthWithinHandler(Protocol):
    """Serves GET /health/timed-{seconds}."""

    async def __call__(self, seconds: str) -> GetTimedHealthWithinAnswer:
        """Answer one request with one of the listed answers."""
        ...


class StopService:
    """GET /stopService: Let running requests finish, then end the server."""

    operation_id: ClassVar = "stop_service"
    statuses: ClassVar[frozenset[int]] = frozenset([200, 401, 403, 404, 405, 422, 500])

    @dataclass(frozen=True, slots=True)
    class Ok:
        """200."""

        body: models.Stopped
        headers: Mapping[str, str] = field(default_factory=dict)
        status: ClassVar[Literal[200]] = 200
        media_type: ClassVar = "application/json"

    @dataclass(frozen=True, slots=True)
    class Error:
        """401, 403, 404, 405, 422, 500."""

        status: Literal[401, 403, 404, 405, 422, 500]
        body: models.Error | models.OpenAIError
        headers: Mapping[str, str] = field(default_factory=dict)
        media_type: ClassVar = "application/json"

        def __post_init__(self) -> None:
            if self.status not in [401, 403, 404, 405, 422, 500]:
                raise UnlistedStatusError(f"stop_service may not answer {self.status}")


StopServiceAnswer = StopService.Ok | StopService.Error


class StopServiceHandler(Protocol):
    """Serves GET /stopService."""

    async def __call__(self, mode: str | None = None) -> StopServiceAnswer:
        """Answer one request with one of the listed answers."""
        ...


OPERATIONS: Final[dict[str, frozenset[int]]] = {
    "create_chat_completion": CreateChatCompletion.statuses,
    "create_completion": CreateCompletion.statuses,
    "list_models": ListModels.statuses,
    "get_model": GetModel.statuses,
    "load_lora_adapter": LoadLoraAdapter.statuses,
    "unload_lora_adapter": UnloadLoraAdapter.statuses,
    "count_tokens": CountTokens.statuses,
    "stop_inference": StopInference.statuses,
    "get_server": GetServer.statuses,
    "get_model_metadata": GetModelMetadata.statuses,
    "get_model_config": GetModelConfig.statuses,
    "get_slot_count": GetSlotCount.statuses,
    "get_info": GetInfo.statuses,
    "get_config": GetConfig.statuses,
    "get_status": GetStatus.statuses,
    "get_health": GetHealth.statuses,
    "get_live": GetLive.statuses,
    "get_ready": GetReady.statuses,
    "get_model_ready": GetModelReady.statuses,
    "get_timed_health": GetTimedHealth.statuses,
    "get_timed_health_within": GetTimedHealthWithin.statuses,
    "stop_service": StopService.statuses,
}
"""Operation id to the statuses that the contract lists for it."""


@dataclass(frozen=True, slots=True)
class Wire:
    """What goes over the wire for one operation."""

    operation_id: str
    method: str
    path: str
    request: type[ContractModel] | None
    """The model of the body; None for an operation without one."""
    answers: Mapping[int, tuple[type[ContractModel], ...]]
    """Status to the models that a JSON answer may have; none for an answer without a body."""
    events: tuple[type[ContractModel], ...]
    """What an event of a stream may be; none for an operation without streams."""


WIRE: Final[dict[str, Wire]] = {
    "create_chat_completion": Wire(
        "create_chat_completion",
        "POST",
        "/v1/chat/completions",
        models.ChatCompletionRequest,
        {
            200: (models.ChatCompletion,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            413: (models.Error, models.OpenAIError),
            415: (models.Error, models.OpenAIError),
            422: (models.Error, models.OpenAIError),
            424: (models.Error, models.OpenAIError),
            429: (models.Error, models.OpenAIError),
            500: (models.Error, models.OpenAIError),
            503: (models.Error, models.OpenAIError),
        },
        (models.ChatCompletionChunk, models.StreamError),
    ),
    "create_completion": Wire(
        "create_completion",
        "POST",
        "/v1/completions",
        models.CompletionRequest,
        {
            200: (models.Completion,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            413: (models.Error, models.OpenAIError),
            415: (models.Error, models.OpenAIError),
            422: (models.Error, models.OpenAIError),
            424: (models.Error, models.OpenAIError),
            429: (models.Error, models.OpenAIError),
            500: (models.Error, models.OpenAIError),
            503: (models.Error, models.OpenAIError),
        },
        (models.CompletionChunk, models.StreamError),
    ),
    "list_models": Wire(
        "list_models",
        "GET",
        "/v1/models",
        None,
        {
            200: (models.ModelList,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "get_model": Wire(
        "get_model",
        "GET",
        "/v1/models/{model}",
        None,
        {
            200: (models.Model,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            404: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "load_lora_adapter": Wire(
        "load_lora_adapter",
        "POST",
        "/v1/load_lora_adapter",
        models.LoadLoraAdapterRequest,
        {
            200: (models.LoraAdapterStatus,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            404: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            413: (models.Error, models.OpenAIError),
            415: (models.Error, models.OpenAIError),
            422: (models.Error, models.OpenAIError),
            500: (models.Error, models.OpenAIError),
            503: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "unload_lora_adapter": Wire(
        "unload_lora_adapter",
        "POST",
        "/v1/unload_lora_adapter",
        models.UnloadLoraAdapterRequest,
        {
            200: (models.LoraAdapterStatus,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            404: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            413: (models.Error, models.OpenAIError),
            415: (models.Error, models.OpenAIError),
            422: (models.Error, models.OpenAIError),
            500: (models.Error, models.OpenAIError),
            503: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "count_tokens": Wire(
        "count_tokens",
        "POST",
        "/v1/tokenizer",
        models.TokenizerRequest,
        {
            200: (models.TokenizerAnswer,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            413: (models.Error, models.OpenAIError),
            415: (models.Error, models.OpenAIError),
            422: (models.Error, models.OpenAIError),
            500: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "stop_inference": Wire(
        "stop_inference",
        "POST",
        "/v2/models/{model}/stopInfer",
        models.StopInferenceRequest,
        {
            200: (models.StoppedInference,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            404: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            413: (models.Error, models.OpenAIError),
            415: (models.Error, models.OpenAIError),
            422: (models.Error, models.OpenAIError),
            500: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "get_server": Wire(
        "get_server",
        "GET",
        "/v2",
        None,
        {
            200: (models.Server,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            503: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "get_model_metadata": Wire(
        "get_model_metadata",
        "GET",
        "/v2/models/{model}",
        None,
        {
            200: (models.ModelMetadata,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            404: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "get_model_config": Wire(
        "get_model_config",
        "GET",
        "/v2/models/{model}/config",
        None,
        {
            200: (models.ModelConfig,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            404: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            503: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "get_slot_count": Wire(
        "get_slot_count",
        "GET",
        "/v2/models/{model}/getSlotCount",
        None,
        {
            200: (models.SlotCount,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            404: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            503: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "get_info": Wire(
        "get_info",
        "GET",
        "/info",
        None,
        {
            200: (models.Info,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            503: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "get_config": Wire(
        "get_config",
        "GET",
        "/v1/config",
        None,
        {
            200: (models.StaticConfig,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            503: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "get_status": Wire(
        "get_status",
        "GET",
        "/v1/status",
        None,
        {
            200: (models.Status,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            503: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "get_health": Wire(
        "get_health",
        "GET",
        "/health",
        None,
        {
            200: (models.Health,),
            405: (models.Error, models.OpenAIError),
            503: (models.Health,),
        },
        (),
    ),
    "get_live": Wire(
        "get_live",
        "GET",
        "/v2/health/live",
        None,
        {
            200: (models.HealthMessage,),
            405: (models.Error, models.OpenAIError),
            500: (models.HealthMessage,),
        },
        (),
    ),
    "get_ready": Wire(
        "get_ready",
        "GET",
        "/v2/health/ready",
        None,
        {
            200: (),
            405: (models.Error, models.OpenAIError),
            500: (models.HealthMessage,),
            503: (models.HealthMessage,),
        },
        (),
    ),
    "get_model_ready": Wire(
        "get_model_ready",
        "GET",
        "/v2/models/{model}/ready",
        None,
        {
            200: (),
            404: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            500: (models.HealthMessage,),
            503: (models.HealthMessage,),
        },
        (),
    ),
    "get_timed_health": Wire(
        "get_timed_health",
        "GET",
        "/health/timed",
        None,
        {
            200: (models.TimedHealth,),
            405: (models.Error, models.OpenAIError),
            500: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "get_timed_health_within": Wire(
        "get_timed_health_within",
        "GET",
        "/health/timed-{seconds}",
        None,
        {
            200: (models.TimedHealth,),
            404: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            500: (models.Error, models.OpenAIError),
        },
        (),
    ),
    "stop_service": Wire(
        "stop_service",
        "GET",
        "/stopService",
        None,
        {
            200: (models.Stopped,),
            401: (models.Error, models.OpenAIError),
            403: (models.Error, models.OpenAIError),
            404: (models.Error, models.OpenAIError),
            405: (models.Error, models.OpenAIError),
            422: (models.Error, models.OpenAIError),
            500: (models.Error, models.OpenAIError),
        },
        (),
    ),
}
"""Operation id to its wire."""
