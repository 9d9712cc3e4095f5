"""POST /v1/load_lora_adapter and POST /v1/unload_lora_adapter, where a deployment offers them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine.types import AdapterError, AdapterSource, EngineError
from generated.models import LoadLoraAdapterRequest, LoraAdapterStatus, UnloadLoraAdapterRequest
from generated.operations import LoadLoraAdapter, LoadLoraAdapterAnswer, UnloadLoraAdapter, UnloadLoraAdapterAnswer
from handlers.errors import Problem, refused
from handlers.service import Service

ADAPTER_CODE = "adapter"
"""The code of every refusal that concerns an adapter."""
_SHOWN = 100


class AdaptersHandler:
    """Loads and unloads adapters while the server runs."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def load(self, request: LoadLoraAdapterRequest) -> LoadLoraAdapterAnswer:
        """Load an adapter; the answer comes when requests may name it.

        Raises:
            Problem: 404 where this is not offered; 422 for an adapter that cannot be loaded, with what is wrong;
                503 while requests are not served.
        """
        service, name = self._service, request.lora_name
        folder = self._folder()
        deployed = service.settings.model_name
        if request.master_model not in (None, deployed):
            shown = str(request.master_model)[:_SHOWN]
            raise _refused(f"Input invalid master model: {shown!r} is not deployed, {deployed!r} is", "master_model")
        if name == deployed:
            raise _refused(f"Input invalid lora name: {name[:_SHOWN]!r} is the deployed model", "lora_name")
        try:
            path = await asyncio.to_thread(_inside, folder, request.lora_path)
        except AdapterError as error:
            raise _refused(f"Input invalid lora path: {error}", "lora_path") from None
        try:
            await service.front.load_adapter(AdapterSource(name, str(path)))
        except AdapterError as error:
            raise _refused(f"The adapter {name[:_SHOWN]!r} cannot be loaded: {error}") from None
        except EngineError as error:
            raise service.problem(error) from None
        return LoadLoraAdapter.Ok(LoraAdapterStatus(status=f"The adapter {name!r} is loaded."))

    async def unload(self, request: UnloadLoraAdapterRequest) -> UnloadLoraAdapterAnswer:
        """Take an adapter from new requests.

        Raises:
            Problem: 404 where this is not offered; 422 for an adapter that is not loaded.
        """
        self._folder()
        name = request.lora_name
        try:
            self._service.front.unload_adapter(name)
        except AdapterError as error:
            raise _refused(f"The adapter {name[:_SHOWN]!r} cannot be unloaded: {error}", "lora_name") from None
        return UnloadLoraAdapter.Ok(LoraAdapterStatus(status=f"The adapter {name!r} is unloaded."))

    def _folder(self) -> Path:
        settings = self._service.settings
        if settings.lora_dir is None or not settings.adapter_limits().allow_loading:
            message = (
                "This deployment loads no adapters while it runs; that needs maxLoras and maxLoraRank above 0 and a "
                "folder for adapters (--lora-dir)"
            )
            raise Problem(404, "not_found", message)
        return settings.lora_dir


def _inside(folder: Path, wanted: str) -> Path:
    """The adapter's folder, links resolved. Raises AdapterError when it, or a file of it, lies outside ``folder``."""
    if "\0" in wanted or ".." in Path(wanted).parts:
        raise AdapterError("it must not have '..' or null characters in it.")
    try:
        allowed = folder.resolve()
        path = (allowed / wanted).resolve()
        if not path.is_relative_to(allowed) or path == allowed:
            raise AdapterError("it does not lie in this deployment's folder for adapters.")
        if not path.is_dir():
            raise AdapterError("there is no such folder in this deployment's folder for adapters.")
        for file in path.iterdir():
            if not file.resolve().is_relative_to(allowed):
                raise AdapterError(f"its {file.name[:_SHOWN]!r} leads out of this deployment's folder for adapters.")
    except (OSError, RuntimeError) as error:
        raise AdapterError("it cannot be looked at.") from error
    return path


def _refused(message: str, param: str | None = None) -> Problem:
    return refused(ADAPTER_CODE, message.removesuffix("."), param)
