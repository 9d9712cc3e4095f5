"""What a config.json becomes: values for the options of the command line, which wins where it says the same."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from generated.config_keys import KEYS, VARIABLES
from handlers.config_file import ConfigError, ConfigFile, Fault, plugins_of
from handlers.template_file import deployed_template
from tools.config.access import ACCESS_KEYS, HTTPS, access_options
from tools.config.media import MEDIA_KEYS, MEDIA_OPTIONS, media_notes, media_options
from tools.config.ranks import shared_out
from tools.config.weights import WeightsFacts

MODEL_PATH: Final = "BackendConfig.ModelDeployConfig.ModelConfig[0]"
SLOWEST: Final = {"token_timeout": 3600, "e2e_timeout": 65535}
"""The timeouts under EnableDynamicAdjustTimeoutConfig."""
OPTIONS: Final[Mapping[str, str]] = {
    "ServerConfig.ipAddress": "host",
    "ServerConfig.port": "port",
    "ServerConfig.fullTextEnabled": "full_text_enabled",
    "ServerConfig.openAiSupport": "open_ai_support",
    "ServerConfig.tokenTimeout": "token_timeout",
    "ServerConfig.e2eTimeout": "e2e_timeout",
    "ServerConfig.maxRequestLength": "max_request_length",
    "ServerConfig.maxJsonDepth": "max_json_depth",
    "ServerConfig.maxLinkNum": "max_link_num",
    "ServerConfig.maxConnections": "max_connections",
    "ServerConfig.maxOtherConnections": "max_other_connections",
    "ServerConfig.sendBufferBytes": "send_buffer_bytes",
    "ServerConfig.lingerTime": "linger",
    "ServerConfig.headerTimeout": "header_timeout",
    "ServerConfig.bodyTimeout": "body_timeout",
    "ServerConfig.writeTimeout": "write_timeout",
    "ServerConfig.keepAliveTimeout": "keep_alive",
    "ServerConfig.maxHeaderBytes": "max_header_bytes",
    "ServerConfig.maxHeaders": "max_headers",
    "ServerConfig.drainTimeout": "drain_timeout",
    "ServerConfig.strictUnknown": "strict_unknown",
    "ServerConfig.managementIpAddress": "management_host",
    "ServerConfig.managementPort": "management_port",
    "ServerConfig.metricsPort": "metrics_port",
    "ServerConfig.allowAllZeroIpListening": "allow_all_zero_ip",
    "ServerConfig.tlsClientAuth": "tls_client_auth",
    "ServerConfig.managementTlsClientAuth": "management_tls_client_auth",
    "ServerConfig.metricsTlsClientAuth": "metrics_tls_client_auth",
    "ServerConfig.HealthCheckConfig.npuUsageThreshold": "npu_usage_threshold",
    "BackendConfig.modelInstanceNumber": "instances",
    "BackendConfig.npuDeviceIds": "npu_device_ids",
    "BackendConfig.engineStallSeconds": "engine_stall_seconds",
    "BackendConfig.ModelDeployConfig.maxSeqLen": "max_seq_len",
    "BackendConfig.ModelDeployConfig.maxInputTokenLen": "max_input_token_len",
    "BackendConfig.ModelDeployConfig.maxLoras": "max_loras",
    "BackendConfig.ModelDeployConfig.maxLoraRank": "max_lora_rank",
    f"{MODEL_PATH}.modelName": "model_name",
    f"{MODEL_PATH}.trustRemoteCode": "trust_remote_code",
    "BackendConfig.ScheduleConfig.templateType": "template_type",
    "BackendConfig.ScheduleConfig.cacheBlockSize": "cache_block_size",
    "BackendConfig.ScheduleConfig.maxPrefillTokens": "max_prefill_tokens",
    "BackendConfig.ScheduleConfig.maxBatchSize": "max_batch_size",
    "BackendConfig.ScheduleConfig.maxIterTimes": "max_iter_times",
    "BackendConfig.ScheduleConfig.maxN": "max_n",
    "BackendConfig.ScheduleConfig.prefillChunkSize": "prefill_chunk_size",
    "BackendConfig.ScheduleConfig.maxNumPartialPrefills": "max_num_partial_prefills",
    "BackendConfig.ScheduleConfig.maxLongPartialPrefills": "max_long_partial_prefills",
    "BackendConfig.ScheduleConfig.longPrefillTokenThreshold": "long_prefill_token_threshold",
    "BackendConfig.ScheduleConfig.maxQueue": "max_queue",
    **MEDIA_OPTIONS,
}
"""Keys that are one option each, with the same values."""
HANDLED: Final = frozenset(
    {
        "EnableDynamicAdjustTimeoutConfig",
        *ACCESS_KEYS,
        *MEDIA_KEYS,
        "ServerConfig.relaxedRules",
        "ServerConfig.compatRefusals",
        "BackendConfig.ModelDeployConfig.truncation",
        "BackendConfig.ModelDeployConfig.LoraModules",
        "BackendConfig.ModelDeployConfig.loraDirectory",
        "BackendConfig.ModelDeployConfig.ModelConfig",
        "BackendConfig.ScheduleConfig.maxPrefillBatchSize",
        *(f"BackendConfig.ModelDeployConfig.LoraModules[].{name}" for name in ("name", "path", "baseModelName")),
        *(
            f"BackendConfig.ModelDeployConfig.ModelConfig[].{name}"
            for name in ("modelInstanceType", "modelWeightPath", "npuMemSize", "plugin_params", "models", "worldSize")
        ),
        *(
            f"BackendConfig.ModelDeployConfig.ModelConfig[].models.*.{name}"
            for name in ("enable_reasoning", "chat_template", "early_stopping_text")
        ),
        "BackendConfig.ModelDeployConfig.ModelConfig[].models.*.tool_call_options.tool_call_parser",
        *(f"LogConfig.dynamicLogLevel{name}" for name in ("", "ValidHours", "ValidTime")),
    }
)
"""Other honoured keys that the functions here, the rules, or the reload act on."""
TOOL_PARSERS: Final[Mapping[str, str]] = {
    "chatglm2": "none",
    "chatglm3": "chatglm3",
    **dict.fromkeys(("glm_4", "chatglm4_9b", "glm4"), "glm4"),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), "deepseek_v3"),
    "deepseek_v31": "deepseek_v31",
    **dict.fromkeys(("llama", "llama3", "llama3_1"), "llama3_json"),
    **dict.fromkeys(("qwen1_5", "qwen2", "qwen2_5", "qwen3", "qwen3_moe", "hermes"), "hermes"),
}
"""MindIE's names of parsers, and the families here that read the same; our own names are taken too."""
_MODEL_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "deepseekv2": ("deepseek_v2", "deepseek_v3", "deepseekv2"),
    "deepseek_v32": ("deepseek_v32", "deepseekv32"),
}
"""Keys of ``models`` that stand for other model_types than their own name."""
_FEATURES: Final[Mapping[str, str]] = {
    "prefix_cache": "prefix_cache",
    "mtp": "mtp",
    "splitfuse": "splitfuse",
    "la": "parallel_decoding",
    "memory_decoding": "parallel_decoding",
}
"""Plugins, and the features of a profile that stand for their limits."""
_SWITCHES: Final[Mapping[str, tuple[str, Mapping[str, object]]]] = {
    "MIES_SERVICE_MONITOR_MODE": ("metrics", {"0": False, "1": True}),
    "MINDIE_LOG_TO_STDOUT": ("log_stream", {"0": "stderr", "1": "stdout", "false": "stderr", "true": "stdout"}),
}
"""Variables of a few values: their option, and what each becomes."""
_LEVELS: Final = ("DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL")


@dataclass
class Chosen:
    """What a file, the environment and the weights together choose."""

    file: ConfigFile
    options: dict[str, Any] = field(default_factory=dict)
    """Defaults for the options of `mindspec serve`."""
    environment: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """Path of a key: the variable that wins over it, and its value."""
    notes: list[Fault] = field(default_factory=list)
    """What the operator ought to know besides what ``file`` names."""


def is_mock(file: ConfigFile) -> bool:
    """Whether the file asks for made-up answers."""
    return bool(file.value(f"{MODEL_PATH}.modelInstanceType") == "StandardMock")


def weights_path(file: ConfigFile) -> Path | None:
    """The folder that the file names."""
    found = file.value(f"{MODEL_PATH}.modelWeightPath")
    return None if found is None else located(file, found)


def located(file: ConfigFile, text: str) -> Path:
    """A path of the file: relative ones start at its folder, or at the one above where that is MindIE's ``conf``."""
    return _home(file) / text


def _home(file: ConfigFile) -> Path:
    folder = file.path.resolve().parent
    return folder.parent if folder.name == "conf" else folder


def choose(file: ConfigFile, environment: Mapping[str, str], weights: WeightsFacts | None) -> Chosen:
    """The options of a file.

    Args:
        file: a file that has been checked.
        environment: the process's variables.
        weights: None where no weights are loaded.

    Raises:
        ConfigError: values that only now turn out to be wrong: of variables, and files that cannot be used.
    """
    chosen = Chosen(file)
    faults: list[Fault] = []
    options = chosen.options
    for key, option in OPTIONS.items():
        value = file.value(key)
        if value is not None:
            options[option] = value
    for step in STEPS:
        faults += step(chosen, environment, weights)
    if file.value("EnableDynamicAdjustTimeoutConfig"):
        options.update(SLOWEST)
    rules = file.value("ServerConfig.relaxedRules")
    if rules:
        faults += _relaxed(chosen, rules)
    if faults:
        raise ConfigError(file.path, faults)
    return chosen


Step = Callable[[Chosen, Mapping[str, str], WeightsFacts | None], Iterator[Fault]]


def _address(chosen: Chosen, environment: Mapping[str, str], _: WeightsFacts | None) -> Iterator[Fault]:
    for key, known in KEYS.items():
        text = environment.get(known.environment or "")
        if known.environment is None or known.form != "ip" or not text:
            continue
        try:
            zeros = ipaddress.ip_address(text).is_unspecified
        except ValueError:
            yield Fault(known.environment, f"is {text[:100]!r}; it must be an IPv4 or IPv6 address")
            continue
        if zeros and not chosen.file.value("ServerConfig.allowAllZeroIpListening"):
            yield Fault(
                known.environment, f"is {text}, which listens on every network and needs allowAllZeroIpListening true"
            )
        chosen.environment[key] = (known.environment, text)
        if key in OPTIONS:
            chosen.options[OPTIONS[key]] = text


def _guards(chosen: Chosen, _: Mapping[str, str], __: WeightsFacts | None) -> Iterator[Fault]:
    chosen.options.update(access_options(chosen.file, _home(chosen.file)))
    if chosen.file.value(HTTPS) is None:
        chosen.notes.append(Fault(HTTPS, "is absent, which means true: HTTPS is served"))
    yield from ()


def _media(chosen: Chosen, environment: Mapping[str, str], _: WeightsFacts | None) -> Iterator[Fault]:
    options, won, faults = media_options(chosen.file, _home(chosen.file), environment)
    chosen.options.update(options)
    chosen.environment.update(won)
    chosen.notes += media_notes(chosen.options)
    yield from faults


def _lengths(chosen: Chosen, _: Mapping[str, str], weights: WeightsFacts | None) -> Iterator[Fault]:
    chosen.options["truncation"] = _cut(chosen.file.value("BackendConfig.ModelDeployConfig.truncation"))
    asked = chosen.options.get("max_seq_len")
    longest = None if weights is None else weights.max_position_embeddings
    if asked is not None and longest is not None and asked > longest:
        message = f"is {asked}, more than the {longest} positions of the weights, where sequences end"
        chosen.notes.append(Fault("BackendConfig.ModelDeployConfig.maxSeqLen", message))
    yield from ()


def _cut(value: int | bool | None) -> int:
    """MindIE's truncation as a number; true cuts as -1 does."""
    return -1 if value is True else int(value or 0)


def _prefills(chosen: Chosen, _: Mapping[str, str], __: WeightsFacts | None) -> Iterator[Fault]:
    asked = chosen.file.value("BackendConfig.ScheduleConfig.maxPrefillBatchSize")
    if asked is not None:
        # 0 means as many as run at the same time; the server takes the smaller of the two.
        chosen.options["max_prefill_batch_size"] = asked or 819200
    yield from ()


def _memory(chosen: Chosen, environment: Mapping[str, str], weights: WeightsFacts | None) -> Iterator[Fault]:
    asked = chosen.file.value(f"{MODEL_PATH}.npuMemSize")
    if asked is not None and asked > 0:
        chosen.options["npu_mem_size"] = asked
        return
    text = environment.get("NPU_MEMORY_FRACTION")
    if not text:
        return
    try:
        fraction = float(text)
    except ValueError:
        fraction = 0.0
    if not 0 < fraction <= 1:
        yield Fault("NPU_MEMORY_FRACTION", f"is {text[:100]!r}; it must be a number above 0 and at most 1")
        return
    chosen.environment[f"{MODEL_PATH}.npuMemSize"] = ("NPU_MEMORY_FRACTION", fraction)
    chosen.options["npu_memory_fraction"] = fraction


def _ranks(chosen: Chosen, _: Mapping[str, str], weights: WeightsFacts | None) -> Iterator[Fault]:
    yield from shared_out(chosen.file.value(f"{MODEL_PATH}.worldSize"), weights, chosen.options, chosen.notes)


def _adapters(chosen: Chosen, _: Mapping[str, str], weights: WeightsFacts | None) -> Iterator[Fault]:
    modules = chosen.file.value("BackendConfig.ModelDeployConfig.LoraModules")
    if modules is not None:
        chosen.options["lora"] = [(module["name"], located(chosen.file, module["path"])) for module in modules]
    elif weights is not None and weights.adapters:
        chosen.options["lora"] = list(weights.adapters)
    folder = chosen.file.value("BackendConfig.ModelDeployConfig.loraDirectory")
    if folder:
        chosen.options["lora_dir"] = located(chosen.file, folder)
    yield from ()


def _plugins(chosen: Chosen, _: Mapping[str, str], weights: WeightsFacts | None) -> Iterator[Fault]:
    path = f"{MODEL_PATH}.plugin_params"
    plugins = plugins_of(chosen.file.value(path) or "")
    chosen.options["prefix_cache"] = "prefix_cache" in plugins
    for name in plugins:
        if name != "prefix_cache":
            chosen.notes.append(Fault(path, f"names {name}, which has no meaning here"))
    if chosen.file.value("ServerConfig.compatRefusals"):
        profile = [_FEATURES[name] for name in plugins]
        profile += ["pd"] * (chosen.file.value("ServerConfig.inferMode") == "dmi")
        profile += ["reasoning"] * bool((_own_options(chosen, weights) or {}).get("enable_reasoning"))
        profile += ["deepseek"] * (weights is not None and weights.model_type.startswith("deepseek"))
        chosen.options["profile"] = tuple(dict.fromkeys(profile))
    yield from ()


def _own_options(chosen: Chosen, weights: WeightsFacts | None) -> dict[str, Any] | None:
    """The entry of ``models`` that is for the deployed weights."""
    found: dict[str, Any] | None = None
    for name, options in (chosen.file.value(f"{MODEL_PATH}.models") or {}).items():
        if weights is None or weights.model_type in _MODEL_TYPES.get(name, (name,)):
            found = options
    return found


def _model_options(chosen: Chosen, _: Mapping[str, str], weights: WeightsFacts | None) -> Iterator[Fault]:
    own = _own_options(chosen, weights)
    for name, options in (chosen.file.value(f"{MODEL_PATH}.models") or {}).items():
        if options is not own and weights is not None:
            kind = weights.model_type or "unknown"
            message = f"has no effect: the model_type of the weights is {kind}"
            chosen.notes.append(Fault(f"{MODEL_PATH}.models.{name}", message))
    own = own or {}
    chosen.options["reasoning_parser"] = "auto" if own.get("enable_reasoning") else "none"
    if own.get("early_stopping_text"):
        chosen.options["early_stopping_text"] = own["early_stopping_text"]
    name = next((n for n, options in (chosen.file.value(f"{MODEL_PATH}.models") or {}).items() if options is own), "")
    if own.get("chat_template"):
        template = located(chosen.file, own["chat_template"])
        chosen.options["chat_template"] = str(template)  # read as what the command line gives
        try:
            deployed_template(template)
        except ValueError as error:
            yield Fault(f"{MODEL_PATH}.models.{name}.chat_template", str(error))
    parser = (own.get("tool_call_options") or {}).get("tool_call_parser")
    if parser:
        chosen.options["tool_parser"] = _tool_parser(chosen, f"{MODEL_PATH}.models.{name}", parser)


def _tool_parser(chosen: Chosen, where: str, name: str) -> str:
    from handlers.answer_forms import tool_parsers

    if name in TOOL_PARSERS:
        return TOOL_PARSERS[name]
    if name in tool_parsers():
        return name
    known = ", ".join(sorted({*TOOL_PARSERS, *tool_parsers()}))
    message = f"is {name[:100]!r}, which is not known; calls are read as the chat template shows. Known are {known}"
    chosen.notes.append(Fault(f"{where}.tool_call_options.tool_call_parser", message))
    return "auto"


def _variables(chosen: Chosen, environment: Mapping[str, str], _: WeightsFacts | None) -> Iterator[Fault]:
    for name, variable in VARIABLES.items():
        if not variable.honoured and environment.get(name):
            chosen.notes.append(Fault(name, f"has no meaning here: {variable.effect}"))
    for name, (option, values) in _SWITCHES.items():
        text = environment.get(name)
        if text and text.lower() in values:
            chosen.options[option] = values[text.lower()]
        elif text:
            yield Fault(name, f"is {text[:100]!r}; it must be {' or '.join(values)}")
    window = environment.get("DYNAMIC_AVERAGE_WINDOW_SIZE")
    if window and not (window.isdecimal() and int(window[:9]) > 0):
        yield Fault("DYNAMIC_AVERAGE_WINDOW_SIZE", f"is {window[:100]!r}; it must be a whole number of at least 1")
    elif window:
        chosen.options["average_window"] = min(int(window[:9]), 10**6)
    if environment.get("REMOVE_GENERATION_CONFIG_DICT") == "1":
        chosen.options["generation_config"] = False
    level = environment.get("MINDIE_LOG_LEVEL")
    if level and level.upper() not in _LEVELS:
        yield Fault("MINDIE_LOG_LEVEL", f"is {level[:100]!r}; it must be one of {', '.join(_LEVELS)}")
    elif level:
        chosen.options["log_level"] = level.lower()


def _relaxed(chosen: Chosen, rules: list[str]) -> list[Fault]:
    from generated.rules import RULES

    unknown = [name for name in rules if name not in RULES or not RULES[name].relaxable]
    chosen.options["relaxed_rules"] = tuple(rules)
    known = ", ".join(name for name, rule in RULES.items() if rule.relaxable)
    return [
        Fault("ServerConfig.relaxedRules", f"names {name!r}; rules that can be relaxed are {known}") for name in unknown
    ]


STEPS: Final[tuple[Step, ...]] = (
    *(_address, _guards, _media, _lengths, _prefills, _memory, _ranks, _adapters, _plugins, _model_options, _variables),
)
"""What a file becomes beside ``OPTIONS``."""
