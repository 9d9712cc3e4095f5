"""The settings of one deployment, under MindIE's own names in snake case where MindIE has one."""

from __future__ import annotations

import contextlib
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from engine.lora_book import AdapterLimits
from generated.rules import Deployment
from handlers.api_keys import Access
from handlers.engine_settings import EngineSettings
from handlers.health_limits import HealthLimits
from handlers.link_limits import LinkLimits
from handlers.log_settings import LogSettings
from handlers.media.limits import MediaLimits
from handlers.planes import Planes, addresses
from handlers.strict_json import JsonLimits
from handlers.tls import Tls

MAX_PROMPT_TOKENS = 1_048_576
"""The contract's own ceiling for a prompt, whatever the model allows."""


@dataclass(frozen=True, slots=True)
class LoraModule:
    """An entry of MindIE's LoraModules."""

    name: str
    path: Path
    """Folder with adapter_config.json and adapter_model.safetensors."""
    base_model_name: str = ""
    """The model that it changes; empty: the deployed one."""


@dataclass(frozen=True)
class Settings:
    """What an operator may choose. Every field has a working default, so ``Settings(model_name="x")`` serves.

    Fields named as in MindIE's config.json keep its meaning: ``max_seq_len`` is its ``maxSeqLen`` and so on.
    """

    model_name: str
    """The name that requests must use."""
    weights_name: str | None = None
    """Name of the folder that the weights come from."""
    lora_modules: tuple[LoraModule, ...] = ()
    """LoRA adapters to start with; requests name one as the model."""
    max_loras: int = 0
    """Adapters at the same time; 0: those of ``lora_modules``, and no other is loaded while the server runs."""
    max_lora_rank: int = 0
    """Largest rank of an adapter; 0: any, and none is loaded while the server runs."""
    lora_dir: Path | None = None
    """The only folder from which adapters may be loaded while the server runs; None: none may."""
    host: str = "127.0.0.1"
    port: int = 1025
    planes: Planes = field(default_factory=Planes)
    """Where the management and the metrics plane listen; by default with the business plane."""
    tls: Tls = field(default_factory=Tls)
    access: Access = field(default_factory=Access)
    health: HealthLimits = field(default_factory=HealthLimits)
    links: LinkLimits = field(default_factory=LinkLimits)
    """Of connections, and of the requests on them."""
    engine: EngineSettings = field(default_factory=EngineSettings)
    """The sizes that each instance of the engine has."""
    instances: int = 1
    """Engine processes behind this server, MindIE's modelInstanceNumber."""
    metrics: bool = True
    """Serve GET /metrics beside the contract's paths."""
    metrics_vllm: bool = False
    """Show vLLM's names for metrics beside MindIE's."""
    average_window_requests: int = 1000
    """Requests that averages look back over at most; MindIE's DYNAMIC_AVERAGE_WINDOW_SIZE."""
    logs: LogSettings = field(default_factory=LogSettings)
    media: MediaLimits = field(default_factory=MediaLimits)
    """Of images, video and audio in requests."""

    max_n: int = 128
    """Choices per request at most, for n, best_of and the beam width."""
    max_seq_len: int | None = None
    """Prompt and output tokens together; None: the model's max_position_embeddings."""
    max_iter_times: int | None = None
    """Output tokens per choice at most; None: max_seq_len."""
    max_input_token_len: int | None = None
    """Prompt tokens at most; None: no limit besides the others."""
    truncation: int = 0
    """What becomes of a prompt with more: 0 refuses it, -1 keeps its beginning, 1 keeps its end."""
    max_request_length: float = 40
    """Largest request body in MB (1024 * 1024 bytes)."""
    max_json_depth: int = 100
    """Arrays and objects inside each other at most."""
    max_json_containers: int = 200_000
    """Arrays and objects of a body at most."""
    max_json_members: int = 500_000
    """Members of all objects of a body together at most."""
    max_json_values: int = 2_500_000
    """Values of a body at most; well above the 1048576 token ids that the longest prompt may have."""

    full_text_enabled: bool = False
    """Streamed chat events carry the text so far instead of the new text."""
    open_ai_support: str = "vllm"
    """"vllm" answers in MindIE's form; anything else answers in OpenAI's."""
    strict_unknown: bool = False
    """Refuse unknown fields instead of naming them in a response header."""
    relaxed_rules: tuple[str, ...] = ()
    """Ids of rules of the tools family that this deployment does not apply."""
    features: tuple[str, ...] = ()
    """MindIE engine features whose limits the contract shall apply (mtp, pd, prefix_cache, ...)."""
    model_type: str = ""
    """Model family whose limits the contract shall apply ("deepseek")."""

    token_timeout: float = 600
    """Seconds until the first token, and between two, at most."""
    e2e_timeout: float = 600
    """Seconds for a whole request at most, from its arrival."""
    tool_parser: str = "auto"
    """How the model writes tool calls: a family's name, "auto" (as its chat template shows) or "none"."""
    reasoning_parser: str = "auto"
    """How the model marks its thinking: likewise; with "none" thinking stays in the content."""

    early_stopping_text: str | None = None
    """What closes a thought at its ``thinking_budget``, up to the closing mark; None: that mark alone."""

    retry_after_s: int = 1
    """What a refused client is told to wait, in seconds."""
    drain_timeout_s: float = 25.0
    """How long running requests may go on after a stop signal, in seconds."""

    chat_template: str | None = None
    """Jinja text in place of the model's own; in MindIE, models.<model_type>.chat_template names a file of it."""
    chat_template_dir: Path | None = None
    """The only folder from which a request may name a chat template file; None: files are refused."""
    template_time_s: float = 1.5
    """Time limit for rendering a request's own chat template, in seconds."""
    template_wait_s: float = 10.0
    """How long such a rendering may wait for one of the processes, in seconds."""
    template_output_bytes: int = 8 * 1024 * 1024
    """Size limit for what such a template writes, in bytes of UTF-8."""
    template_memory_bytes: int = 512 * 1024 * 1024
    """Memory limit of a process that renders such templates, in bytes."""
    template_workers: int = 2
    """Processes that render requests' own templates; started when first needed."""

    max_schema_bytes: int = 262_144
    """The schemas of one request together at most, in bytes of JSON, where an answer is held to them."""
    max_schema_depth: int = 32
    """Schemas inside each other at most."""
    max_schema_properties: int = 1000
    """Properties of all schemas of one request at most."""
    schema_time_s: float = 1.0
    """Time limit for making a grammar of a request's schemas, in seconds."""
    schema_wait_s: float = 10.0
    """How long that may wait for one of the processes, in seconds."""
    schema_memory_bytes: int = 1024 * 1024 * 1024
    schema_workers: int = 2
    """Processes that read schemas; started when first needed."""

    @property
    def stops_by_request(self) -> bool:
        """Whether GET /stopService is offered: not to everybody who may send requests from elsewhere."""
        listens = addresses(self.host, self.port, self.planes)
        return listens["management"] != listens["business"] or is_loopback(self.host)

    @property
    def openai_form(self) -> bool:
        """Whether answers and errors have OpenAI's shape."""
        return self.open_ai_support != "vllm"

    @property
    def max_request_bytes(self) -> int:
        """Largest request body, in bytes."""
        return int(self.max_request_length * 1024 * 1024)

    def json_limits(self) -> JsonLimits:
        """How large the structure of a body may be."""
        return JsonLimits(self.max_json_depth, self.max_json_containers, self.max_json_members, self.max_json_values)

    def adapter_limits(self) -> AdapterLimits:
        """How many adapters there may be, and how large."""
        return AdapterLimits(self.max_loras, self.max_lora_rank)

    def deployment(self) -> Deployment:
        """What the contract's rules may ask about this deployment."""
        return Deployment(
            features=frozenset(self.features),
            model_type=self.model_type,
            openai_form=self.openai_form,
            relaxed_rules=frozenset(self.relaxed_rules),
            strict_unknown=self.strict_unknown,
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on ``host``."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


@dataclass(frozen=True)
class Limits:
    """The token limits of a deployment once the model is known."""

    max_seq_len: int
    max_iter_times: int
    max_prompt_tokens: int

    @classmethod
    def of(cls, settings: Settings, max_position_embeddings: int) -> Limits:
        """Combine the settings with the model's own length.

        A prompt has at most min(max_input_token_len, max_seq_len - 1, max_position_embeddings, 1048576) tokens.
        """
        max_seq_len = min(settings.max_seq_len or max_position_embeddings, max_position_embeddings)
        bounds = [max_seq_len - 1, max_position_embeddings, MAX_PROMPT_TOKENS]
        if settings.max_input_token_len is not None:
            bounds.append(settings.max_input_token_len)
        return cls(max_seq_len, settings.max_iter_times or max_seq_len, min(bounds))

    def output_tokens(self, prompt_tokens: int, max_tokens: int | None) -> int:
        """How many tokens a choice may have after a prompt of ``prompt_tokens`` (>= 1 for any accepted prompt)."""
        room = min(self.max_iter_times, self.max_seq_len - prompt_tokens)
        return room if max_tokens is None else min(room, max_tokens)
