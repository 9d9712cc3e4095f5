"""The adapters that a deployment starts with."""

from __future__ import annotations

from engine.lora_book import AdapterBook
from engine.types import AdapterError, AdapterSource
from handlers.settings import Settings

_SHOWN = 100


def adapter_book(settings: Settings) -> AdapterBook:
    """The adapters that a deployment starts with.

    Raises:
        AdapterError: they cannot be had together, or not on this model; the message says which and why.
    """
    for module in settings.lora_modules:
        if module.base_model_name not in ("", settings.model_name):
            raise AdapterError(
                f"the adapter {module.name[:_SHOWN]!r} is for the model {module.base_model_name[:_SHOWN]!r} "
                f"(its baseModelName), and {settings.model_name!r} is deployed."
            )
        if module.name == settings.model_name:
            raise AdapterError(f"an adapter cannot have the deployed model's name, {module.name[:_SHOWN]!r}.")
    sources = [AdapterSource(module.name, str(module.path)) for module in settings.lora_modules]
    return AdapterBook(sources, settings.adapter_limits())
