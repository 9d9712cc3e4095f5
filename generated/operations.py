"""For each operation: what a handler is, and the only answers that it may give. Generated from the spec; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Protocol

from . import models


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


OPERATIONS: Final[dict[str, frozenset[int]]] = {
    "create_chat_completion": CreateChatCompletion.statuses,
    "create_completion": CreateCompletion.statuses,
    "list_models": ListModels.statuses,
    "get_model": GetModel.statuses,
    "load_lora_adapter": LoadLoraAdapter.statuses,
    "unload_lora_adapter": UnloadLoraAdapter.statuses,
    "get_health": GetHealth.statuses,
}
"""Operation id to the statuses that the contract lists for it."""
