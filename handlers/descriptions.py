"""GET /v2, /v2/models/{model}, /v2/models/{model}/config, /info and /v1/config: what is served, with which sizes."""

from __future__ import annotations

from typing import Final

from generated.models import (
    Info,
    InfoModel,
    ModelConfig,
    ModelMetadata,
    Server,
    ServerExtensions,
    StaticConfig,
    Tensor,
)
from generated.operations import (
    GetConfig,
    GetConfigAnswer,
    GetInfo,
    GetInfoAnswer,
    GetModelConfig,
    GetModelConfigAnswer,
    GetModelMetadata,
    GetModelMetadataAnswer,
    GetServer,
    GetServerAnswer,
)
from handlers.models import check_deployed, folder_name
from handlers.service import Service
from handlers.settings import Limits
from handlers.version import VERSION

FIRST_COME: Final = 0
"""MindIE's number for the only policy that there is: first come, first served."""
MOST_CHOICES: Final = 128
"""The contract's limit for best_of."""
AUTOMATIC: Final = -1
"""MindIE's number for a memory of no set size."""


class DescriptionsHandler:
    """Tells what does not change while the server runs. What depends on the model is a 503 until it is loaded."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def get_server(self) -> GetServerAnswer:
        """The server, as Triton describes one."""
        _, limits = self._service.loaded()
        sizes = self._service.settings.engine
        extensions = ServerExtensions(
            max_iter_times=_longest_answer(limits),
            prefill_policy_type=FIRST_COME,
            decode_policy_type=FIRST_COME,
            max_prefill_batch_size=sizes.max_prefill_batch_size,
            max_prefill_tokens=sizes.max_prefill_tokens,
        )
        return GetServer.Ok(Server(name="MindIE Server", version=VERSION, extensions=extensions))

    async def get_model_metadata(self, model: str) -> GetModelMetadataAnswer:
        """What goes in and out. Raises Problem, 404, for a name that is not deployed."""
        check_deployed(self._service, model)
        ids_in, ids_out = (Tensor(name=name, shape=[-1], datatype="UINT32") for name in ("input0", "output0"))
        return GetModelMetadata.Ok(
            ModelMetadata(name=model, platform="MindIE Server", inputs=[ids_in], outputs=[ids_out])
        )

    async def get_model_config(self, model: str) -> GetModelConfigAnswer:
        """How a model is deployed. Raises Problem, 404, for a name that is not deployed."""
        check_deployed(self._service, model)
        _, limits = self._service.loaded()
        sizes = self._service.settings.engine
        return GetModelConfig.Ok(
            ModelConfig(
                model_name=model,
                input_datatype="UINT32",
                output_datatype="UINT32",
                max_seq_len=limits.max_seq_len,
                npu_mem_size=self._memory_gb,
                cpu_mem_size=0,
                world_size=sizes.world_size,
                model_weight_path=folder_name(self._service, model) or "",
                model_instance_type=sizes.instance_type,
            )
        )

    async def get_info(self) -> GetInfoAnswer:
        """The server, as text-generation-inference describes itself."""
        info, limits = self._service.loaded()
        settings = self._service.settings
        model = InfoModel(
            model_device_type=info.device,
            model_dtype=info.dtype,
            model_id=settings.model_name,
            model_pipeline_tag="text-generation",
            model_sha=None,
            max_total_tokens=limits.max_seq_len,
        )
        return GetInfo.Ok(
            Info(
                docker_label=None,
                max_batch_total_tokens=settings.engine.max_prefill_tokens,
                max_best_of=min(settings.max_n, MOST_CHOICES),
                max_concurrent_requests=self._service.front.total_slots,
                max_stop_sequences=None,
                max_waiting_tokens=None,
                sha=None,
                validation_workers=None,
                version=VERSION,
                waiting_served_ratio=None,
                models=[model],
                max_input_length=limits.max_prompt_tokens,
            )
        )

    async def get_config(self) -> GetConfigAnswer:
        """Sizes under MindIE's own names."""
        _, limits = self._service.loaded()
        settings = self._service.settings
        return GetConfig.Ok(
            StaticConfig(
                modelName=settings.model_name,
                maxSeqLen=limits.max_seq_len,
                npuMemSize=self._memory_gb,
                cpuMemSize=0,
                worldSize=settings.engine.world_size,
                maxOutputLen=_longest_answer(limits),
                cacheBlockSize=settings.engine.cache_block_size,
            )
        )

    @property
    def _memory_gb(self) -> int | float:
        """Whole numbers as integers, as MindIE gives them."""
        size_gb = self._service.settings.engine.npu_mem_size
        if size_gb is None:
            return AUTOMATIC
        return int(size_gb) if size_gb == int(size_gb) else size_gb


def _longest_answer(limits: Limits) -> int:
    """Tokens that an answer may have, however short its prompt."""
    return min(limits.max_iter_times, limits.max_seq_len)
