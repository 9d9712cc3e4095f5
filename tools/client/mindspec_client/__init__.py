"""The contract of the MindIE LLM API for client code: check a request, read the corpus, draw requests for tests.

Names are loaded when they are first asked for, so that pytest, which loads this package's plugin at every start, does
not pay for the models.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .cases import Case, Corpus, corpus
    from .checking import Breach, Refused, breaches, validate
    from .contract.models import ChatCompletionRequest as ChatRequest
    from .contract.models import CompletionRequest
    from .contract.rules import Deployment
    from .endpoints import deployment, endpoints, profiles

__all__ = [
    "Breach",
    "Case",
    "ChatRequest",
    "CompletionRequest",
    "Corpus",
    "Deployment",
    "Refused",
    "breaches",
    "corpus",
    "deployment",
    "endpoints",
    "profiles",
    "validate",
]

_HOMES: Final = {
    "Breach": ("checking", "Breach"),
    "Case": ("cases", "Case"),
    "ChatRequest": ("contract.models", "ChatCompletionRequest"),
    "CompletionRequest": ("contract.models", "CompletionRequest"),
    "Corpus": ("cases", "Corpus"),
    "Deployment": ("contract.rules", "Deployment"),
    "Refused": ("checking", "Refused"),
    "breaches": ("checking", "breaches"),
    "corpus": ("cases", "corpus"),
    "deployment": ("endpoints", "deployment"),
    "endpoints": ("endpoints", "endpoints"),
    "profiles": ("endpoints", "profiles"),
    "validate": ("checking", "validate"),
}
"""Public name to its module and its name there."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"mindspec_client has no {name}")
    module, attribute = _HOMES[name]
    return getattr(import_module(f".{module}", __name__), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
